// Hashes: a canonical 64-bit state hash, and the two digests that Kubernetes names are made of.
//
// Threading: values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace muster {

// Accumulates values into a hash that depends on them alone (not on addresses, map order or platform):
// equal states give equal hashes in every process. FNV-1a over length-prefixed fields.
class StateHash {
 public:
  StateHash& Add(std::string_view text);
  StateHash& Add(int64_t value);
  uint64_t value() const { return value_; }

 private:
  void Byte(uint8_t b) { value_ = (value_ ^ b) * 1099511628211ULL; }
  uint64_t value_ = 14695981039346656037ULL;
};

// Lower-case hex of the SHA-1 / SHA-256 digest.
std::string Sha1Hex(std::string_view data);
std::string Sha256Hex(std::string_view data);

std::string Base64Encode(std::string_view data);
// RETURNS: false where `text` is not standard base64 (line breaks are allowed).
bool Base64Decode(std::string_view text, std::string* out);

}  // namespace muster
