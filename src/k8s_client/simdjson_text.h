// What the two users of simdjson share. Private to them: simdjson's header is heavy.
//
// Threading: values; one parser a thread.
#pragma once

#include <simdjson.h>

#include <memory>
#include <string>
#include <string_view>

namespace muster::k8s {

namespace ondemand = simdjson::ondemand;

inline std::string_view Trim(std::string_view text) {
  const size_t end = text.find_last_not_of(" \t\r\n");
  return end == std::string_view::npos ? std::string_view() : text.substr(0, end + 1);
}

// simdjson reads up to SIMDJSON_PADDING bytes past the end.
inline std::string Padded(std::string_view text) {
  std::string out;
  out.reserve(text.size() + simdjson::SIMDJSON_PADDING);
  out.append(text);
  return out;
}

inline simdjson::padded_string_view View(const std::string& padded) {
  return simdjson::padded_string_view(padded.data(), padded.size(), padded.capacity());
}

// Its buffers are reused by small documents; a large one gets and drops its own.
class ParserLease {
 public:
  explicit ParserLease(size_t size) {
    if (size > size_t{1} << 20) own_ = std::make_unique<ondemand::parser>();
  }
  ondemand::parser& get() {
    thread_local ondemand::parser shared;
    return own_ ? *own_ : shared;
  }

 private:
  std::unique_ptr<ondemand::parser> own_;
};

inline std::string ErrorText(simdjson::error_code error) { return simdjson::error_message(error); }

inline bool AtEnd(ondemand::document& document) {
  return document.current_location().error() == simdjson::OUT_OF_BOUNDS;
}

// The text of a value that has just been iterated to its end: from its first byte to the next token.
inline std::string_view TextTo(const char* begin, ondemand::document& document, std::string_view whole) {
  const char* end = whole.data() + whole.size();
  const char* next = nullptr;
  if (document.current_location().get(next) == simdjson::SUCCESS && next != nullptr) end = next;
  return Trim(std::string_view(begin, static_cast<size_t>(end - begin)));
}

}  // namespace muster::k8s
