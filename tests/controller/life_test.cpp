// The life of Jobs with the whole Controller, on the simulated API server.
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <catch2/catch.hpp>
#include <sstream>

#include "drills.h"
#include "muster/core/log_fields.h"
#include "world.h"

namespace muster::controller {
namespace {

using sim::At;
using sim::Json;
using sim::Text;

constexpr const char* kRecord = "muster.dev/admission";

bool HasRecord(const World& world, const std::string& job) {
  return At(world.Get("jobs", "team", job), "metadata", "annotations").contains(kRecord);
}
// "Status/Reason: message"
std::string ConditionOf(const Json& object, const std::string& type) {
  const Json& condition = sim::FindCondition(At(object, "status", "conditions"), type);
  if (condition.is_null()) return "";
  return Text(sim::Get(condition, "status")) + "/" + Text(sim::Get(condition, "reason")) + ": " +
         Text(sim::Get(condition, "message"));
}
std::set<std::string> EventReasons(const World& world) {
  std::set<std::string> out;
  for (const Json& event : world.List("events", "team")) out.insert(Text(sim::Get(event, "reason")));
  return out;
}
int64_t Usage(const World& world) {
  return sim::Number(At(world.Get("clusterqueues", "", "cq"), "status", "reservingWorkloads"), -1);
}

TEST_CASE("A Job that fits takes four writes from creation to its end, and every condition is there") {
  World world;
  world.Start();
  world.MakeQueues("4");
  world.RunFor(std::chrono::seconds(5));
  const size_t before = world.server.writes().size();
  world.MakeJob("train", 2, 5);
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "train"); }, std::chrono::seconds(1)));
  REQUIRE(world.RunUntil(
      [&] { return ConditionOf(world.WorkloadOf("train"), "Admitted") == "True/Admitted: The workload is admitted"; },
      std::chrono::seconds(1)));
  const Json job = world.Get("jobs", "team", "train");
  CHECK(At(job, "spec", "template", "spec", "nodeSelector") == Json({{"tier", "std"}}));
  CHECK(Text(At(job, "spec", "template", "metadata", "labels", "kueue.x-k8s.io/cluster-queue-name")) == "cq");
  const Json workload = world.WorkloadOf("train");
  CHECK(Text(At(workload, "metadata", "labels", "muster.dev/record")) == "job");
  CHECK(ConditionOf(workload, "QuotaReserved") == "True/QuotaReserved: Quota reserved in ClusterQueue cq");
  CHECK(At(workload, "status", "admission", "podSetAssignments").dump() ==
        R"([{"count":2,"flavors":{"cpu":"f"},"name":"main","resourceUsage":{"cpu":"2"}}])");
  REQUIRE(world.RunUntil([&] { return world.Finished("train"); }));
  world.RunFor(std::chrono::seconds(5));
  CHECK(ConditionOf(world.WorkloadOf("train"), "Finished").starts_with("True/Succeeded"));
  auto writes = world.Writes(before);
  CHECK(writes["patch jobs"] == 1);
  CHECK(writes["create workloads"] == 1);
  CHECK(writes["patch workloads"] == 0);
  CHECK(writes["patch workloads/status"] == 2);
  CHECK(writes["patch jobs/status"] == 0);
  for (const char* reason : {"CreatedWorkload", "QuotaReserved", "Admitted", "Started", "FinishedWorkload"}) {
    CHECK(EventReasons(world).contains(reason));
  }
  const Process& muster = *world.processes[0];
  CHECK(muster.telemetry.admitted == 1);
  CHECK(muster.telemetry.finished == 1);
  CHECK(muster.telemetry.workloads_created == 1);
  CHECK(Usage(world) == 0);
  muster.controller->engine()->Validate();
}

TEST_CASE("A Job is charged what the configuration makes of its requests") {
  Options options = World::DefaultOptions();
  gang::Transformation twice;  // kept, and the same again
  twice.input = "cpu";
  twice.outputs = {{"cpu", Quantity::FromInteger(1)}};
  options.requests.transformations = {twice};
  World world;
  world.Start("", options);
  world.MakeQueues("4");
  world.MakeJob("train", 2, 60);
  REQUIRE(world.RunUntil([&] { return !At(world.WorkloadOf("train"), "status", "admission").is_null(); }));
  CHECK(At(world.WorkloadOf("train"), "status", "admission", "podSetAssignments").dump() ==
        R"([{"count":2,"flavors":{"cpu":"f"},"name":"main","resourceUsage":{"cpu":"4"}}])");
  world.MakeJob("more", 1, 60);
  world.RunFor(std::chrono::seconds(5));
  CHECK(Suspended(world, "more"));
}

