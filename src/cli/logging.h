// Logs to standard error: one JSON object a line with the keys level, ts (RFC 3339, UTC), logger and msg, as
// Kueue writes them, and one more key for each field of the message (core/log_fields.h); or plain text.
//
// Threading: SetUpLogging before any other thread exists; logging itself is safe for concurrent use.
#pragma once

#include <spdlog/formatter.h>

#include <memory>
#include <string>
#include <string_view>

namespace muster::cli {

// "json" or "text"; "debug", "info", "warn" or "error". REQUIRES: one of those.
void SetUpLogging(std::string_view format, std::string_view level);

std::unique_ptr<spdlog::formatter> NewJsonLogFormatter();
std::unique_ptr<spdlog::formatter> NewTextLogFormatter();

}  // namespace muster::cli
