// Pods as objects: where they are bound, how they live, and what becomes of them with their node or their Job.
#include "muster/sim/nodes.h"

#include <catch2/catch.hpp>
#include <map>
#include <string>

#include "muster/sim/controllers.h"
#include "store_fixture.h"

namespace muster::sim {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

ControllerOptions WithPods() {
  ControllerOptions options;
  options.pod_objects = true;
  return options;
}

struct NodesFixture : StoreFixture {
  SimControllers controllers{&executor, &store, WithPods()};
  SimNodes nodes{&executor, &store, {}};

  void MakeNode(const std::string& name, int cpu) {
    Make({{"apiVersion", "v1"},
          {"kind", "Node"},
          {"metadata", {{"name", name}}},
          {"status", {{"allocatable", {{"cpu", std::to_string(cpu)}, {"pods", "10"}}}}}});
    SetReady(name, true);
  }
  void SetReady(const std::string& name, bool ready) {
    const Json condition = {{"type", "Ready"}, {"status", ready ? "True" : "False"}};
    REQUIRE(Merge(To("nodes", name, "status"), Json{{"status", {{"conditions", {condition}}}}}.dump()).ok());
  }
  void MakeJob(int pods, const std::string& run_seconds) {
    Json job = Job("j");
    job["spec"]["suspend"] = false;
    job["spec"]["parallelism"] = pods;
    job["spec"]["completions"] = pods;
    job["spec"]["template"]["metadata"]["annotations"] = {{"muster.dev/run-seconds", run_seconds}};
    job["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1";
    Make(std::move(job));
  }
  // How many pods that have not ended are on each node; "": on none.
  std::map<std::string, int> Live() const {
    std::map<std::string, int> out;
    for (const JsonPtr& pod : store.PeekAll(store.FindKind("", "pods"))) {
      if (!HasEnded(*pod)) ++out[Text(At(*pod, "spec", "nodeName"))];
    }
    return out;
  }
  int64_t Of(const char* count) { return Number(At(Now(To("jobs", "j")), "status", count)); }
};

using On = std::map<std::string, int>;

TEST_CASE_METHOD(NodesFixture, "pods are bound where there is room, run there, and end", "[nodes]") {
  MakeNode("n1", 2);
  MakeNode("n2", 1);
  MakeJob(4, "60");
  executor.RunFor(seconds(30));
  CHECK(Live() == On{{"n1", 2}, {"n2", 1}, {"", 1}});
  CHECK(Of("active") == 4);
  CHECK(Of("ready") == 3);
  // The last one gets the room of the first that ends.
  executor.RunFor(minutes(3));
  CHECK(Of("succeeded") == 4);
  CHECK(Live().empty());
}

TEST_CASE_METHOD(NodesFixture, "a pod goes where its selector leads, once its gates are gone", "[nodes]") {
  MakeNode("n1", 2);
  MakeNode("n2", 2);
  REQUIRE(Merge(To("nodes", "n2"), R"({"metadata":{"labels":{"pool":"x"}}})").ok());
  Make(Json::parse(R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"p",
    "annotations":{"muster.dev/run-seconds":"600"}},"spec":{
    "nodeSelector":{"pool":"x"},"schedulingGates":[{"name":"g"}],"containers":[{"name":"c"}]}})"));
  executor.RunFor(seconds(30));
  CHECK(Live() == On{{"", 1}});
  REQUIRE(Merge(To("pods", "p"), R"({"spec":{"schedulingGates":null}})").ok());
  REQUIRE(Merge(To("nodes", "n2"), R"({"spec":{"unschedulable":true}})").ok());
  executor.RunFor(seconds(30));
  CHECK(Live() == On{{"", 1}});
  REQUIRE(Merge(To("nodes", "n2"), R"({"spec":{"unschedulable":null}})").ok());
  executor.RunFor(seconds(30));
  CHECK(Live() == On{{"n2", 1}});
}

TEST_CASE_METHOD(NodesFixture, "pods of a suspended Job go, and of a deleted one", "[nodes]") {
  MakeNode("n1", 2);
  MakeJob(2, "600");
  executor.RunFor(seconds(30));
  REQUIRE(Live() == On{{"n1", 2}});
  REQUIRE(Merge(To("jobs", "j"), R"({"spec":{"suspend":true}})").ok());
  executor.RunFor(seconds(30));
  CHECK(Live().empty());
  CHECK(Of("active") == 0);
  CHECK(Of("failed") == 0);
  REQUIRE(Merge(To("jobs", "j"), R"({"spec":{"suspend":false}})").ok());
  executor.RunFor(seconds(30));
  REQUIRE(Live() == On{{"n1", 2}});
  DeleteOptions options;
  options.propagation = "Background";
  REQUIRE(Delete(To("jobs", "j"), options).ok());
  executor.RunFor(seconds(30));
  CHECK(Live().empty());
}

// kube-controller-manager: the pods have failed, and the Job makes others.
TEST_CASE_METHOD(NodesFixture, "pods of a node that is gone are lost, and made anew elsewhere", "[nodes]") {
  MakeNode("n1", 2);
  MakeJob(2, "600");
  executor.RunFor(seconds(30));
  REQUIRE(Live() == On{{"n1", 2}});
  MakeNode("n2", 2);
  REQUIRE(Delete(To("nodes", "n1")).ok());
  executor.RunFor(minutes(2));
  CHECK(Live() == On{{"n2", 2}});
  CHECK(Of("failed") == 2);
  CHECK(Of("ready") == 2);
}

TEST_CASE_METHOD(NodesFixture, "pods of a node that is not ready are told to go, and do once it is back", "[nodes]") {
  MakeNode("n1", 2);
  MakeJob(1, "600");
  executor.RunFor(seconds(30));
  SetReady("n1", false);
  executor.RunFor(minutes(2));
  // The one that replaces it waits.
  CHECK(Live() == On{{"n1", 1}, {"", 1}});
  CHECK(Of("active") == 1);
  CHECK(Of("terminating") == 1);
  SetReady("n1", true);
  executor.RunFor(minutes(1));
  CHECK(Live() == On{{"n1", 1}});
  CHECK(Of("terminating") == 0);
  CHECK(Of("ready") == 1);
}

}  // namespace
}  // namespace muster::sim
