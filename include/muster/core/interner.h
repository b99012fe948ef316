// Names as small dense numbers: a flavor or resource name is compared and indexed as an integer inside
// the engine, and turned back into text only at its edge.
//
// Threading: needs external synchronisation.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/core/check.h"
#include "muster/core/string_map.h"

namespace muster {

// Tag makes ids of different name spaces different types.
template <typename Tag>
struct Id {
  uint32_t value = 0;
  friend constexpr auto operator<=>(Id, Id) = default;
  template <typename H>
  friend H AbslHashValue(H h, Id id) {
    return H::combine(std::move(h), id.value);
  }
};

template <typename Tag>
class Interner {
 public:
  using IdType = Id<Tag>;

  IdType Intern(std::string_view name) {
    if (const auto it = ids_.find(name); it != ids_.end()) return it->second;
    const IdType id{static_cast<uint32_t>(names_.size())};
    names_.emplace_back(name);
    ids_.emplace(names_.back(), id);
    return id;
  }
  // REQUIRES: it was interned.
  IdType Find(std::string_view name) const {
    const auto it = ids_.find(name);
    MUSTER_CHECK(it != ids_.end());
    return it->second;
  }
  const std::string& Name(IdType id) const {
    MUSTER_CHECK(id.value < names_.size());
    return names_[id.value];
  }
  size_t size() const { return names_.size(); }

 private:
  std::vector<std::string> names_;
  StringMap<IdType> ids_;
};

}  // namespace muster
