// Expected values: RFC 6902 appendix A and, where the server differs from the RFC, what kube-apiserver
// 1.36.3 answered to the same operation.
#include "muster/sim/json_patch.h"

#include <catch2/catch.hpp>
#include <string>

namespace muster::sim {
namespace {

// RETURNS: the patched document as text, or "400: ..." / "422: ...".
std::string Patched(const std::string& document, const std::string& patch) {
  Json json = *ParseJson(document);
  const absl::Status status = ApplyJsonPatch(patch, &json);
  if (status.ok()) return Dump(json);
  CHECK(Dump(json) == Dump(*ParseJson(document)));  // nothing is half applied
  return absl::IsInvalidArgument(status) ? "400" : "422";
}

TEST_CASE("JSON Patch: the operations of RFC 6902", "[json_patch]") {
  CHECK(Patched(R"({"foo":"bar"})", R"([{"op":"add","path":"/baz","value":"qux"}])") == R"({"baz":"qux","foo":"bar"})");
  CHECK(Patched(R"({"foo":["bar","baz"]})", R"([{"op":"add","path":"/foo/1","value":"qux"}])") ==
        R"({"foo":["bar","qux","baz"]})");
  CHECK(Patched(R"({"foo":["bar"]})", R"([{"op":"add","path":"/foo/-","value":["x"]}])") == R"({"foo":["bar",["x"]]})");
  CHECK(Patched(R"({"baz":"qux","foo":"bar"})", R"([{"op":"remove","path":"/baz"}])") == R"({"foo":"bar"})");
  CHECK(Patched(R"({"foo":["a","b","c"]})", R"([{"op":"remove","path":"/foo/1"}])") == R"({"foo":["a","c"]})");
  CHECK(Patched(R"({"baz":"qux"})", R"([{"op":"replace","path":"/baz","value":"boo"}])") == R"({"baz":"boo"})");
  CHECK(Patched(R"({"foo":{"bar":"baz"},"qux":{}})", R"([{"op":"move","from":"/foo/bar","path":"/qux/thud"}])") ==
        R"({"foo":{},"qux":{"thud":"baz"}})");
  CHECK(Patched(R"({"foo":["all","grass","cows","eat"]})", R"([{"op":"move","from":"/foo/1","path":"/foo/3"}])") ==
        R"({"foo":["all","cows","eat","grass"]})");
  CHECK(Patched(R"({"a":{"b":1}})", R"([{"op":"copy","from":"/a","path":"/c"}])") == R"({"a":{"b":1},"c":{"b":1}})");
  CHECK(Patched(R"({"baz":"qux","foo":["a",2]})",
                R"([{"op":"test","path":"/baz","value":"qux"},{"op":"test","path":"/foo/1","value":2}])") ==
        R"({"baz":"qux","foo":["a",2]})");
  CHECK(Patched(R"({"/":9,"~1":10})", R"([{"op":"test","path":"/~01","value":10}])") == R"({"/":9,"~1":10})");
  CHECK(Patched(R"({})", R"([{"op":"add","path":"/a~1b","value":1}])") == R"({"a/b":1})");
  CHECK(Patched(R"({"foo":"bar"})", R"([{"op":"add","path":"/child","value":{"grandchild":{}}}])") ==
        R"({"child":{"grandchild":{}},"foo":"bar"})");
  CHECK(Patched(R"({"a":1})", R"([])") == R"({"a":1})");
}

TEST_CASE("JSON Patch: what does not apply is 422, what is no patch is 400", "[json_patch]") {
  CHECK(Patched(R"({"foo":"bar"})", R"([{"op":"add","path":"/baz/bat","value":"qux"}])") == "422");
  CHECK(Patched(R"({"foo":["a"]})", R"([{"op":"add","path":"/foo/5","value":"qux"}])") == "422");
  CHECK(Patched(R"({"foo":["a"]})", R"([{"op":"add","path":"/foo/x","value":"qux"}])") == "422");
  CHECK(Patched(R"({"foo":"bar"})", R"([{"op":"remove","path":"/baz"}])") == "422");
  CHECK(Patched(R"({"foo":"bar"})", R"([{"op":"frob","path":"/baz"}])") == "422");
  CHECK(Patched(R"({"foo":"bar"})", R"([{"op":"add"}])") == "422");
  CHECK(Patched(R"({"foo":"bar"})", R"([{"op":"add","path":"","value":{}}])") == "422");
  CHECK(Patched(R"({"a":1})", R"([{"op":"add","path":"/b","value":1},{"op":"test","path":"/a","value":2}])") == "422");
  CHECK(Patched(R"({"a":1})", R"({"op":"add"})") == "400");
  CHECK(Patched(R"({"a":1})", R"([{)") == "400");
  CHECK(Patched(R"({"a":1})", R"([1])") == "400");
}

TEST_CASE("JSON Patch: an absent member tests as null where its parent exists", "[json_patch]") {
  CHECK(Patched(R"({"m":{}})", R"([{"op":"test","path":"/m/x","value":null}])") == R"({"m":{}})");
  CHECK(Patched(R"({"m":{}})", R"([{"op":"test","path":"/m/x"}])") == R"({"m":{}})");
  CHECK(Patched(R"({"m":{"x":"y"}})", R"([{"op":"test","path":"/m/x","value":null}])") == "422");
  CHECK(Patched(R"({"m":{}})", R"([{"op":"test","path":"/m/x","value":"y"}])") == "422");
  CHECK(Patched(R"({})", R"([{"op":"test","path":"/m/x","value":null}])") == "422");
  CHECK(Patched(R"({})", R"([{"op":"test","path":"/m","value":null}])") == "{}");
}

TEST_CASE("JSON Patch: replacing a member that is not there adds it", "[json_patch]") {
  CHECK(Patched(R"({})", R"([{"op":"replace","path":"/a","value":1}])") == R"({"a":1})");
  CHECK(Patched(R"({})", R"([{"op":"replace","path":"/a/b","value":1}])") == "422");
  CHECK(Patched(R"([1])", R"([{"op":"replace","path":"/3","value":1}])") == "422");
}

TEST_CASE("JSON Patch: test compares encoded text, and the server encodes < > & as Go does", "[json_patch]") {
  const std::string document = R"({"a":"x<y&z","b":"plain \"quoted\" text"})";
  CHECK(Patched(document, R"([{"op":"test","path":"/a","value":"x<y&z"}])") == "422");
  CHECK(Patched(document, R"([{"op":"test","path":"/a","value":"x\u003cy\u0026z"}])") == document);
  CHECK(Patched(document, R"([{"op":"test","path":"/b","value":"plain \"quoted\" text"}])") == document);
  CHECK(Patched(document, R"([{"op":"test","path":"","value":{"a":"x<y&z","b":"plain \"quoted\" text"}}])") == "422");
  CHECK(Patched(R"({"n":{"k":[1,true,null]}})", R"([{"op":"test","path":"/n","value":{"k":[1,true,null]}}])") != "422");
  // What is added is decoded all the same.
  CHECK(Patched(R"({})", R"([{"op":"add","path":"/a","value":"x\u003cy"}])") == R"({"a":"x<y"})");
}