TEST_CASE("What becomes of a Job is logged with its names in fields") {
  std::ostringstream text;
  const auto before = spdlog::default_logger();
  auto logger = std::make_shared<spdlog::logger>("life", std::make_shared<spdlog::sinks::ostream_sink_mt>(text));
  logger->set_pattern("%v");
  spdlog::set_default_logger(logger);
  {
    World world;
    world.Start();
    world.MakeQueues("4");
    world.MakeJob("train", 2, 5);
    CHECK(world.RunUntil([&] { return world.Finished("train"); }));
    world.RunFor(std::chrono::seconds(5));
  }
  spdlog::set_default_logger(before);
  std::map<std::string, std::map<std::string, std::string>> fields;  // by message
  std::istringstream lines(text.str());
  for (std::string line; std::getline(lines, line);) {
    const SplitLogMessage split = SplitLogFields(line);
    CHECK(split.message.find("train") == std::string::npos);
    auto& of_message = fields[std::string(split.message)];
    for (const auto& [key, value] : split.fields) of_message[std::string(key)] = std::string(value);
  }
  for (const char* message : {"a job is started", "a job has finished"}) {
    INFO(message);
    REQUIRE(fields.contains(message));
    CHECK(fields[message]["namespace"] == "team");
    CHECK(fields[message]["job"] == "train");
    CHECK(fields[message]["workload"].starts_with("job-train-"));
  }
  CHECK(fields["a job is started"]["clusterQueue"] == "cq");
  CHECK(fields["a job is started"]["localQueue"] == "lq");
  CHECK(fields["a job has finished"]["outcome"] == "succeeded");
}

TEST_CASE("A Job that does not fit waits with a reason and starts when room comes; at rest nothing is written") {
  World world;
  world.Start();
  world.MakeQueues("3");
  world.MakeJob("one", 3, 400);
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "one"); }));
  for (int i = 0; i < 20; ++i) world.MakeJob("more-" + std::to_string(i), 2, 5);
  world.RunFor(std::chrono::seconds(30));
  CHECK(ConditionOf(world.WorkloadOf("more-0"), "QuotaReserved") ==
        "False/WaitingForQuota: couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor "
        "f, 2 "
        "more needed");
  CHECK(Text(At(world.Get("clusterqueues", "", "cq"), "status", "flavorsUsage").dump()).size() > 2);
  CHECK(sim::Number(At(world.Get("clusterqueues", "", "cq"), "status", "pendingWorkloads")) == 20);
  const size_t before = world.server.writes().size();
  world.RunFor(std::chrono::minutes(2));
  CHECK(world.Writes(before).empty());
  REQUIRE(world.RunUntil([&] { return world.Finished("more-19"); }, std::chrono::minutes(30)));
  for (int i = 0; i < 20; ++i) {
    REQUIRE(world.RunUntil([&] { return world.Finished("more-" + std::to_string(i)); }, std::chrono::minutes(30)));
  }
}

TEST_CASE("A deactivated gang is stopped, restored and, once active again, started anew") {
  World world;
  Process& muster = world.Start();
  world.MakeQueues("4");
  const Json created = world.MakeJob("train", 2, 600);
  REQUIRE(world.RunUntil([&] { return ConditionOf(world.WorkloadOf("train"), "Admitted").starts_with("True"); }));
  world.RunFor(std::chrono::seconds(10));
  const std::string workload = Text(At(world.WorkloadOf("train"), "metadata", "name"));
  const size_t before = world.server.writes().size();
  world.Patch("workloads", "team", workload, {{"spec", {{"active", false}}}});
  REQUIRE(world.RunUntil([&] { return Suspended(world, "train"); }, std::chrono::seconds(1)));
  world.RunFor(std::chrono::seconds(10));
  const Json job = world.Get("jobs", "team", "train");
  CHECK_FALSE(HasRecord(world, "train"));
  CHECK(At(job, "spec", "template") == At(created, "spec", "template"));
  CHECK(ConditionOf(world.WorkloadOf("train"), "Evicted") == "True/Deactivated: The workload is deactivated");
  CHECK(ConditionOf(world.WorkloadOf("train"), "QuotaReserved") == "False/Deactivated: The workload is deactivated");
  CHECK(ConditionOf(world.WorkloadOf("train"), "Requeued") == "False/Deactivated: The workload is deactivated");
  CHECK(sim::Number(At(world.WorkloadOf("train"), "status", "accumulatedPastExecutionTimeSeconds")) >= 10);
  auto writes = world.Writes(before);
  CHECK(writes["patch jobs"] == 2);  // the stop and the restoration
  CHECK(writes["patch workloads/status"] <= 2);
  CHECK(Usage(world) == 0);
  CHECK(muster.telemetry.evicted["Deactivated"] == 1);

  world.Patch("workloads", "team", workload, {{"spec", {{"active", true}}}});
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "train"); }));
  world.RunFor(std::chrono::seconds(3));
  CHECK(ConditionOf(world.WorkloadOf("train"), "Evicted") ==
        "False/QuotaReserved: Previously: The workload is deactivated");
  CHECK(ConditionOf(world.WorkloadOf("train"), "Requeued") == "True/Reactivated: The workload was reactivated");
  REQUIRE(world.RunUntil([&] { return world.Finished("train"); }, std::chrono::minutes(30)));
  muster.controller->engine()->Validate();
}

