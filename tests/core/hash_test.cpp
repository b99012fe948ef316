#include "muster/core/hash.h"

#include <catch2/catch.hpp>

namespace muster {
namespace {

TEST_CASE("digests are the published ones") {
  // FIPS 180 examples.
  CHECK(Sha1Hex("abc") == "a9993e364706816aba3e25717850c26c9cd0d89d");
  CHECK(Sha1Hex("") == "da39a3ee5e6b4b0d3255bfef95601890afd80709");
  CHECK(Sha256Hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_CASE("base64 is the standard one") {
  // RFC 4648, section 10.
  for (const auto& [plain, coded] : {std::pair{"", ""},
                                     {"f", "Zg=="},
                                     {"fo", "Zm8="},
                                     {"foo", "Zm9v"},
                                     {"foob", "Zm9vYg=="},
                                     {"fooba", "Zm9vYmE="},
                                     {"foobar", "Zm9vYmFy"}}) {
    CHECK(Base64Encode(plain) == coded);
    std::string out = "old";
    REQUIRE(Base64Decode(coded, &out));
    CHECK(out == plain);
  }
  std::string out;
  CHECK(Base64Decode("Zm9v\nYmFy\r\n", &out));
  CHECK(out == "foobar");
  for (const char* bad : {"Zg", "Zg=", "Z", "Zm9v!", "Zg..", "Zm9vYmF", "-_-_"}) {
    INFO(bad);
    CHECK_FALSE(Base64Decode(bad, &out));
  }
}

TEST_CASE("a state hash depends on the fields and their borders") {
  CHECK(StateHash().Add("ab").Add("c").value() != StateHash().Add("a").Add("bc").value());
  CHECK(StateHash().Add("").value() != StateHash().value());
  CHECK(StateHash().Add(int64_t{1}).value() != StateHash().Add(int64_t{256}).value());
  // FNV-1a of 8 zero bytes of length: offset basis times prime^8, computed by hand with Python.
  CHECK(StateHash().Add("").value() == 0xa8c7f832281a39c5ULL);
}

}  // namespace
}  // namespace muster
