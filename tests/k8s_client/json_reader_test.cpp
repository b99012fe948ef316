#include "muster/k8s_client/json_reader.h"

#include <catch2/catch.hpp>

namespace muster::k8s {
namespace {

std::string Error(const JsonDocument& document) { return std::string(document.Finish("Job a/b").message()); }

TEST_CASE("a reader gives values and defaults") {
  JsonDocument document(R"({"spec":{"suspend":true,"parallelism":3,"name":"x","none":null,"list":[1,2,"three"],
      "labels":{"a/b":"c","d":null}},"metadata":{"creationTimestamp":"2026-01-02T03:04:05Z"}})");
  const JsonValue root = document.root();
  const JsonValue spec = root["spec"];
  CHECK(spec["suspend"].Bool());
  CHECK(spec["parallelism"].Int() == 3);
  CHECK(spec["name"].String() == "x");
  CHECK_FALSE(spec["none"].present());
  CHECK(spec["none"].String("default") == "default");
  CHECK(spec["absent"]["deeper"].Int(7) == 7);
  CHECK(spec["absent"].size() == 0);
  CHECK_FALSE(spec["absent"].OptionalInt().has_value());
  CHECK(spec["list"].size() == 3);
  CHECK(spec["list"].IsArray());
  CHECK(spec["labels"].IsObject());
  CHECK(spec["labels"].Map() == Labels{{"a/b", "c"}, {"d", ""}});
  CHECK(FormatTime(root["metadata"]["creationTimestamp"].Time()) == "2026-01-02T03:04:05Z");
  CHECK(document.Finish("Job a/b").ok());
}

TEST_CASE("numbers keep their text and never pass through a double") {
  JsonDocument document(
      R"({"a":0.3,"b":1e3,"c":9223372036854775807,"d":"500m","e":123456789012345678901234567890 ,"f":-0,"g":-9223372036854775808})");
  const JsonValue root = document.root();
  CHECK(root["a"].Scalar() == "0.3");
  CHECK(root["b"].Scalar() == "1e3");
  CHECK(root["c"].Int() == INT64_MAX);
  CHECK(root["g"].Int() == INT64_MIN);
  CHECK(root["d"].Scalar() == "500m");
  CHECK(root["e"].Scalar() == "123456789012345678901234567890");
  CHECK(root["f"].Scalar() == "-0");
  CHECK(document.Finish("x").ok());
  root["e"].Int();
  CHECK(Error(document) == "Job a/b: e: must be an integer of 64 bits, got 123456789012345678901234567890");
}

TEST_CASE("raw text is what was written") {
  JsonDocument document(R"( {"a" : {"b": [1, {"c":"d\"}"}]} , "e":[ ] ,"f":"g" ,"h": {}, "i":[[1] ,[2]] } )");
  const JsonValue root = document.root();
  CHECK(root["a"].Raw() == R"({"b": [1, {"c":"d\"}"}]})");
  CHECK(root["a"]["b"].Raw() == R"([1, {"c":"d\"}"}])");
  CHECK(root["e"].Raw() == "[ ]");
  CHECK(root["f"].Raw() == "\"g\"");
  CHECK(root["h"].Raw() == "{}");
  CHECK(root["i"].Raw() == "[[1] ,[2]]");
  CHECK(root["absent"].Raw() == "null");
  CHECK(root.Raw() == R"({"a" : {"b": [1, {"c":"d\"}"}]} , "e":[ ] ,"f":"g" ,"h": {}, "i":[[1] ,[2]] })");
}

TEST_CASE("escapes are resolved in names and strings") {
  JsonDocument document(R"({"a\u0041\n":"tab\tquote\" \u00e9 \ud83d\ude00","plain":"b"})");
  CHECK(document.root()["aA\n"].String() == "tab\tquote\" \xc3\xa9 \xf0\x9f\x98\x80");
  CHECK(document.root()["plain"].String() == "b");
  CHECK(document.Finish("x").ok());
}

TEST_CASE("the first error is kept, with its path and value") {
  JsonDocument document(R"({"spec":{"podSets":[{"count":1},{"count":"two"}],"x":5}})");
  document.root()["spec"]["podSets"].ForEach([](JsonValue set) { set["count"].Int(); });
  document.root()["spec"]["x"].String();
  CHECK(Error(document) == "Job a/b: spec.podSets[1].count: must be an integer of 64 bits, got \"two\"");
}