TEST_CASE("A drained ClusterQueue stops its gangs, and starts them when it is opened again") {
  World world;
  world.Start();
  world.MakeQueues("4");
  world.MakeJob("train", 2, 600);
  REQUIRE(world.RunUntil([&] { return ConditionOf(world.WorkloadOf("train"), "Admitted").starts_with("True"); }));
  world.RunFor(std::chrono::seconds(5));
  world.Patch("clusterqueues", "", "cq", {{"spec", {{"stopPolicy", "HoldAndDrain"}}}});
  REQUIRE(world.RunUntil([&] { return Suspended(world, "train"); }));
  world.RunFor(std::chrono::seconds(10));
  CHECK(ConditionOf(world.WorkloadOf("train"), "Evicted") == "True/ClusterQueueStopped: The ClusterQueue is stopped");
  CHECK(ConditionOf(world.WorkloadOf("train"), "QuotaReserved") == "False/Suspended: ClusterQueue cq is inactive");
  CHECK(ConditionOf(world.Get("clusterqueues", "", "cq"), "Active") ==
        "False/Stopped: Can't admit new workloads: is stopped.");
  CHECK(ConditionOf(world.Get("localqueues", "team", "lq"), "Active") ==
        "False/ClusterQueueIsInactive: Can't submit new workloads to clusterQueue");
  world.Patch("clusterqueues", "", "cq", {{"spec", {{"stopPolicy", "None"}}}});
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "train"); }));
  world.RunFor(std::chrono::seconds(3));
  CHECK(ConditionOf(world.WorkloadOf("train"), "Requeued") ==
        "True/ClusterQueueRestarted: The ClusterQueue was restarted after being stopped");
}

TEST_CASE("A Job that runs without admission is suspended, and starts when it fits") {
  World world;
  world.Start();
  world.MakeQueues("1");
  world.RunFor(std::chrono::seconds(1));
  Json job = world.MakeJob("blocker", 1, 60);
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "blocker"); }));
  job = world.MakeJob("rogue", 1, 5);
  world.Patch("jobs", "team", "rogue", {{"spec", {{"suspend", false}}}});
  REQUIRE(world.RunUntil([&] { return Suspended(world, "rogue"); }));
  REQUIRE(world.RunUntil([&] { return world.Finished("rogue"); }, std::chrono::minutes(5)));
  CHECK(world.Finished("blocker"));
}

TEST_CASE("A running gang that a user suspends is started again, but not for ever") {
  World world;
  Process& muster = world.Start();
  world.MakeQueues("4");
  world.MakeJob("train", 2, 600);
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "train"); }));
  for (int i = 0; i < 3; ++i) {
    world.RunFor(std::chrono::seconds(10));
    world.Patch("jobs", "team", "train", {{"spec", {{"suspend", true}}}});
    REQUIRE(world.RunUntil([&] { return !Suspended(world, "train"); }));
    CHECK(muster.telemetry.evicted.empty());
  }
  world.RunFor(std::chrono::seconds(10));
  world.Patch("jobs", "team", "train", {{"spec", {{"suspend", true}}}});
  world.RunFor(std::chrono::seconds(20));
  CHECK(Suspended(world, "train"));
  CHECK(muster.telemetry.evicted["JobSuspended"] == 1);
  CHECK(ConditionOf(world.WorkloadOf("train"), "Evicted").starts_with("True/JobSuspended"));
  REQUIRE(world.RunUntil([&] { return world.Finished("train"); }, std::chrono::hours(1)));
}

