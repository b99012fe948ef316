// Any bytes are either no record, an error, or a record that reads back as it is written.

#include "muster/controller/record.h"
#include "muster/core/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto record = muster::controller::DecodeRecord(text, "u");
  if (!record.ok()) {
    MUSTER_CHECK(!record.status().message().empty());
    return 0;
  }
  if (!record->has_value()) return 0;
  MUSTER_CHECK((*record)->job_uid == "u" && (*record)->claim.IsSet());
  const auto again = muster::controller::DecodeRecord(muster::controller::EncodeRecord(**record), "u");
  MUSTER_CHECK(again.ok() && again->has_value());
  // Times finer than microseconds are cut once, and only once.
  MUSTER_CHECK(muster::controller::EncodeRecord(**again) == muster::controller::EncodeRecord(**record));
  return 0;
}
