#include <catch2/catch.hpp>

#include "harness.h"
#include "http_credentials.h"

namespace muster::k8s {
namespace {

using testing::TempDir;

class ManualClock final : public Clock {
 public:
  WallTime Now() const override { return {}; }
  MonoTime Mono() const override { return now; }
  MonoTime now{1'000'000'000};
};

TEST_CASE("a token file is read again once a minute") {
  TempDir files;
  ManualClock clock;
  Credentials credentials(&clock, "", files.Write("token", " one\n"));
  CHECK(*credentials.Token() == "one");
  files.Write("token", "two");
  clock.now = clock.now + std::chrono::seconds(59);
  CHECK(*credentials.Token() == "one");
  clock.now = clock.now + std::chrono::seconds(1);
  CHECK(*credentials.Token() == "two");
  files.Write("token", "three");
  clock.now = clock.now + std::chrono::seconds(59);
  CHECK(*credentials.Token() == "two");
}

TEST_CASE("a refused token is replaced at once, if there is another") {
  TempDir files;
  ManualClock clock;
  Credentials credentials(&clock, "", files.Write("token", "one"));
  CHECK(*credentials.Token() == "one");
  CHECK_FALSE(credentials.Renew("one"));
  files.Write("token", "two");
  CHECK(credentials.Renew("one"));
  CHECK(*credentials.Token() == "two");
  files.Write("token", "three");
  CHECK(credentials.Renew("one"));  // another call with the old one: the new one is there already
  CHECK(*credentials.Token() == "two");
}

TEST_CASE("an unreadable file: the last token goes on, or the one beside it, or it is an error") {
  TempDir files;
  ManualClock clock;
  Credentials last(&clock, "", files.Write("token", "one"));
  CHECK(*last.Token() == "one");
  const std::string content = GENERATE(std::string(), std::string("a b"), std::string("a\nb"), std::string("a\x01"));
  files.Write("token", content);
  clock.now = clock.now + std::chrono::hours(1);
  CHECK(*last.Token() == "one");

  Credentials beside(&clock, "given", files.Path("token"));
  CHECK(*beside.Token() == "given");

  Credentials none(&clock, "", files.Path("token"));
  const auto error = none.Token().status();
  CHECK_THAT(std::string(error.message()), Catch::Contains(files.Path("token")));
  if (!content.empty()) CHECK_THAT(std::string(error.message()), !Catch::Contains(content));

  files.Write("token", "late");  // and it recovers by itself
  CHECK(*none.Token() == "late");
}

TEST_CASE("without a file the token stands, and there is no other") {
  ManualClock clock;
  Credentials credentials(&clock, "given", "");
  CHECK(*credentials.Token() == "given");
  CHECK_FALSE(credentials.Renew("given"));
  Credentials anonymous(&clock, "", "");
  CHECK(*anonymous.Token() == "");
  CHECK_FALSE(anonymous.Renew(""));
}

TEST_CASE("Redact masks every occurrence") {
  CHECK(Redact("a s3cret and s3cret", "s3cret") == "a [redacted] and [redacted]");
  CHECK(Redact("nothing", "") == "nothing");
}

}  // namespace
}  // namespace muster::k8s