TEST_CASE("every wrong type is an error that says what was wanted") {
  struct Case {
    void (*ask)(JsonValue);
    const char* wanted;
  };
  const Case cases[] = {
      {[](JsonValue v) { v["s"]["t"].Int(); }, R"(s: must be an object, got "x")"},
      {[](JsonValue v) { v["n"].String(); }, "n: must be a string, got 1"},
      {[](JsonValue v) { v["n"].Bool(); }, "n: must be true or false, got 1"},
      {[](JsonValue v) { v["f"].Int(); }, "f: must be an integer of 64 bits, got 1.5"},
      {[](JsonValue v) { v["b"].Scalar(); }, "b: must be a string or number, got true"},
      {[](JsonValue v) { v["n"].ForEach([](JsonValue) {}); }, "n: must be a list, got 1"},
      {[](JsonValue v) { v["n"].Map(); }, "n: must be an object, got 1"},
      {[](JsonValue v) { v["m"].Map(); }, "m[\"a.b\"]: must be a string, got 2"},
      {[](JsonValue v) { v["s"].Time(); }, R"(s: not an RFC 3339 time: "x")"},
      {[](JsonValue v) { v["absent"]["name"].Fail("is required"); }, "absent.name: is required"},
      {[](JsonValue v) { v["null"].Fail("is required"); }, "null: is required"},
  };
  for (const Case& c : cases) {
    JsonDocument document(R"({"s":"x","n":1,"f":1.5,"b":true,"m":{"a.b":2},"null":null})");
    c.ask(document.root());
    CHECK(Error(document) == std::string("Job a/b: ") + c.wanted);
  }
}

TEST_CASE("what is not JSON is an error and an absent root") {
  const char* const texts[] = {"",
                               "   ",
                               "{",
                               "}",
                               "[1,2",
                               "{\"a\":}",
                               "{\"a\" 1}",
                               "nonsense",
                               "{\"a\":tru}",
                               "{\"a\":01}",
                               "{\"a\":1.}",
                               "{\"a\":-}",
                               "{\"a\":1e}",
                               "{\"a\":\"b}",
                               "{} {}",
                               "{\"a\":\"b\":\"c\"}",
                               "[1 2]",
                               "[1,]",
                               "{\"a\":1,}",
                               "{\"a\":nul}",
                               "\"text\"",
                               "5",
                               "{\"a\":\"\\x\"}",
                               "{\"a\":\"\xff\"}",
                               "{\"a\":1}garbage",
                               "{\"a\":\"\x01\"}",
                               "{'a':1}"};
  for (const char* text : texts) {
    INFO(text);
    JsonDocument document(text);
    CHECK_FALSE(document.root().present());
    CHECK_FALSE(document.root()["x"].present());
    CHECK_FALSE(document.Finish("x").ok());
    document.root().Fail("is empty");
    CHECK_THAT(Error(document), Catch::StartsWith("Job a/b: not valid JSON: "));
  }
}

