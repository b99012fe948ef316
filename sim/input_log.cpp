#include "muster/sim/input_log.h"

#include <absl/strings/str_format.h>

namespace muster::sim {

void InputLog::Add(MonoTime at, std::string_view kind, std::string_view text) {
  ++size_;
  hash_.Add(at.nanos).Add(kind).Add(text);
  if (keep_ == 0) return;
  tail_.push_back(absl::StrFormat("%6d %12.6fs %s ", size_, static_cast<double>(at.nanos) / 1e9, std::string(kind)) +
                  std::string(text));
  if (tail_.size() > keep_) tail_.pop_front();
}

std::string InputLog::Tail() const {
  std::string text;
  for (const std::string& line : tail_) text += line + "\n";
  return text;
}

}  // namespace muster::sim
