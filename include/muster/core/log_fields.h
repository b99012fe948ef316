// Key/value pairs at the end of a log message, so that logs can be searched by object. The `muster` command
// writes each as a key of its own in the JSON line; written as text they follow the message.
//
//   spdlog::info("job is started{}", LogFields({{"job", "team-a/train"}, {"clusterQueue", "gpu"}}));
//
// Threading: pure functions.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace muster {

// What tells the fields from the message and from each other; neither appears in names of objects.
inline constexpr char kLogFieldStart = '\x1e';
inline constexpr char kLogValueStart = '\x1f';

std::string LogFields(std::initializer_list<std::pair<std::string_view, std::string_view>> fields);

struct SplitLogMessage {
  std::string_view message;
  std::vector<std::pair<std::string_view, std::string_view>> fields;
};
// The reverse, for a formatter. Whatever is malformed stays part of the message.
SplitLogMessage SplitLogFields(std::string_view text);

}  // namespace muster