TEST_CASE("A Workload that cannot be read any more is left alone until it can be read again") {
  World world;
  Process& muster = world.Start();
  world.MakeQueues("4");
  world.MakeJob("train", 2, 3600);
  REQUIRE(world.RunUntil([&] { return ConditionOf(world.WorkloadOf("train"), "Admitted").starts_with("True"); }));
  world.RunFor(std::chrono::seconds(5));
  const std::string workload = Text(At(world.WorkloadOf("train"), "metadata", "name"));
  world.Patch("workloads", "team", workload, {{"spec", {{"priority", "no number"}}}});
  world.RunFor(std::chrono::seconds(30));
  CHECK(EventReasons(world).contains("Misconfigured"));
  size_t before = world.server.writes().size();
  world.RunFor(std::chrono::minutes(10));
  CHECK(world.Writes(before).empty());
  CHECK(muster.controller->health().problems.size() == 1);
  world.Patch("workloads", "team", workload, {{"spec", {{"priority", 0}}}});
  world.RunFor(std::chrono::seconds(30));
  CHECK(muster.controller->health().problems.empty());
  before = world.server.writes().size();
  world.RunFor(std::chrono::minutes(1));
  CHECK(world.Writes(before).empty());
}

TEST_CASE("A record that somebody removes from a running Job is written again") {
  World world;
  world.Start();
  world.MakeQueues("4");
  world.MakeJob("train", 2, 60);
  REQUIRE(world.RunUntil([&] { return HasRecord(world, "train"); }));
  const std::string record = Text(At(world.Get("jobs", "team", "train"), "metadata", "annotations", kRecord));
  world.Patch("jobs", "team", "train", {{"metadata", {{"annotations", {{kRecord, nullptr}}}}}});
  REQUIRE_FALSE(HasRecord(world, "train"));
  REQUIRE(world.RunUntil([&] { return HasRecord(world, "train"); }));
  CHECK(Text(At(world.Get("jobs", "team", "train"), "metadata", "annotations", kRecord)) == record);
  CHECK_FALSE(Suspended(world, "train"));
}

TEST_CASE("A Workload that a user deletes stops its Job, which queues again") {
  World world;
  Process& muster = world.Start();
  world.MakeQueues("4");
  world.MakeJob("train", 2, 60);
  REQUIRE(world.RunUntil([&] { return ConditionOf(world.WorkloadOf("train"), "Admitted").starts_with("True"); }));
  const Json first = world.WorkloadOf("train");
  world.RunFor(std::chrono::seconds(5));
  world.Delete("workloads", "team", Text(At(first, "metadata", "name")));
  REQUIRE(world.RunUntil([&] { return muster.telemetry.evicted["WorkloadDeleted"] == 1; }));
  REQUIRE(world.RunUntil([&] { return world.Finished("train"); }, std::chrono::minutes(10)));
  world.RunFor(std::chrono::seconds(2));
  CHECK(At(world.WorkloadOf("train"), "metadata", "uid") != At(first, "metadata", "uid"));
}

// user_pains H7
TEST_CASE("A deleted Job frees its quota, and its Workload goes with it or says that the owner is gone") {
  World world;
  world.Start();
  world.MakeQueues("2");
  world.MakeJob("one", 2, 600);
  REQUIRE(world.RunUntil([&] { return ConditionOf(world.WorkloadOf("one"), "Admitted").starts_with("True"); }));
  const std::string workload = Text(At(world.WorkloadOf("one"), "metadata", "name"));
  world.MakeJob("two", 2, 5);
  world.RunFor(std::chrono::seconds(5));
  CHECK(Suspended(world, "two"));
  SECTION("in the background") {
    world.Delete("jobs", "team", "one", "Background");
    REQUIRE(world.RunUntil([&] { return world.Get("workloads", "team", workload).is_null(); }));
  }
  SECTION("leaving its dependents") {
    world.Delete("jobs", "team", "one", "Orphan");
    REQUIRE(world.RunUntil([&] {
      return ConditionOf(world.Get("workloads", "team", workload), "Finished") ==
             "True/OwnerNotFound: The workload's owner no longer exists";
    }));
  }
  REQUIRE(world.RunUntil([&] { return world.Finished("two"); }));
}

