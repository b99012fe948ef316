// Joins texts and integers. absl's StrCat does not take std::string_view as Debian builds it.
#pragma once

#include <concepts>
#include <string>
#include <string_view>

namespace muster::controller {

inline void AppendPart(std::string* out, std::string_view part) { out->append(part); }
template <std::integral T>
void AppendPart(std::string* out, T part) {
  out->append(std::to_string(part));
}

template <typename... Parts>
std::string Cat(const Parts&... parts) {
  std::string out;
  (AppendPart(&out, parts), ...);
  return out;
}

}  // namespace muster::controller
