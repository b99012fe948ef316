// What a Workload that waits says of why: with the whole Controller, on the simulated API server.
#include <catch2/catch.hpp>

#include "world.h"

namespace muster::controller {
namespace {

using sim::At;
using sim::Json;
using sim::Text;

// "Reason: message" of a condition of the Job's Workload.
std::string Told(const World& world, const std::string& job, const std::string& type) {
  const Json workload = world.WorkloadOf(job);
  const Json& condition = sim::FindCondition(At(workload, "status", "conditions"), type);
  if (condition.is_null()) return "";
  return Text(sim::Get(condition, "reason")) + ": " + Text(sim::Get(condition, "message"));
}
std::string Reserved(const World& world, const std::string& job) { return Told(world, job, "QuotaReserved"); }
std::string Waits(const World& world, const std::string& job) { return Told(world, job, "muster.dev/Waiting"); }

Json JobOf(const std::string& name, const std::string& ns, const std::string& pod_spec) {
  Json job = Json::parse(R"({"apiVersion":"batch/v1","kind":"Job","metadata":{"labels":{
    "kueue.x-k8s.io/queue-name":"lq"}},"spec":{"suspend":true,"parallelism":1,"completions":1,"template":{
    "metadata":{"annotations":{"muster.dev/run-seconds":"5"}}}}})");
  job["metadata"]["name"] = name;
  job["metadata"]["namespace"] = ns;
  job["spec"]["template"]["spec"] = Json::parse(pod_spec);
  return job;
}
constexpr const char* kOneCpu =
    R"({"restartPolicy":"Never","containers":[{"name":"main","image":"w:1","resources":{"requests":{"cpu":"1"}}}]})";

TEST_CASE("Workloads that are like one that failed say as much as that one, whenever they come") {
  World world;
  world.Start();
  world.MakeQueues("4");
  world.MakeJob("runs", 3, 36000);
  world.RunFor(std::chrono::seconds(5));
  for (const char* name : {"a", "b"}) world.MakeJob(name, 3, 5);
  world.RunFor(std::chrono::seconds(10));
  world.MakeJob("late", 3, 5);
  world.RunFor(std::chrono::seconds(10));
  for (const char* name : {"a", "b", "late"}) {
    INFO(name);
    // 4 - 3 = 1 is free of the 3.
    CHECK(Reserved(world, name) ==
          "WaitingForQuota: couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor f, 2 "
          "more needed");
    CHECK(Waits(world, name) ==
          "QuotaInUse: pod set main asks for 3 of cpu in flavor f, 2 more than is free: ClusterQueue cq uses 3 of 4; "
          "cleared when 2 is released there, or the quota is raised");
  }
  world.Delete("jobs", "team", "runs");
  REQUIRE(world.RunUntil([&] { return world.Finished("late"); }));
  CHECK(Waits(world, "late").empty());
}

TEST_CASE("A Job outside of a LimitRange waits with resource, value, limit and the LimitRange, until that is changed") {
  World world;
  world.Start();
  world.MakeQueues("4");
  world.Create(Json::parse(R"({"apiVersion":"v1","kind":"LimitRange","metadata":{"namespace":"team","name":"small"},
    "spec":{"limits":[{"type":"Container","max":{"cpu":"500m"}}]}})"));
  world.RunFor(std::chrono::seconds(1));  // Jobs come by another watch
  world.MakeJob("train", 1, 5);
  REQUIRE(world.RunUntil([&] { return !Reserved(world, "train").empty(); }));
  CHECK(Reserved(world, "train") ==
        "Misconfigured: resources didn't satisfy LimitRange constraints: containers[0].resources[cpu]: 1 is above the "
        "max of 500m of LimitRange small");
  CHECK(Waits(world, "train").starts_with("OutsideLimitRange: "));
  world.Patch("limitranges", "team", "small",
              Json::parse(R"({"spec":{"limits":[{"type":"Container","max":{"cpu":"1"}}]}})"));
  REQUIRE(world.RunUntil([&] { return world.Finished("train"); }));
}

TEST_CASE("A Job whose RuntimeClass does not exist waits for it") {
  World world;
  world.Start();
  world.MakeQueues("4");
  Json job = JobOf("train", "team", kOneCpu);
  job["spec"]["template"]["spec"]["runtimeClassName"] = "gvisor";
  world.Create(job);
  REQUIRE(world.RunUntil([&] { return !Reserved(world, "train").empty(); }));
  CHECK(Reserved(world, "train") == "Misconfigured: RuntimeClass gvisor doesn't exist");
  CHECK(Waits(world, "train").starts_with("RuntimeClassMissing: "));
  world.Create({{"apiVersion", "node.k8s.io/v1"},
                {"kind", "RuntimeClass"},
                {"metadata", {{"name", "gvisor"}}},
                {"handler", "gvisor"},
                {"overhead", {{"podFixed", {{"cpu", "250m"}}}}}});
  REQUIRE(world.RunUntil([&] { return world.Finished("train"); }));
  CHECK(Text(At(world.WorkloadOf("train"), "status", "admission", "podSetAssignments")[0]["resourceUsage"]["cpu"]) ==
        "1250m");
}

TEST_CASE("Who stands behind a strict head is told its name, unless that is of another namespace") {
  const bool elsewhere = GENERATE(false, true);
  World world;
  world.Start();
  world.MakeQueues("4");
  world.Patch("clusterqueues", "", "cq", {{"spec", {{"queueingStrategy", "StrictFIFO"}}}});
  std::string head = "Job big";
  if (elsewhere) {
    world.Create({{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", {{"name", "secret"}}}});
    world.Create(Json::parse(R"({"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"LocalQueue",
      "metadata":{"name":"lq","namespace":"secret"},"spec":{"clusterQueue":"cq"}})"));
    Json job = JobOf("big", "secret", kOneCpu);
    job["spec"]["parallelism"] = job["spec"]["completions"] = 9;
    const Json made = world.Create(job);
    head = "a Job of another namespace (UID " + Text(At(made, "metadata", "uid")) + ")";
  } else {
    world.MakeJob("big", 9, 5);
  }
  world.RunFor(std::chrono::seconds(5));
  world.MakeJob("small", 1, 5);
  REQUIRE(world.RunUntil([&] { return !Waits(world, "small").empty(); }));
  CHECK(Waits(world, "small") == "BehindStrictHead: it stands behind the head of its StrictFIFO queue, which was " +
                                     head + "; cleared when that starts or goes");
  CHECK(Reserved(world, "small").empty());  // as in the reference
  // Another stands before it by now, and is named in a while.
  for (const auto& [name, pods] : {std::pair("next", 8), std::pair("last", 1)}) {
    world.RunFor(std::chrono::seconds(2));  // of one second either may be first
    world.MakeJob(name, pods, 5);
  }
  REQUIRE(world.RunUntil([&] { return Waits(world, "last").find(head) != std::string::npos; }));
  world.Delete("jobs", elsewhere ? "secret" : "team", "big");
  REQUIRE(world.RunUntil([&] { return world.Finished("small"); }));
  REQUIRE(world.RunUntil([&] { return Waits(world, "last").find("which was Job next;") != std::string::npos; }));
  world.Delete("jobs", "team", "next");
  REQUIRE(world.RunUntil([&] { return world.Finished("last"); }));
}

}  // namespace
}  // namespace muster::controller
