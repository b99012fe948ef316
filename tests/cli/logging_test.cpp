// A log line must stay one JSON object (RFC 8259), whatever a message holds.

#include "logging.h"

#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <catch2/catch.hpp>
#include <regex>
#include <sstream>

#include "muster/core/log_fields.h"

namespace muster::cli {
namespace {

// The line without its time.
std::string Line(std::unique_ptr<spdlog::formatter> formatter, spdlog::level::level_enum level,
                 const std::string& message) {
  std::ostringstream out;
  spdlog::logger logger("muster", std::make_shared<spdlog::sinks::ostream_sink_mt>(out));
  logger.set_formatter(std::move(formatter));
  logger.log(level, message);
  return std::regex_replace(out.str(), std::regex(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z)"), "T");
}

TEST_CASE("a message is one JSON line with Kueue's keys, and each field has its own") {
  CHECK(Line(NewJsonLogFormatter(), spdlog::level::info,
             "job is started" + LogFields({{"job", "a/b"}, {"clusterQueue", "gpu"}})) ==
        R"({"level":"info","ts":"T","logger":"muster","msg":"job is started","job":"a/b","clusterQueue":"gpu"})"
        "\n");
  CHECK(Line(NewJsonLogFormatter(), spdlog::level::warn, "x") ==
        R"({"level":"warn","ts":"T","logger":"muster","msg":"x"})"
        "\n");
}

TEST_CASE("no message breaks the line") {
  CHECK(Line(NewJsonLogFormatter(), spdlog::level::err, "a\n\"b\"\\\x01\xff\xc3\xa4\xed\xa0\x80\xf0\x9f\x98\x80\xc3") ==
        "{\"level\":\"error\",\"ts\":\"T\",\"logger\":\"muster\",\"msg\":"
        "\"a\\n\\\"b\\\"\\\\\\u0001?\xc3\xa4???\xf0\x9f\x98\x80?\"}\n");
  CHECK(Line(NewJsonLogFormatter(), spdlog::level::info, "odd \x1e tail") ==
        "{\"level\":\"info\",\"ts\":\"T\",\"logger\":\"muster\",\"msg\":\"odd \\u001E tail\"}\n");
}

TEST_CASE("as text the fields follow the message") {
  CHECK(Line(NewTextLogFormatter(), spdlog::level::info, "two\nlines" + LogFields({{"job", "a/b"}, {"n", ""}})) ==
        "T info two lines job=a/b n=\n");
}

TEST_CASE("what would break a field is replaced in it") {
  std::string text = "m";
  text += LogFields({{"a", "x\x1ey\x1fz"}, {"b", ""}});
  const SplitLogMessage split = SplitLogFields(text);
  CHECK(split.message == "m");
  REQUIRE(split.fields.size() == 2);
  CHECK(split.fields[0] == std::pair<std::string_view, std::string_view>("a", "x?y?z"));
  CHECK(split.fields[1] == std::pair<std::string_view, std::string_view>("b", ""));
}

}  // namespace
}  // namespace muster::cli
