// Cuts a stream of bytes into lines, however the bytes arrive.
//
// Threading: needs external synchronisation.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace muster::k8s {

class LineSplitter {
 public:
  explicit LineSplitter(size_t line_bytes_max) : line_bytes_max_(line_bytes_max) {}

  // Appends to `lines` all lines that `bytes` completes, each with its newline; what follows the last
  // newline waits for the next call. RETURNS: false where a line is longer than the limit; what came before
  // that line has been appended, and nothing may be fed any more.
  bool Feed(std::string_view bytes, std::string* lines) {
    while (true) {
      const size_t end = bytes.find('\n');
      const size_t length = end == std::string_view::npos ? bytes.size() : end;
      if (partial_.size() + length > line_bytes_max_) return false;
      if (end == std::string_view::npos) {
        partial_.append(bytes);
        return true;
      }
      lines->append(partial_);
      lines->append(bytes.substr(0, end + 1));
      partial_.clear();
      bytes.remove_prefix(end + 1);
    }
  }

  // A line has begun that no newline has ended yet.
  bool within_line() const { return !partial_.empty(); }

 private:
  const size_t line_bytes_max_;
  std::string partial_;
};

}  // namespace muster::k8s
