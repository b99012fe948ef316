#include "logging.h"

#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "muster/core/check.h"
#include "muster/core/log_fields.h"
#include "muster/core/time.h"

namespace muster::cli {
namespace {

std::string Timestamp(const spdlog::details::log_msg& message) {
  const auto nanos = std::chrono::duration_cast<std::chrono::nanoseconds>(message.time.time_since_epoch());
  return FormatMicroTime(WallTime{nanos.count()});
}

std::string_view LevelName(spdlog::level::level_enum level) {
  const auto name = spdlog::level::to_string_view(level);
  return level == spdlog::level::warn ? "warn" : std::string_view(name.data(), name.size());
}

class JsonFormatter final : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) override {
    // Bytes that are no UTF-8 (a server's answer may have any) must not spoil the line.
    using Buffer = rapidjson::StringBuffer;
    Buffer buffer;
    rapidjson::Writer<Buffer> writer(buffer);
    const auto add = [&writer](std::string_view key, std::string_view value) {
      const std::string clean_key = ToUtf8(key);
      const std::string clean_value = ToUtf8(value);
      writer.Key(clean_key.data(), static_cast<rapidjson::SizeType>(clean_key.size()));
      writer.String(clean_value.data(), static_cast<rapidjson::SizeType>(clean_value.size()));
    };
    const auto split = SplitLogFields({message.payload.data(), message.payload.size()});
    writer.StartObject();
    add("level", LevelName(message.level));
    add("ts", Timestamp(message));
    const std::string_view logger(message.logger_name.data(), message.logger_name.size());
    add("logger", logger.empty() ? "muster" : logger);
    add("msg", split.message);
    for (const auto& [key, value] : split.fields) add(key, value);
    writer.EndObject();
    out.append(buffer.GetString(), buffer.GetString() + buffer.GetSize());
    out.push_back('\n');
  }
  std::unique_ptr<spdlog::formatter> clone() const override { return std::make_unique<JsonFormatter>(); }

 private:
  // Each byte that does not belong to a well-formed sequence becomes '?'.
  static std::string ToUtf8(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    for (size_t i = 0; i < text.size();) {
      const size_t length = SequenceLength(text.substr(i));
      if (length == 0) {
        out.push_back('?');
        ++i;
      } else {
        out.append(text.substr(i, length));
        i += length;
      }
    }
    return out;
  }

  // RETURNS: 0 where `text` does not begin with a well-formed character (RFC 3629).
  static size_t SequenceLength(std::string_view text) {
    const auto byte = [&text](size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned char first = byte(0);
    if (first < 0x80) return 1;
    const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
    if (first < 0xC2 || first > 0xF4 || text.size() < length) return 0;
    for (size_t i = 1; i < length; ++i) {
      if ((byte(i) & 0xC0) != 0x80) return 0;
    }
    const unsigned char second = byte(1);
    const bool bad = (first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
                     (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F);
    return bad ? 0 : length;
  }
};

class TextFormatter final : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) override {
    const auto split = SplitLogFields({message.payload.data(), message.payload.size()});
    std::string line = Timestamp(message);
    line.append(" ").append(LevelName(message.level)).append(" ").append(split.message);
    for (const auto& [key, value] : split.fields) line.append(" ").append(key).append("=").append(value);
    for (char& c : line) {
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
    }
    out.append(line.data(), line.data() + line.size());
    out.push_back('\n');
  }
  std::unique_ptr<spdlog::formatter> clone() const override { return std::make_unique<TextFormatter>(); }
};

spdlog::level::level_enum ParseLevel(std::string_view level) {
  if (level == "debug") return spdlog::level::debug;
  if (level == "info") return spdlog::level::info;
  if (level == "warn") return spdlog::level::warn;
  MUSTER_CHECK(level == "error");
  return spdlog::level::err;
}

}  // namespace

std::unique_ptr<spdlog::formatter> NewJsonLogFormatter() { return std::make_unique<JsonFormatter>(); }
std::unique_ptr<spdlog::formatter> NewTextLogFormatter() { return std::make_unique<TextFormatter>(); }

void SetUpLogging(std::string_view format, std::string_view level) {
  MUSTER_CHECK(format == "json" || format == "text");
  auto logger = std::make_shared<spdlog::logger>("muster", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_formatter(format == "json" ? NewJsonLogFormatter() : NewTextLogFormatter());
  logger->set_level(ParseLevel(level));
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace muster::cli
