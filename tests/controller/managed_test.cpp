// Which Jobs are Muster's, and what becomes of those that it gets, loses, or has taken out of its hands.
// What is right is kueue_semantics 2.1, 2.4 and 4.8, user_pains G4 and H16.
#include <catch2/catch.hpp>

#include "drills.h"
#include "world.h"

namespace muster::controller {
namespace {

using sim::At;
using sim::Json;
using sim::Text;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr const char* kGate = "kueue.x-k8s.io/admission-gated-by";

std::string ConditionOf(const World& world, const std::string& job, const std::string& type) {
  const Json workload = world.WorkloadOf(job);
  const Json& condition = sim::FindCondition(At(workload, "status", "conditions"), type);
  if (condition.is_null()) return "";
  return Text(sim::Get(condition, "status")) + "/" + Text(sim::Get(condition, "reason"));
}
Json JobOf(const std::string& name, const Json& metadata = Json::object()) {
  Json job = Json::parse(R"({"apiVersion":"batch/v1","kind":"Job","metadata":{"namespace":"team"},
    "spec":{"suspend":true,"template":{"metadata":{"annotations":{"muster.dev/run-seconds":"30"}},
    "spec":{"restartPolicy":"Never","containers":[{"name":"main","image":"work:1",
    "resources":{"requests":{"cpu":"1"}}}]}}}})");
  job["metadata"]["name"] = name;
  job["metadata"].update(metadata);
  return job;
}
void SetLabel(World& world, const std::string& plural, const std::string& ns, const std::string& name,
              const std::string& key, const Json& value) {
  world.Patch(plural, ns, name, {{"metadata", {{"labels", {{key, value}}}}}});
}
std::string VersionOf(const World& world, const std::string& job) {
  return Text(At(world.Get("jobs", "team", job), "metadata", "resourceVersion"));
}

TEST_CASE("A Job without a queue name is held where the configuration says so, until it gets one") {
  Options options = World::DefaultOptions();
  options.manage_jobs_without_queue_name = true;
  World world;
  world.Start("", options);
  world.MakeQueues("4");
  world.Create(JobOf("plain"));
  Json running = JobOf("rogue");
  running["spec"]["suspend"] = false;
  world.Create(running);
  world.RunFor(seconds(10));
  CHECK(Suspended(world, "plain"));
  CHECK(Suspended(world, "rogue"));
  CHECK(ConditionOf(world, "plain", "QuotaReserved") == "False/Misconfigured");
  // The CRD refuses an empty name.
  CHECK(At(world.WorkloadOf("plain"), "spec", "queueName").is_null());
  SetLabel(world, "jobs", "team", "plain", "kueue.x-k8s.io/queue-name", "lq");
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "plain"); }));
  world.RunFor(seconds(2));
  CHECK(Text(At(world.WorkloadOf("plain"), "spec", "queueName")) == "lq");
  REQUIRE(world.RunUntil([&] { return world.Finished("plain"); }));
  CHECK(Suspended(world, "rogue"));
}

TEST_CASE("A namespace that begins or ceases to be managed takes its Jobs along, but for what runs") {
  Options options = World::DefaultOptions();
  options.managed_jobs_namespace_selector.match_labels = {{"batch", "yes"}};
  World world;
  Process& muster = world.Start("", options);
  world.MakeQueues("1");
  const Json named = {{"labels", {{"kueue.x-k8s.io/queue-name", "lq"}}}};
  world.Create(JobOf("first", named));
  world.RunFor(seconds(10));
  CHECK(Suspended(world, "first"));
  CHECK(world.WorkloadOf("first").is_null());
  CHECK(world.Writes()["patch jobs"] == 0);
  SetLabel(world, "namespaces", "", "team", "batch", "yes");
  REQUIRE(world.RunUntil([&] { return ConditionOf(world, "first", "Admitted") == "True/Admitted"; }));
  world.Create(JobOf("second", named));
  REQUIRE(world.RunUntil([&] { return ConditionOf(world, "second", "QuotaReserved") == "False/WaitingForQuota"; }));
  SetLabel(world, "namespaces", "", "team", "batch", nullptr);
  SECTION("for this process") {}
  SECTION("for the next one") {
    world.Kill(muster);
    world.Start("", options);
  }
  // What was admitted runs to its end under its quota; who waits is not looked at any more.
  REQUIRE(world.RunUntil([&] { return world.Finished("first"); }));
  world.RunFor(minutes(2));
  CHECK(Suspended(world, "second"));
  CHECK(ConditionOf(world, "first", "Finished") == "True/Succeeded");
  SetLabel(world, "namespaces", "", "team", "batch", "yes");
  REQUIRE(world.RunUntil([&] { return world.Finished("second"); }));
}

