#include "muster/core/hash.h"

#include <absl/strings/escaping.h>
#include <openssl/evp.h>

#include <array>

#include "muster/core/check.h"

namespace muster {
namespace {

std::string DigestHex(const EVP_MD* algorithm, std::string_view data) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int size = 0;
  MUSTER_CHECK(EVP_Digest(data.data(), data.size(), digest.data(), &size, algorithm, nullptr) == 1);
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  out.reserve(size * 2);
  for (unsigned int i = 0; i < size; ++i) {
    out.push_back(kHex[digest[i] >> 4]);
    out.push_back(kHex[digest[i] & 0xf]);
  }
  return out;
}

}  // namespace

StateHash& StateHash::Add(std::string_view text) {
  uint64_t size = text.size();
  for (int i = 0; i < 8; ++i, size >>= 8) Byte(static_cast<uint8_t>(size));
  for (const char c : text) Byte(static_cast<uint8_t>(c));
  return *this;
}

StateHash& StateHash::Add(int64_t value) {
  std::array<char, 8> bytes;
  auto rest = static_cast<uint64_t>(value);
  for (char& b : bytes) {
    b = static_cast<char>(rest & 0xff);
    rest >>= 8;
  }
  return Add(std::string_view(bytes.data(), bytes.size()));
}

std::string Sha1Hex(std::string_view data) { return DigestHex(EVP_sha1(), data); }
std::string Sha256Hex(std::string_view data) { return DigestHex(EVP_sha256(), data); }

std::string Base64Encode(std::string_view data) {
  return absl::Base64Escape(absl::string_view(data.data(), data.size()));
}

bool Base64Decode(std::string_view text, std::string* out) {
  // absl's decoder also takes text without padding, and '.' for '='; here both are errors.
  size_t symbols = 0;
  for (const char c : text) {
    if (c == '.') return false;
    if (c != '\n' && c != '\r' && c != ' ' && c != '\t') ++symbols;
  }
  if (symbols % 4 != 0) return false;
  return absl::Base64Unescape(absl::string_view(text.data(), text.size()), out);
}

}  // namespace muster
