// What annotations of a pod template ask of a topology (kueue_semantics 9.9.1).
#include "muster/controller/topology_request.h"

#include <catch2/catch.hpp>

#include "muster/controller/decode.h"

namespace muster::controller {
namespace {

gang::TopologyRequest Read(const Labels& annotations, int32_t pods = 8) {
  const auto request = ReadTopologyRequest(annotations, pods);
  INFO(request.status().message());
  REQUIRE(request.ok());
  return *request;
}

std::string Problem(const Labels& annotations, int32_t pods = 8) {
  return std::string(ReadTopologyRequest(annotations, pods).status().message());
}

TEST_CASE("Each annotation asks for what it says") {
  CHECK(Read({{"example.com/note", "x"}}) == gang::TopologyRequest{});
  CHECK(Read({{"kueue.x-k8s.io/podset-required-topology", "example.com/rack"}}).required == "example.com/rack");
  CHECK(Read({{"kueue.x-k8s.io/podset-preferred-topology", "rack"}}).preferred == "rack");
  CHECK(Read({{"kueue.x-k8s.io/podset-unconstrained-topology", "true"}}).unconstrained);
  CHECK_FALSE(Read({{"kueue.x-k8s.io/podset-unconstrained-topology", "false"}}).unconstrained);
  CHECK(Read({{"kueue.x-k8s.io/podset-slice-required-topology", "rack"}, {"kueue.x-k8s.io/podset-slice-size", "4"}})
            .slices == std::vector<gang::SliceConstraint>{{"rack", 4}});
  CHECK(Read({{"kueue.x-k8s.io/podset-slice-required-topology-constraints",
               R"([{"topology":"block","size":4},{"topology":"rack","size":2}])"}})
            .slices == std::vector<gang::SliceConstraint>{{"block", 4}, {"rack", 2}});
}

TEST_CASE("What contradicts itself or cannot be read is named with its value") {
  using Catch::Contains;
  const std::string required = "kueue.x-k8s.io/podset-required-topology";
  const std::string size = "kueue.x-k8s.io/podset-slice-size";
  const std::string slice = "kueue.x-k8s.io/podset-slice-required-topology";
  const std::string layers = slice + "-constraints";
  CHECK_THAT(Problem({{required, "a b"}}), Contains(required + ": \"a b\" is not the key of a label"));
  CHECK_THAT(Problem({{required, ""}}), Contains("\"\" is not the key of a label"));
  CHECK_THAT(Problem({{required, std::string(64, 'a')}}), Contains("is longer than 63 bytes"));
  CHECK_THAT(Problem({{required, "rack"}, {"kueue.x-k8s.io/podset-preferred-topology", "block"}}),
             Contains(required + ": \"rack\" cannot be beside another of required, preferred and unconstrained"));
  CHECK_THAT(Problem({{"kueue.x-k8s.io/podset-unconstrained-topology", "maybe"}}),
             Contains("\"maybe\" is neither true nor false"));
  CHECK_THAT(Problem({{slice, "rack"}}), Contains(slice + ": \"rack\" needs " + size + " beside it"));
  CHECK_THAT(Problem({{size, "2"}}), Contains(size + ": \"2\" needs " + slice + " beside it"));
  CHECK_THAT(Problem({{slice, "rack"}, {size, "0"}}), Contains(size + ": \"0\" is not a number above 0"));
  CHECK_THAT(Problem({{slice, "rack"}, {size, "9"}}), Contains(size + ": \"9\" is more than there are pods, 8"));
  CHECK_THAT(Problem({{layers, "rack"}}), Contains(layers + ": \"rack\" is not a JSON list"));
  CHECK_THAT(Problem({{layers, "[]"}}), Contains("does not have from 1 to 3 entries"));
  CHECK_THAT(Problem({{layers, R"([{"topology":"rack","size":2}])"}, {slice, "rack"}, {size, "2"}}),
             Contains("cannot be beside " + slice));
  CHECK_THAT(Problem({{"kueue.x-k8s.io/podset-group-name", "pair"}, {required, "rack"}}),
             Contains("podset-group-name: \"pair\" makes no group"));
}

TEST_CASE("A Workload carries the request, and it reads back the same") {
  for (const gang::TopologyRequest& request :
       {gang::TopologyRequest{}, gang::TopologyRequest{"rack", "", false, {}, "pair"},
        gang::TopologyRequest{"", "block", false, {{"rack", 4}}, ""},
        gang::TopologyRequest{"", "", true, {{"block", 4}, {"rack", 2}}, ""}}) {
    k8s::JsonWriter out;
    WriteTopologyRequest(request, "index", &out);
    const std::string json = out.Take();
    INFO(json);
    k8s::JsonDocument document(json);
    CHECK(DecodeTopologyRequest(document.root()) == request);
    CHECK(document.root()["podIndexLabel"].String() == "index");
    CHECK(document.problem().empty());
  }
}

}  // namespace
}  // namespace muster::controller