// H16: its own label queues it, whatever made it; one charge.
TEST_CASE("A Job of a CronJob, or of an owner that nobody knows, is queued by its label alone") {
  World world;
  world.Start();
  world.MakeQueues("4");
  Json metadata = {{"labels", {{"kueue.x-k8s.io/queue-name", "lq"}}},
                   {"ownerReferences",
                    {{{"apiVersion", "batch/v1"},
                      {"kind", "CronJob"},
                      {"name", "nightly"},
                      {"uid", "uid-of-the-cronjob"},
                      {"controller", true},
                      {"blockOwnerDeletion", true}}}}};
  world.Create(JobOf("nightly-1", metadata));
  metadata["ownerReferences"][0]["apiVersion"] = "example.com/v1";
  metadata["ownerReferences"][0]["kind"] = "Experiment";
  world.Create(JobOf("trial-1", metadata));
  metadata.erase("labels");
  Json plain = JobOf("nightly-2", metadata);
  plain["spec"]["suspend"] = false;
  world.Create(plain);
  REQUIRE(world.RunUntil([&] { return world.Finished("nightly-1") && world.Finished("trial-1"); }));
  REQUIRE(world.RunUntil([&] { return world.Finished("nightly-2"); }));
  world.RunFor(seconds(5));
  CHECK_FALSE(world.WorkloadOf("nightly-1").is_null());
  CHECK_FALSE(world.WorkloadOf("trial-1").is_null());
  CHECK(world.WorkloadOf("nightly-2").is_null());
  CHECK(world.processes[0]->telemetry.admitted == 2);
}

// G4: their resourceVersion is not touched by Muster.
TEST_CASE("A Job that is not Muster's is not written to") {
  World world(1, false);
  world.Start();
  world.MakeQueues("4");
  Json plain = JobOf("plain");
  plain["spec"]["suspend"] = false;
  world.Create(plain);
  world.Create(JobOf("paused"));
  Json empty = JobOf("empty", {{"labels", {{"kueue.x-k8s.io/queue-name", ""}}}});
  empty["spec"]["suspend"] = false;
  world.Create(empty);
  std::map<std::string, std::string> before;
  for (const char* name : {"plain", "paused", "empty"}) before[name] = VersionOf(world, name);
  world.RunFor(minutes(10));
  for (const auto& [name, version] : before) CHECK(VersionOf(world, name) == version);
}

// A tool that keeps a manifest with suspend: true in force. What it does must not cost the others their turn, nor the
// API server more than a write now and then; and the Job ends once the tool lets go.
TEST_CASE("A tool that suspends a running gang again and again wears nobody out") {
  World world;
  Process& muster = world.Start();
  world.MakeQueues("1");
  world.MakeJob("train", 1, 60);
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "train"); }));
  world.MakeJob("next", 1, 30);
  const size_t before = world.server.writes().size();
  for (int i = 0; i < 180; ++i) {
    world.RunFor(seconds(10));
    if (!Suspended(world, "train")) world.Patch("jobs", "team", "train", {{"spec", {{"suspend", true}}}});
  }
  CHECK(world.Finished("next"));
  CHECK_FALSE(world.Finished("train"));
  auto writes = world.Writes(before);
  // A cycle of four starts and a stop takes more than a minute.
  CHECK(writes["patch jobs"] < 200);
  CHECK(muster.telemetry.evicted["JobSuspended"] > 5);
  CHECK(muster.telemetry.evicted["JobSuspended"] <= 30);
  REQUIRE(world.RunUntil([&] { return world.Finished("train"); }, minutes(10)));
  muster.controller->engine()->Validate();
}

TEST_CASE("A Job that somebody starts behind Muster's back is suspended each time, and starts when it is its turn") {
  World world;
  world.Start();
  world.MakeQueues("1");
  world.MakeJob("running", 1, 300);
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "running"); }));
  world.MakeJob("eager", 1, 20);
  for (int i = 0; i < 10; ++i) {
    world.RunFor(seconds(10));
    REQUIRE(Suspended(world, "eager"));
    world.Patch("jobs", "team", "eager", {{"spec", {{"suspend", false}}}});
  }
  REQUIRE(world.RunUntil([&] { return Suspended(world, "eager"); }));
  CHECK(world.processes[0]->telemetry.admitted == 1);
  REQUIRE(world.RunUntil([&] { return world.Finished("eager"); }, minutes(10)));
  CHECK(world.Finished("running"));
}