TEST_CASE("JSON Patch: negative indices count from the end", "[json_patch]") {
  CHECK(Patched(R"({"a":[1,2,3]})", R"([{"op":"remove","path":"/a/-1"}])") == R"({"a":[1,2]})");
  CHECK(Patched(R"({"a":[1,2,3]})", R"([{"op":"remove","path":"/a/-4"}])") == "422");
}

std::string Merged(const std::string& document, const std::string& patch) {
  Json json = *ParseJson(document);
  ApplyMergePatch(*ParseJson(patch), &json);
  return Dump(json);
}

TEST_CASE("merge patch: RFC 7386", "[json_patch]") {
  CHECK(Merged(R"({"a":"b"})", R"({"a":"c"})") == R"({"a":"c"})");
  CHECK(Merged(R"({"a":"b"})", R"({"b":"c"})") == R"({"a":"b","b":"c"})");
  CHECK(Merged(R"({"a":"b","b":"c"})", R"({"a":null})") == R"({"b":"c"})");
  CHECK(Merged(R"({"a":["b"]})", R"({"a":"c"})") == R"({"a":"c"})");
  CHECK(Merged(R"({"a":{"b":"c"}})", R"({"a":{"b":"d","c":null}})") == R"({"a":{"b":"d"}})");
  CHECK(Merged(R"({"a":[{"b":"c"}]})", R"({"a":[1]})") == R"({"a":[1]})");
  CHECK(Merged(R"({"e":null})", R"({"a":1})") == R"({"a":1,"e":null})");
  CHECK(Merged(R"({})", R"({"a":{"bb":{"ccc":null}}})") == R"({"a":{"bb":{}}})");
}

TEST_CASE("merge patch: nulls in the objects of a new list are absences too", "[json_patch]") {
  CHECK(Merged(R"({})", R"({"c":[{"a":null,"b":1},null]})") == R"({"c":[{"b":1},null]})");
}

}  // namespace
}  // namespace muster::sim
