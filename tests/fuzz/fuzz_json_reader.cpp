// Any text: the reader must not crash, must agree with RapidJSON on what is JSON, and must give back the text
// of each part as JSON that means the same.
#include <absl/strings/str_cat.h>
#include <rapidjson/memorystream.h>
#include <rapidjson/reader.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "muster/core/check.h"
#include "muster/k8s_client/json_reader.h"

namespace muster::k8s {
namespace {

// Counts depth and values; the numbers stay text.
struct Counter : rapidjson::BaseReaderHandler<rapidjson::UTF8<>, Counter> {
  int depth = 0;
  int deepest = 0;
  bool scalar_root = true;
  bool Open() {
    scalar_root = false;
    deepest = std::max(deepest, ++depth);
    return true;
  }
  bool StartObject() { return Open(); }
  bool StartArray() { return Open(); }
  bool EndObject(rapidjson::SizeType) { return --depth >= 0; }
  bool EndArray(rapidjson::SizeType) { return --depth >= 0; }
};

enum class Opinion : uint8_t { kJson, kNotJson, kNone };

Opinion AskRapid(std::string_view text, Counter* counter) {
  rapidjson::MemoryStream stream(text.data(), text.size());
  rapidjson::Reader reader;
  constexpr unsigned kFlags =
      rapidjson::kParseValidateEncodingFlag | rapidjson::kParseNumbersAsStringsFlag | rapidjson::kParseIterativeFlag;
  if (const auto result = reader.Parse<kFlags>(stream, *counter); !result) {
    // It wants numbers that a double can hold, even as text.
    return result.Code() == rapidjson::kParseErrorNumberTooBig ? Opinion::kNone : Opinion::kNotJson;
  }
  // It takes half a surrogate pair; whoever has one does not come from Kubernetes.
  if (text.find("\\ud") != std::string_view::npos || text.find("\\uD") != std::string_view::npos) {
    return Opinion::kNone;
  }
  // A NUL ends the stream for it.
  const std::string_view rest = text.substr(stream.Tell());
  return rest.find_first_not_of(" \t\r\n") == std::string_view::npos ? Opinion::kJson : Opinion::kNotJson;
}

void Visit(JsonValue value, int64_t* budget) {
  if (--*budget < 0) return;
  (void)value.Path();
  if (value.IsObject()) {
    int64_t count = 0;
    value.ForEachField([&](std::string_view key, JsonValue child) {
      ++count;
      MUSTER_CHECK(child.present() == value[key].present() || value.size() > 1);
      Visit(child, budget);
    });
    MUSTER_CHECK(count == value.size());
    MUSTER_CHECK(JsonDocument(value.Raw()).Finish("part").ok());
  } else if (value.IsArray()) {
    int64_t count = 0;
    value.ForEach([&](JsonValue child) {
      ++count;
      Visit(child, budget);
    });
    MUSTER_CHECK(count == value.size());
    MUSTER_CHECK(JsonDocument(value.Raw()).Finish("part").ok());
  } else {
    (void)value.String();
    (void)value.Int();
    (void)value.Bool();
    (void)value.Scalar();
    (void)value.Time();
    (void)value.Map();
    JsonDocument part(absl::StrCat("[", value.Raw(), "]"));
    MUSTER_CHECK(part.Finish("part").ok());
  }
}

void Run(std::string_view text) {
  JsonDocument document(text);
  const bool accepted = document.Finish("text").ok();
  Counter counter;
  const Opinion rapid = AskRapid(text, &counter);
  const bool bounded = !counter.scalar_root && counter.deepest <= JsonDocument::kMaxDepth;
  if (rapid != Opinion::kNone) {
    MUSTER_CHECK_MSG(accepted == (rapid == Opinion::kJson && bounded), document.Finish("text").ToString().c_str());
  }
  MUSTER_CHECK(document.root().present() == accepted);
  if (!accepted) return;
  int64_t budget = 200;
  Visit(document.root(), &budget);
  (void)DecodeMeta(document.root());
  (void)DecodeConditions(document.root()["status"]["conditions"]);
  (void)document.Finish("text");
}

}  // namespace
}  // namespace muster::k8s

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  muster::k8s::Run(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
