#include "muster/core/log_fields.h"

namespace muster {

std::string LogFields(std::initializer_list<std::pair<std::string_view, std::string_view>> fields) {
  std::string out;
  const auto append = [&out](std::string_view text) {
    for (const char c : text) out.push_back(c == kLogFieldStart || c == kLogValueStart ? '?' : c);
  };
  for (const auto& [key, value] : fields) {
    out.push_back(kLogFieldStart);
    append(key);
    out.push_back(kLogValueStart);
    append(value);
  }
  return out;
}

SplitLogMessage SplitLogFields(std::string_view text) {
  SplitLogMessage split;
  size_t at = text.find(kLogFieldStart);
  split.message = text.substr(0, at);
  while (at != std::string_view::npos) {
    const size_t end = text.find(kLogFieldStart, at + 1);
    const std::string_view field = text.substr(at + 1, end == std::string_view::npos ? end : end - at - 1);
    const size_t value = field.find(kLogValueStart);
    if (value == std::string_view::npos || value == 0) return {text, {}};
    split.fields.emplace_back(field.substr(0, value), field.substr(value + 1));
    at = end;
  }
  return split;
}

}  // namespace muster
