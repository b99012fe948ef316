// Any text as a time and as a duration: no crash, and what was read can be written and read again.
#include <cstdint>
#include <string_view>

#include "muster/core/check.h"
#include "muster/core/hash.h"
#include "muster/core/time.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto time = ParseTime(text); time.ok()) {
    const auto again = ParseTime(FormatMicroTime(*time));
    // Formatting rounds down to the microsecond, which only the very first instant does not have.
    if (again.ok()) MUSTER_CHECK(*time - *again >= Duration(0) && *time - *again < std::chrono::microseconds(1));
    MUSTER_CHECK(again.ok() || time->unix_nanos < INT64_MIN + 1000);
  }
  if (const auto duration = ParseGoDuration(text); duration.ok()) {
    const auto again = ParseGoDuration(std::to_string(duration->count()) + "ns");
    MUSTER_CHECK(again.ok() && *again == *duration);
  }
  std::string decoded;
  if (Base64Decode(text, &decoded)) {
    std::string again;
    MUSTER_CHECK(Base64Decode(Base64Encode(decoded), &again) && again == decoded);
  }
  return 0;
}