TEST_CASE("A gate on a Job holds it back; what runs keeps running, and waits once it is out") {
  World world;
  Process& muster = world.Start();
  world.MakeQueues("4");
  const Json named = {{"labels", {{"kueue.x-k8s.io/queue-name", "lq"}}},
                      {"annotations", {{kGate, "example.com/a,example.com/b"}}}};
  world.Create(JobOf("gated", named));
  world.RunFor(seconds(10));
  CHECK(Suspended(world, "gated"));
  CHECK(ConditionOf(world, "gated", "QuotaReserved") == "False/AdmissionGated");
  CHECK(At(world.Get("clusterqueues", "", "cq"), "status", "pendingWorkloads") == 0);
  const auto set = [&](const std::string& job, const Json& value) {
    world.Patch("jobs", "team", job, {{"metadata", {{"annotations", {{kGate, value}}}}}});
  };
  set("gated", "example.com/b");
  world.RunFor(seconds(5));
  CHECK(Text(At(world.WorkloadOf("gated"), "metadata", "annotations", kGate)) == "example.com/b");
  SECTION("let go") { set("gated", nullptr); }
  SECTION("let go by an empty value") { set("gated", ""); }
  SECTION("let go while nobody looks") {
    world.Kill(muster);
    set("gated", nullptr);
    world.Start();
  }
  REQUIRE(world.RunUntil([&] { return ConditionOf(world, "gated", "Admitted") == "True/Admitted"; }));
  world.RunFor(seconds(2));
  CHECK_FALSE(At(world.WorkloadOf("gated"), "metadata", "annotations").contains(kGate));
  set("gated", "example.com/c");
  world.RunFor(seconds(5));
  CHECK_FALSE(Suspended(world, "gated"));
  world.Patch("clusterqueues", "", "cq", {{"spec", {{"stopPolicy", "HoldAndDrain"}}}});
  REQUIRE(world.RunUntil([&] { return Suspended(world, "gated"); }));
  world.Patch("clusterqueues", "", "cq", {{"spec", {{"stopPolicy", "None"}}}});
  world.RunFor(minutes(1));
  CHECK(Suspended(world, "gated"));
  CHECK(ConditionOf(world, "gated", "QuotaReserved") == "False/AdmissionGated");
  set("gated", nullptr);
  REQUIRE(world.RunUntil([&] { return world.Finished("gated"); }));
  std::set<std::string> events;
  for (const Json& event : world.List("events", "team")) events.insert(Text(sim::Get(event, "reason")));
  CHECK(events.contains("AdmissionGated"));
  CHECK(events.contains("AdmissionGateCleared"));
}

// kueue_semantics 4.8
TEST_CASE("A Job whose gate is cleared says so until something else is in its way") {
  World world;
  world.Start();
  world.MakeQueues("4");
  world.Patch("clusterqueues", "", "cq", {{"spec", {{"queueingStrategy", "StrictFIFO"}}}});
  world.MakeJob("big", 9, 5);
  world.RunFor(seconds(2));
  world.Create(
      JobOf("gated", {{"labels", {{"kueue.x-k8s.io/queue-name", "lq"}}}, {"annotations", {{kGate, "example.com/a"}}}}));
  REQUIRE(world.RunUntil([&] { return ConditionOf(world, "gated", "QuotaReserved") == "False/AdmissionGated"; }));
  const bool while_down = GENERATE(false, true);
  if (while_down) world.Kill(*world.processes.back());
  world.Patch("jobs", "team", "gated", {{"metadata", {{"annotations", {{kGate, nullptr}}}}}});
  if (while_down) world.Start();
  world.RunFor(seconds(15));
  const auto message = [&] {
    const Json workload = world.WorkloadOf("gated");
    return Text(sim::Get(sim::FindCondition(At(workload, "status", "conditions"), "QuotaReserved"), "message"));
  };
  CHECK(ConditionOf(world, "gated", "QuotaReserved") == "False/PendingEvaluation");
  CHECK(message() == "AdmissionGatedBy cleared, waiting for quota reservation");
  // Another process leaves it as it is.
  world.Kill(*world.processes.back());
  const size_t before = world.server.writes().size();
  world.Start();
  world.RunFor(seconds(15));
  CHECK(world.Writes(before).empty());
  CHECK(message() == "AdmissionGatedBy cleared, waiting for quota reservation");
  world.MakeJob("more", 4, 100);
  world.Delete("jobs", "team", "big");
  REQUIRE(world.RunUntil([&] { return world.Finished("gated"); }));
}

TEST_CASE("The Workload of a Job that has left its queue is not made again once it is deleted") {
  World world;
  world.Start();
  world.MakeQueues("0");
  world.Create(JobOf("left", {{"labels", {{"kueue.x-k8s.io/queue-name", "lq"}}}}));
  REQUIRE(world.RunUntil([&] { return !world.WorkloadOf("left").is_null(); }));
  SetLabel(world, "jobs", "team", "left", "kueue.x-k8s.io/queue-name", nullptr);
  world.RunFor(seconds(5));
  if (const Json workload = world.WorkloadOf("left"); !workload.is_null()) {
    world.Delete("workloads", "team", Text(At(workload, "metadata", "name")));
  }
  world.RunFor(minutes(2));
  CHECK(world.WorkloadOf("left").is_null());
  SetLabel(world, "jobs", "team", "left", "kueue.x-k8s.io/queue-name", "lq");
  REQUIRE(world.RunUntil([&] { return !world.WorkloadOf("left").is_null(); }));
}

}  // namespace
}  // namespace muster::controller
