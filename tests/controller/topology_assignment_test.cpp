// topologyAssignment as the API has it. Examples are of the recorded cases of the reference and of
// kueue_semantics 9.9.6.
#include "muster/controller/topology_assignment.h"

#include <catch2/catch.hpp>

namespace muster::controller {

namespace {

std::string Encoded(const gang::TopologyAssignment& assignment) {
  k8s::JsonWriter out;
  EncodeTopologyAssignment(assignment, &out);
  return out.Take();
}

// What is wrong; "" and the value where nothing is.
std::string Decode(const std::string& json, gang::TopologyAssignment* out) {
  k8s::JsonDocument document(json);
  *out = DecodeTopologyAssignment(document.root());
  return document.problem();
}

}  // namespace

TEST_CASE("domains that differ have a common prefix and suffix, and roots of their own") {
  const gang::TopologyAssignment two{{"kubernetes.io/hostname"}, {{{"n2"}, 1}, {{"n1"}, 2}}};
  CHECK(Encoded(two) ==
        R"({"levels":["kubernetes.io/hostname"],"slices":[{"domainCount":2,"valuesPerLevel":[{"individual":)"
        R"({"prefix":"n","roots":["2","1"]}}],"podCounts":{"individual":[1,2]}}]})");
  const gang::TopologyAssignment equal{{"block", "rack"}, {{{"b1", "r1-x"}, 3}, {{"b1", "r22-x"}, 3}}};
  CHECK(Encoded(equal) == R"({"levels":["block","rack"],"slices":[{"domainCount":2,"valuesPerLevel":[)"
                          R"({"universal":"b1"},{"individual":{"prefix":"r","suffix":"-x","roots":["1","22"]}}],)"
                          R"("podCounts":{"universal":3}}]})");
  // One value is the beginning of the other, and its end: nothing is used twice.
  const gang::TopologyAssignment nested{{"h"}, {{{"aa"}, 1}, {{"aaa"}, 1}}};
  CHECK(Encoded(nested).find(R"({"prefix":"aa","roots":["","a"]})") != std::string::npos);
}

TEST_CASE("what is written is read as it was") {
  const gang::TopologyAssignment cases[] = {
      {{"h"}, {}},
      {{"h"}, {{{"n1"}, 1}}},
      {{"h"}, {{{"aa"}, 1}, {{"aaa"}, 2}, {{"a"}, 3}}},
      {{"h"}, {{{"xax"}, 1}, {{"xx"}, 1}}},
      {{"b", "r"}, {{{"b1", "r1"}, 1}, {{"b1", "r2"}, 1}, {{"b2", "r1"}, 5}}},
  };
  for (const gang::TopologyAssignment& assignment : cases) {
    gang::TopologyAssignment read;
    CHECK(Decode(Encoded(assignment), &read).empty());
    CHECK(read == assignment);
  }
}

TEST_CASE("lists that do not fit together are named, and nothing is made of them") {
  gang::TopologyAssignment read;
  CHECK(Decode(R"({"levels":["h"],"slices":[{"domainCount":2,"valuesPerLevel":[{"individual":{"roots":["1"]}}],)"
               R"("podCounts":{"universal":1}}]})",
               &read)
            .find("slices[0].valuesPerLevel[0].individual.roots") == 0);
  CHECK(read.domains.empty());
  CHECK(Decode(R"({"levels":["h"],"slices":[{"domainCount":2,"valuesPerLevel":[{"universal":"a"}],)"
               R"("podCounts":{"individual":[1]}}]})",
               &read)
            .find("slices[0].podCounts.individual") == 0);
  CHECK(Decode(R"({"levels":["h","i"],"slices":[{"domainCount":1,"valuesPerLevel":[{"universal":"a"}],)"
               R"("podCounts":{"universal":1}}]})",
               &read)
            .find("slices[0].valuesPerLevel") == 0);
  for (const char* count : {"0", "100001", "2147483647"}) {
    const std::string text = std::string(R"({"levels":["h"],"slices":[{"domainCount":)") + count +
                             R"(,"valuesPerLevel":[{"universal":"a"}],"podCounts":{"universal":1}}]})";
    CHECK(Decode(text, &read).find("slices[0].domainCount") == 0);
  }
}

}  // namespace muster::controller
