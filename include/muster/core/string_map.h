// A hash map with string keys that is searched by string_view, without making a string.
//
// Threading: as a standard container.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <functional>
#include <string>
#include <string_view>

namespace muster {

struct StringViewHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

template <typename Value>
using StringMap = absl::flat_hash_map<std::string, Value, StringViewHash, std::equal_to<>>;

}  // namespace muster