TEST_CASE("nesting is bounded") {
  const auto nested = [](int depth) {
    return std::string(static_cast<size_t>(depth), '[') + std::string(static_cast<size_t>(depth), ']');
  };
  CHECK(JsonDocument(nested(JsonDocument::kMaxDepth)).Finish("x").ok());
  CHECK_FALSE(JsonDocument(nested(JsonDocument::kMaxDepth + 1)).Finish("x").ok());
  CHECK_FALSE(JsonDocument(nested(100'000)).Finish("x").ok());
  CHECK_FALSE(JsonDocument(std::string(100'000, '[')).Finish("x").ok());
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  CHECK_FALSE(JsonDocument(objects).Finish("x").ok());
}

TEST_CASE("metadata and conditions are decoded") {
  JsonDocument document(R"({"metadata":{"namespace":"a","name":"b","uid":"u","resourceVersion":"12","generation":3,
      "creationTimestamp":"2026-01-02T03:04:05Z","labels":{"l":"1"},"annotations":{"n":"2"},
      "ownerReferences":[{"apiVersion":"batch/v1","kind":"CronJob","name":"c","uid":"cu","controller":true}],
      "finalizers":["f"],"managedFields":[{"anything":{"f:x":{}}}]},
      "status":{"conditions":[{"type":"Admitted","status":"True","reason":"R","message":"m",
        "lastTransitionTime":"2026-01-02T03:04:06Z","observedGeneration":2},{"type":"Zero","status":"False",
        "lastTransitionTime":"0001-01-01T00:00:00Z"}]}})");
  const ObjectMeta meta = DecodeMeta(document.root());
  const std::vector<Condition> conditions = DecodeConditions(document.root()["status"]["conditions"]);
  REQUIRE(document.Finish("x").ok());
  CHECK(meta.key() == ObjectKey{"a", "b"});
  CHECK(meta.uid == "u");
  CHECK(meta.resource_version == "12");
  CHECK(meta.generation == 3);
  CHECK(FormatTime(meta.creation) == "2026-01-02T03:04:05Z");
  CHECK_FALSE(meta.deletion.IsSet());
  CHECK(meta.labels == Labels{{"l", "1"}});
  CHECK(meta.annotations == Labels{{"n", "2"}});
  CHECK(meta.finalizers == std::vector<std::string>{"f"});
  REQUIRE(meta.Controller() != nullptr);
  CHECK(meta.Controller()->uid == "cu");
  REQUIRE(conditions.size() == 2);
  CHECK(IsTrue(conditions, "Admitted"));
  CHECK(conditions[0].observed_generation == 2);
  CHECK_FALSE(conditions[1].last_transition.IsSet());
}

TEST_CASE("a watch line is taken apart") {
  const std::string text =
      R"({"type":"MODIFIED","object":{"kind":"Job","metadata":{"name":"j","resourceVersion":"77"},"spec":{"a":[1,2]}} })";
  const auto line = ParseWatchLine(text);
  REQUIRE(line.ok());
  CHECK(line->type == "MODIFIED");
  CHECK(line->resource_version == "77");
  CHECK(line->object == R"({"kind":"Job","metadata":{"name":"j","resourceVersion":"77"},"spec":{"a":[1,2]}})");
  CHECK(line->object.data() >= text.data());
  CHECK(line->object.data() < text.data() + text.size());

  const auto swapped = ParseWatchLine(R"({"object":{"metadata":{}},"type":"ADDED"})");
  REQUIRE(swapped.ok());
  CHECK(swapped->object == R"({"metadata":{}})");
  CHECK(swapped->resource_version.empty());
}

TEST_CASE("a bad watch line is refused") {
  for (const char* text : {"", "garbage", "{}", R"({"type":"ADDED"})", R"({"object":{}})", R"({"type":5,"object":{}})",
                           R"({"type":"ADDED","object":[]})", R"({"type":"ADDED","object":{"a":1})", "[]", "null",
                           R"({"type":"ADDED","object":{}} trailing)", R"({"type":"ADDED","object":null})"}) {
    INFO(text);
    CHECK_FALSE(ParseWatchLine(text).ok());
  }
}

TEST_CASE("a list page is taken apart") {
  const auto page = ParseListPage(
      R"({"kind":"JobList","metadata":{"resourceVersion":"9","continue":"abc","remainingItemCount":2},
          "items":[{"metadata":{"name":"a"}}, {"metadata":{"name":"b"},"x":[{}]} ]})");
  REQUIRE(page.ok());
  CHECK(page->resource_version == "9");
  CHECK(page->continue_token == "abc");
  REQUIRE(page->items.size() == 2);
  CHECK(page->items[0] == R"({"metadata":{"name":"a"}})");
  CHECK(page->items[1] == R"({"metadata":{"name":"b"},"x":[{}]})");

  const auto empty = ParseListPage(R"({"items":null,"metadata":{"resourceVersion":"1"}})");
  REQUIRE(empty.ok());
  CHECK(empty->items.empty());
  for (const char* text :
       {"", "{}", R"({"items":[],"metadata":{}})", R"({"items":[1],"metadata":{"resourceVersion":"1"}})",
        R"({"items":{},"metadata":{"resourceVersion":"1"}})", R"({"items":[{}],"metadata":{"res)"}) {
    INFO(text);
    CHECK_FALSE(ParseListPage(text).ok());
  }
}

}  // namespace
}  // namespace muster::k8s
