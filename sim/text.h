// The few text functions that the simulator needs over std::string_view (Abseil's have a view of their own).
//
// Threading: safe for concurrent use.
#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace muster::sim {

// Texts and integers, one after the other.
template <typename... Parts>
std::string Concat(const Parts&... parts) {
  std::string out;
  const auto append = [&out](const auto& part) {
    if constexpr (std::integral<std::remove_cvref_t<decltype(part)>>) {
      out += std::to_string(part);
    } else {
      out += std::string_view(part);
    }
  };
  (append(parts), ...);
  return out;
}

inline std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] != separator) continue;
    parts.emplace_back(text.substr(begin, i - begin));
    begin = i + 1;
  }
  return parts;
}

inline std::string Join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string out;
  for (const std::string& part : parts) out += out.empty() ? part : std::string(separator) + part;
  return out;
}

inline std::string Trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return "";
  return std::string(text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1));
}

inline std::string ReplaceAll(std::string text, std::string_view what, std::string_view with) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size()) {
    text.replace(at, what.size(), with);
  }
  return text;
}

}  // namespace muster::sim