TEST_CASE("A template that contradicts its flavor ends as FailedToStart and holds up nobody") {
  World world;
  world.Start();
  world.MakeQueues("2");
  Json job = Json::parse(R"({"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"bad","namespace":"team",
    "labels":{"kueue.x-k8s.io/queue-name":"lq"}},"spec":{"suspend":true,"template":{"metadata":{"labels":
      {"kueue.x-k8s.io/podset":"other"}},"spec":{"restartPolicy":"Never","containers":[
      {"name":"main","image":"work:1","resources":{"requests":{"cpu":"1"}}}]}}}})");
  world.Create(job);
  REQUIRE(world.RunUntil(
      [&] { return ConditionOf(world.WorkloadOf("bad"), "Finished").starts_with("True/FailedToStart"); }));
  CHECK(Suspended(world, "bad"));
  world.MakeJob("good", 2, 5);
  REQUIRE(world.RunUntil([&] { return world.Finished("good"); }));
}

TEST_CASE("A Job whose priority class does not exist waits for it and says so") {
  World world;
  world.Start();
  world.MakeQueues("2");
  world.MakeJob("train", 1, 5);
  world.Patch("jobs", "team", "train",
              {{"metadata", {{"labels", {{"kueue.x-k8s.io/priority-class", "high"}}}}}, {"spec", {{"suspend", true}}}});
  world.MakeJob("other", 1, 1);
  Json classed = Json::parse(R"({"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"classed","namespace":"team",
    "labels":{"kueue.x-k8s.io/queue-name":"lq","kueue.x-k8s.io/priority-class":"missing"}},
    "spec":{"suspend":true,"template":{"spec":{"restartPolicy":"Never","containers":[
      {"name":"main","image":"work:1","resources":{"requests":{"cpu":"1"}}}]}}}})");
  world.Create(classed);
  world.RunFor(std::chrono::seconds(10));
  CHECK(Suspended(world, "classed"));
  CHECK(EventReasons(world).contains("WorkloadPriorityClassNotFound"));
  world.Create(Json::parse(R"({"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"WorkloadPriorityClass",
    "metadata":{"name":"missing"},"value":7})"));
  REQUIRE(world.RunUntil([&] { return world.Finished("classed"); }));
  CHECK(sim::Number(At(world.WorkloadOf("classed"), "spec", "priority")) == 7);
}

// The policies can tell a child by its owner's kind and its writer only, and suspend the others: those are queued.
// user_pains G4, H16
TEST_CASE("Jobs without queue, of unmanaged namespaces and of configured parents are left alone, others not") {
  World world;
  Options options = World::DefaultOptions();
  options.parents = {{"system:serviceaccount:jobset-system:jobset-controller", "jobset.x-k8s.io", "JobSet"}};
  world.Start("", options);
  world.MakeQueues("4");
  world.Create(Json::parse(R"({"apiVersion":"v1","kind":"Namespace","metadata":{"name":"kube-system",
    "labels":{"kubernetes.io/metadata.name":"kube-system"}}})"));
  Json job = Json::parse(R"({"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"system","namespace":"kube-system",
    "labels":{"kueue.x-k8s.io/queue-name":"lq"}},"spec":{"suspend":false,"template":{"spec":{"restartPolicy":"Never",
    "containers":[{"name":"main","image":"work:1"}]}}}})");
  world.Create(job);
  job["metadata"] = {{"name", "plain"}, {"namespace", "team"}};
  world.Create(job);
  const Json parent = world.MakeJob("parent", 1, 100);
  const auto make_child = [&](const std::string& name, const std::string& owner, const std::string& api_version,
                              const std::string& uid) {
    job["metadata"] = {
        {"name", name},
        {"namespace", "team"},
        {"labels", {{"kueue.x-k8s.io/queue-name", "lq"}}},
        {"ownerReferences",
         {{{"apiVersion", api_version}, {"kind", owner}, {"name", "parent"}, {"uid", uid}, {"controller", true}}}}};
    world.Create(job);
  };
  make_child("child", "JobSet", "jobset.x-k8s.io/v1alpha2", "uid-of-a-set");
  job["spec"]["suspend"] = true;
  make_child("of-a-job", "Job", "batch/v1", Text(At(parent, "metadata", "uid")));
  make_child("of-another-group", "JobSet", "example.com/v1", "uid-of-another");
  world.RunFor(std::chrono::seconds(10));
  for (const char* name : {"plain", "child"}) {
    CHECK_FALSE(Suspended(world, name));
    CHECK(world.Finished(name));
    CHECK(world.WorkloadOf(name).is_null());
  }
  for (const char* name : {"of-a-job", "of-another-group"}) {
    CHECK(world.Finished(name));
    CHECK_FALSE(world.WorkloadOf(name).is_null());
  }
  CHECK_FALSE(sim::Flag(At(world.Get("jobs", "kube-system", "system"), "spec", "suspend")));
}

}  // namespace
}  // namespace muster::controller
