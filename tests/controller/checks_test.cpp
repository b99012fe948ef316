// Two-phase admission (kueue_semantics 5.5; record.md): the Workload shows the reservation, controllers of
// AdmissionChecks write how far they are at any time, and the Job starts once all are ready.
#include <catch2/catch.hpp>

#include "muster/core/time.h"
#include "world.h"

namespace muster::controller {
namespace {

using sim::At;
using sim::Fault;
using sim::FaultRule;
using sim::Json;
using sim::Number;
using sim::Text;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr const char* kKueue = "kueue.x-k8s.io/v1beta2";

void SetActive(World& world, const std::string& name, bool active) {
  const Json condition = {{"type", "Active"},
                          {"status", active ? "True" : "False"},
                          {"reason", "Test"},
                          {"message", ""},
                          {"lastTransitionTime", "2026-01-01T00:00:00Z"}};
  world.Patch("admissionchecks", "", name, {{"status", {{"conditions", Json::array({condition})}}}}, "status");
}

void MakeCheck(World& world, const std::string& name) {
  world.Create({{"apiVersion", kKueue},
                {"kind", "AdmissionCheck"},
                {"metadata", {{"name", name}}},
                {"spec", {{"controllerName", "example.com/test"}}}});
  SetActive(world, name, true);
}

Json Asks(const std::vector<std::string>& names) {
  Json list = Json::array();
  for (const std::string& name : names) list.push_back({{"name", name}});
  return {{"spec", {{"admissionChecksStrategy", {{"admissionChecks", list}}}}}};
}

// "lq" of a ClusterQueue that asks for `names`, all of which are there and active.
void MakeCheckedQueues(World& world, const std::string& cpu, const std::vector<std::string>& names = {"budget"}) {
  for (const std::string& name : names) MakeCheck(world, name);
  world.MakeQueues(cpu);
  world.Patch("clusterqueues", "", "cq", Asks(names));
  world.AwaitActive("clusterqueues", "", "cq");
}

Json Checks(const World& world, const std::string& job) {
  return At(world.WorkloadOf(job), "status", "admissionChecks");
}
Json State(const World& world, const std::string& job, const std::string& check = "budget") {
  for (const Json& state : Checks(world, job)) {
    if (Text(sim::Get(state, "name")) == check) return state;
  }
  return Json();
}
std::string Condition(const World& world, const std::string& job, const std::string& type) {
  const Json workload = world.WorkloadOf(job);
  const Json& condition = sim::FindCondition(At(workload, "status", "conditions"), type);
  if (condition.is_null()) return "";
  return Text(sim::Get(condition, "status")) + "/" + Text(sim::Get(condition, "reason"));
}
bool Reserved(const World& world, const std::string& job) {
  return Condition(world, job, "QuotaReserved") == "True/QuotaReserved" &&
         Condition(world, job, "Admitted") == "False/UnsatisfiedAdmissionChecks";
}
bool Suspended(const World& world, const std::string& job) {
  return sim::Flag(At(world.Get("jobs", "team", job), "spec", "suspend"));
}
int64_t Count(const World& world, const char* field) {
  return Number(At(world.Get("clusterqueues", "", "cq"), "status", field), -1);
}
int Events(const World& world, const std::string& reason, const std::string& text = "") {
  int count = 0;
  for (const Json& event : world.List("events", "team")) {
    const bool hit =
        Text(sim::Get(event, "reason")) == reason && Text(sim::Get(event, "note")).find(text) != std::string::npos;
    if (hit) count += static_cast<int>(std::max<int64_t>(1, Number(At(event, "series", "count"))));
  }
  return count;
}

// As a controller does that knows of its own check only.
void Answer(World& world, const std::string& job, const std::string& check, const std::string& state,
            const Json& more = Json::object()) {
  const Json workload = world.WorkloadOf(job);
  Json list = At(workload, "status", "admissionChecks");
  for (Json& item : list) {
    if (Text(sim::Get(item, "name")) != check) continue;
    item["state"] = state;
    item["message"] = "";
    item["lastTransitionTime"] = FormatTime(world.executor.clock()->Now());
    item.merge_patch(more);
  }
  world.Patch("workloads", "team", Text(At(workload, "metadata", "name")), {{"status", {{"admissionChecks", list}}}},
              "status");
}

// Its Job has ended, or was stopped and has no pods any more: the quota is free before the Workload says so.
bool IsOut(const World& world, const Json& workload) {
  const Json& owners = At(workload, "metadata", "ownerReferences");
  if (owners.empty()) return false;
  const std::string name = Text(sim::Get(owners[0], "name"));
  if (world.Finished(name)) return true;
  const Json job = world.Get("jobs", "team", name);
  if (job.is_null() || Number(At(job, "status", "active")) > 0) return false;
  const std::string record = Text(At(job, "metadata", "annotations", "muster.dev/admission"));
  const std::string claim = Text(At(workload, "metadata", "annotations", "muster.dev/claim"));
  return record.find("\"stopped\"") != std::string::npos && record.find("\"" + claim + "\"") != std::string::npos;
}

// Whoever runs was admitted, its checks were ready, and quota is kept by what is reserved.
class Auditor {
 public:
  Auditor(World* world, int64_t cpus) {
    world->store.Subscribe([this, world, cpus](const sim::Change& change) {
      int64_t held = 0;
      for (const Json& workload : world->List("workloads", "team")) {
        const bool holds = sim::HasCondition(workload, "QuotaReserved") && !sim::HasCondition(workload, "Finished") &&
                           !IsOut(*world, workload);
        if (holds) held += Number(At(workload, "spec", "podSets")[0]["count"]);
      }
      REQUIRE(held <= cpus);
      if (change.kind->plural != "jobs" || change.type == sim::Change::Type::kDeleted) return;
      const std::string name = Text(At(*change.object, "metadata", "name"));
      const bool runs = !sim::Flag(At(*change.object, "spec", "suspend"));
      if (runs && !runs_[name]) {
        ++starts_;
        CHECK(sim::HasCondition(world->WorkloadOf(name), "Admitted"));
      }
      runs_[name] = runs;
    });
  }
  int starts() const { return starts_; }

 private:
  std::map<std::string, bool> runs_;
  int starts_ = 0;
};

void AtRest(World& world, Process& muster) {
  world.RunFor(minutes(1));
  muster.controller->engine()->Validate();
  const size_t before = world.server.writes().size();
  world.RunFor(minutes(2));
  std::map<std::string, int> writes = world.Writes(before);
  writes.erase("update leases");
  CHECK(writes.empty());
}

TEST_CASE("A Job is reserved, its checks are listed by name, and it starts when all are ready") {
  World world;
  Auditor auditor(&world, 4);
  Process& muster = world.Start();
  MakeCheckedQueues(world, "4", {"zeal", "budget"});
  world.MakeJob("train", 3, 30);
  REQUIRE(world.RunUntil([&] { return Reserved(world, "train"); }));
  REQUIRE(Checks(world, "train").size() == 2);
  CHECK(Text(sim::Get(Checks(world, "train")[0], "name")) == "budget");
  CHECK(Text(sim::Get(Checks(world, "train")[1], "name")) == "zeal");
  CHECK(Condition(world, "train", "muster.dev/Waiting") == "True/AdmissionCheck");
  REQUIRE(world.RunUntil([&] { return Count(world, "reservingWorkloads") == 1; }));
  CHECK(Count(world, "admittedWorkloads") == 0);
  REQUIRE(world.RunUntil([&] { return muster.telemetry.reserved == 1; }));
  CHECK(muster.telemetry.admitted == 0);
  Answer(world, "train", "zeal", "Ready");
  world.RunFor(seconds(30));
  CHECK(Suspended(world, "train"));
  Answer(world, "train", "budget", "Ready");
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "train"); }));
  REQUIRE(world.RunUntil([&] { return Count(world, "admittedWorkloads") == 1; }));
  CHECK(Condition(world, "train", "muster.dev/Waiting").empty());
  CHECK(muster.telemetry.admitted == 1);
  REQUIRE(world.RunUntil([&] { return world.Finished("train"); }));
  CHECK(Events(world, "QuotaReserved") == 1);
  CHECK(Events(world, "Admitted", "Admitted by ClusterQueue cq") == 1);
  CHECK(auditor.starts() == 1);
  AtRest(world, muster);
  CHECK(Count(world, "reservingWorkloads") == 0);
}

// F1: the wait for the quota ends at the reservation, that for the admission once the checks are ready; both begin anew
// with a requeue.
TEST_CASE("The time that checks take is part of the wait for the admission, not of that for the quota") {
  World world;
  Process& muster = world.Start();
  MakeCheckedQueues(world, "4");
  world.MakeJob("train", 3, 300);
  REQUIRE(world.RunUntil([&] { return Reserved(world, "train"); }));
  world.RunFor(seconds(30));
  Answer(world, "train", "budget", "Retry", {{"requeueAfterSeconds", 0}});
  REQUIRE(world.RunUntil([&] { return muster.telemetry.reserved == 2 && Reserved(world, "train"); }));
  world.RunFor(seconds(40));
  Answer(world, "train", "budget", "Ready");
  REQUIRE(world.RunUntil([&] { return muster.telemetry.admitted == 1; }));
  for (const Duration wait : muster.telemetry.reserved_after) CHECK(wait < seconds(5));
  REQUIRE(muster.telemetry.admitted_after.size() == 1);
  // The requeue is told of a moment before, or after.
  CHECK(muster.telemetry.admitted_after[0] > seconds(39));
  CHECK(muster.telemetry.admitted_after[0] < seconds(50));
}

TEST_CASE("A check controller that writes all the time is not fought, and nothing of its is lost") {
  World world;
  Process& muster = world.Start();
  MakeCheckedQueues(world, "4", {"budget", "other"});
  world.MakeJob("train", 3, 300);
  REQUIRE(world.RunUntil([&] { return Reserved(world, "train"); }));
  const Json updates = Json::array({{{"name", "main"}, {"annotations", {{"order", "7"}}}}});
  Answer(world, "train", "budget", "Ready", {{"podSetUpdates", updates}, {"requeueAfterSeconds", 7}});
  // The message changes with each of its looks, and Muster's own writes fall in between.
  for (int i = 0; i < 20; ++i) {
    Answer(world, "train", "other", "Pending", {{"message", "looked " + std::to_string(i)}});
    if (i == 5) world.Patch("clusterqueues", "", "cq", Asks({"budget", "other", "third"}));
    if (i == 10) MakeCheck(world, "third");
    if (i == 15) world.Patch("clusterqueues", "", "cq", Asks({"budget", "other"}));
    world.RunFor(std::chrono::milliseconds(150));
  }
  REQUIRE(world.RunUntil([&] { return Checks(world, "train").size() == 2; }));
  CHECK(Text(sim::Get(State(world, "train", "other"), "message")) == "looked 19");
  CHECK(sim::Get(State(world, "train"), "podSetUpdates") == updates);
  CHECK(Number(sim::Get(State(world, "train"), "requeueAfterSeconds")) == 7);
  CHECK(Events(world, "UpdatedAdmissionCheck", "other: looked") > 0);
  Answer(world, "train", "other", "Ready");
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "train"); }));
  CHECK(Text(At(world.Get("jobs", "team", "train"), "spec", "template", "metadata", "annotations", "order")) == "7");
  AtRest(world, muster);
}

TEST_CASE("While a check backs off its quota is free, and the Job goes behind those that came after it") {
  World world;
  Auditor auditor(&world, 3);
  Process& muster = world.Start();
  MakeCheckedQueues(world, "3");
  world.MakeJob("train", 3, 30);
  REQUIRE(world.RunUntil([&] { return Reserved(world, "train"); }));
  world.RunFor(seconds(2));
  world.MakeJob("second", 3, 30);
  world.RunFor(seconds(2));
  Answer(world, "train", "budget", "Retry", {{"message", "later"}, {"requeueAfterSeconds", 60}});
  REQUIRE(world.RunUntil([&] { return Reserved(world, "second"); }));
  const Json workload = world.WorkloadOf("train");
  CHECK(Condition(world, "train", "Evicted") == "True/AdmissionCheck");
  CHECK(Condition(world, "train", "QuotaReserved") == "False/PendingEvaluation");
  CHECK(Condition(world, "train", "Requeued") == "False/AdmissionCheck");
  CHECK(At(workload, "status", "requeueState", "requeueAt").is_string());
  CHECK(Number(sim::Get(State(world, "train"), "retryCount")) == 1);
  REQUIRE(world.RunUntil([&] { return Condition(world, "train", "muster.dev/Waiting") == "True/BackingOff"; }));
  CHECK(muster.telemetry.evicted["AdmissionCheck"] == 1);
  CHECK(muster.telemetry.evictions_done == 1);
  // The end of the back-off is shown also where there is no room.
  REQUIRE(world.RunUntil([&] { return Condition(world, "train", "Requeued") == "True/BackoffFinished"; }, minutes(2)));
  CHECK(At(world.WorkloadOf("train"), "status", "requeueState", "requeueAt").is_null());
  CHECK_FALSE(Reserved(world, "train"));
  // Its queue time is that of the eviction (kueue_semantics 4.1): this one came before it, and goes first.
  Answer(world, "second", "budget", "Retry", {{"requeueAfterSeconds", 0}});
  REQUIRE(world.RunUntil([&] { return Reserved(world, "train"); }));
  Answer(world, "train", "budget", "Ready");
  REQUIRE(world.RunUntil([&] { return world.Finished("train"); }));
  REQUIRE(world.RunUntil([&] { return Reserved(world, "second"); }));
  Answer(world, "second", "budget", "Ready");
  REQUIRE(world.RunUntil([&] { return world.Finished("second"); }));
  AtRest(world, muster);
}

TEST_CASE("A back-off outlives Muster") {
  World world;
  Process& first = world.Start();
  MakeCheckedQueues(world, "3");
  world.MakeJob("train", 3, 30);
  REQUIRE(world.RunUntil([&] { return Reserved(world, "train"); }));
  const bool runs = GENERATE(false, true);
  CAPTURE(runs);
  if (runs) {
    Answer(world, "train", "budget", "Ready");
    REQUIRE(world.RunUntil([&] { return !Suspended(world, "train"); }));
    world.RunFor(seconds(3));
  }
  const WallTime from = world.executor.clock()->Now();
  Answer(world, "train", "budget", "Retry", {{"requeueAfterSeconds", 120}});
  REQUIRE(world.RunUntil([&] { return Condition(world, "train", "Evicted") == "True/AdmissionCheck"; }));
  world.Kill(first);
  world.Start();
  world.RunFor(seconds(100));
  CHECK_FALSE(Reserved(world, "train"));
  REQUIRE(world.RunUntil([&] { return Reserved(world, "train"); }, minutes(2)));
  CHECK(world.executor.clock()->Now() - from >= seconds(119));
}

TEST_CASE("A rejected Job is deactivated with the reason, reserved or running") {
  World world;
  Auditor auditor(&world, 3);
  Process& muster = world.Start();
  MakeCheckedQueues(world, "3");
  world.MakeJob("train", 3, 300);
  REQUIRE(world.RunUntil([&] { return Reserved(world, "train"); }));
  const bool runs = GENERATE(false, true);
  CAPTURE(runs);
  if (runs) {
    Answer(world, "train", "budget", "Ready");
    REQUIRE(world.RunUntil([&] { return !Suspended(world, "train"); }));
    world.RunFor(seconds(3));
  }
  Answer(world, "train", "budget", "Rejected", {{"message", "over budget"}});
  REQUIRE(world.RunUntil([&] { return Condition(world, "train", "QuotaReserved") == "False/Deactivated"; }));
  CHECK(Condition(world, "train", "Evicted") == "True/DeactivatedDueToAdmissionCheck");
  CHECK_FALSE(sim::Flag(At(world.WorkloadOf("train"), "spec", "active"), true));
  CHECK(Suspended(world, "train"));
  REQUIRE(world.RunUntil([&] {
    return Events(world, "AdmissionCheckRejected",
                  "Deactivated due to AdmissionCheck in Rejected state: \"budget\" (over budget)") == 1;
  }));
  REQUIRE(world.RunUntil([&] { return Events(world, "EvictedDueToDeactivatedDueToAdmissionCheck") == 1; }));
  CHECK(Text(sim::Get(State(world, "train"), "message")) == "Reset to Pending after eviction. Previously: Rejected");
  AtRest(world, muster);
  const std::string workload = Text(At(world.WorkloadOf("train"), "metadata", "name"));
  world.Patch("workloads", "team", workload, {{"spec", {{"active", true}}}});
  REQUIRE(world.RunUntil([&] { return Reserved(world, "train"); }));
  AtRest(world, muster);
}

TEST_CASE("What two checks want in the pods is put together, or named where it contradicts") {
  World world;
  Process& muster = world.Start();
  MakeCheckedQueues(world, "3", {"budget", "nodes"});
  world.MakeJob("train", 3, 30);
  REQUIRE(world.RunUntil([&] { return Reserved(world, "train"); }));
  const auto update = [](const Json& selector) {
    return Json{{"podSetUpdates", Json::array({{{"name", "main"},
                                                {"nodeSelector", selector},
                                                {"tolerations", Json::array({{{"operator", "Exists"}}})}}})}};
  };
  const bool contradicts = GENERATE(false, true);
  CAPTURE(contradicts);
  Answer(world, "train", "budget", "Ready", update({{"group", "g7"}}));
  Answer(world, "train", "nodes", "Ready", update({{contradicts ? "group" : "rack", "r1"}}));
  if (contradicts) {
    REQUIRE(world.RunUntil([&] { return Condition(world, "train", "Finished") == "True/FailedToStart"; }));
    const Json workload = world.WorkloadOf("train");
    CHECK(Text(sim::Get(sim::FindCondition(At(workload, "status", "conditions"), "Finished"), "message")) ==
          "invalid admission check PodSetUpdate: conflict for nodeSelector[group]: \"g7\" is there, and AdmissionCheck "
          "nodes wants \"r1\"");
    CHECK(Suspended(world, "train"));
  } else {
    REQUIRE(world.RunUntil([&] { return !Suspended(world, "train"); }));
    const Json spec = At(world.Get("jobs", "team", "train"), "spec", "template", "spec");
    CHECK(sim::Get(spec, "nodeSelector") == Json({{"group", "g7"}, {"rack", "r1"}, {"tier", "std"}}));
    CHECK(sim::Get(spec, "tolerations").size() == 1);
    REQUIRE(world.RunUntil([&] { return world.Finished("train"); }));
  }
  AtRest(world, muster);
  CHECK(Count(world, "reservingWorkloads") == 0);
}

TEST_CASE("A Job that is edited, deleted or loses its Workload while it is reserved") {
  World world;
  Auditor auditor(&world, 3);
  Process& muster = world.Start();
  MakeCheckedQueues(world, "3");
  world.MakeJob("train", 3, 30);
  REQUIRE(world.RunUntil([&] { return Reserved(world, "train"); }));
  const std::string workload = Text(At(world.WorkloadOf("train"), "metadata", "name"));
  SECTION("other pods: it is decided on again") {
    world.Patch("jobs", "team", "train", {{"spec", {{"parallelism", 2}}}});
    REQUIRE(world.RunUntil([&] {
      const Json now = world.WorkloadOf("train");
      return Reserved(world, "train") && Number(At(now, "spec", "podSets")[0]["count"]) == 2;
    }));
    Answer(world, "train", "budget", "Ready");
    REQUIRE(world.RunUntil([&] { return world.Finished("train"); }, minutes(5)));
  }
  SECTION("a label that means nothing: it stays as it is") {
    const Json before = At(world.WorkloadOf("train"), "metadata", "annotations", "muster.dev/claim");
    world.Patch("jobs", "team", "train", {{"metadata", {{"labels", {{"a", "b"}}}}}});
    world.RunFor(seconds(10));
    CHECK(At(world.WorkloadOf("train"), "metadata", "annotations", "muster.dev/claim") == before);
    Answer(world, "train", "budget", "Ready");
    REQUIRE(world.RunUntil([&] { return world.Finished("train"); }));
  }
  SECTION("the Workload is deleted: it gets another") {
    world.Delete("workloads", "team", workload);
    world.RunFor(seconds(5));
    REQUIRE(world.RunUntil([&] { return Reserved(world, "train"); }));
    Answer(world, "train", "budget", "Ready");
    REQUIRE(world.RunUntil([&] { return world.Finished("train"); }));
  }
  SECTION("the Job is deleted: nothing is left") {
    world.Delete("jobs", "team", "train");
    REQUIRE(world.RunUntil([&] { return world.List("workloads", "team").empty(); }));
  }
  AtRest(world, muster);
  CHECK(Count(world, "reservingWorkloads") == 0);
}

TEST_CASE("A Workload without a Job passes its checks by itself") {
  World world;
  Process& muster = world.Start();
  MakeCheckedQueues(world, "3");
  Json workload = Json::parse(R"({"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"Workload",
    "metadata":{"namespace":"team","name":"lone"},"spec":{"active":true,"queueName":"lq","podSets":[{"name":"main",
    "count":2,"template":{"spec":{"containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":"1"}}}]}}}]}})");
  world.Create(workload);
  const auto of = [&] { return world.Get("workloads", "team", "lone"); };
  const auto condition = [&](const std::string& type) {
    const Json now = of();
    const Json& found = sim::FindCondition(At(now, "status", "conditions"), type);
    return found.is_null() ? std::string() : Text(sim::Get(found, "status")) + "/" + Text(sim::Get(found, "reason"));
  };
  const auto answer = [&](const std::string& state, const Json& more = Json::object()) {
    Json list = At(of(), "status", "admissionChecks");
    list[0]["state"] = state;
    list[0]["lastTransitionTime"] = FormatTime(world.executor.clock()->Now());
    list[0].merge_patch(more);
    world.Patch("workloads", "team", "lone", {{"status", {{"admissionChecks", list}}}}, "status");
  };
  const auto reserved = [&] {
    return condition("QuotaReserved") == "True/QuotaReserved" &&
           condition("Admitted") == "False/UnsatisfiedAdmissionChecks";
  };
  REQUIRE(world.RunUntil(reserved));
  answer("Retry", {{"requeueAfterSeconds", 30}});
  REQUIRE(world.RunUntil([&] { return condition("Evicted") == "True/AdmissionCheck"; }));
  CHECK(condition("QuotaReserved") == "False/PendingEvaluation");
  world.RunFor(seconds(20));
  CHECK_FALSE(reserved());
  REQUIRE(world.RunUntil(reserved));
  answer("Rejected");
  REQUIRE(world.RunUntil([&] { return condition("Evicted") == "True/DeactivatedDueToAdmissionCheck"; }));
  CHECK(condition("QuotaReserved") == "False/Deactivated");
  AtRest(world, muster);
  world.Patch("workloads", "team", "lone", {{"spec", {{"active", true}}}});
  REQUIRE(world.RunUntil(reserved));
  world.Patch("clusterqueues", "", "cq", {{"spec", {{"stopPolicy", "Hold"}}}});
  REQUIRE(world.RunUntil([&] { return condition("QuotaReserved") == "False/Suspended"; }));
  world.Patch("clusterqueues", "", "cq", {{"spec", {{"stopPolicy", "None"}}}});
  REQUIRE(world.RunUntil(reserved));
  answer("Ready");
  REQUIRE(world.RunUntil([&] { return condition("Admitted") == "True/Admitted"; }));
  AtRest(world, muster);
}

TEST_CASE("A Workload that may not be created holds no quota, and is tried again") {
  World world;
  Process& muster = world.Start();
  MakeCheckedQueues(world, "3");
  FaultRule rule;
  rule.user = World::kMuster;
  rule.verbs = {"create"};
  rule.resource = "workloads";
  rule.times = -1;
  rule.fault.kind = Fault::Kind::kAnswer;
  rule.fault.status = 403;
  const auto id = world.server.faults().Add(rule);
  world.MakeJob("train", 3, 30);
  world.RunFor(seconds(10));
  CHECK(Suspended(world, "train"));
  world.server.faults().Remove(id);
  REQUIRE(world.RunUntil([&] { return Reserved(world, "train"); }, minutes(3)));
  Answer(world, "train", "budget", "Ready");
  REQUIRE(world.RunUntil([&] { return world.Finished("train"); }));
  AtRest(world, muster);
}

// One life with everything in it: a retry, a start, a rejection while it runs, and another start.
bool LiveThrough(World& world, const std::function<bool()>& tick) {
  int retries = 1;
  int rejections = 1;
  return world.RunUntil(
      [&] {
        if (!tick()) return false;
        for (const char* job : {"train", "other"}) {
          const Json state = State(world, job);
          const bool holds = Condition(world, job, "QuotaReserved") == "True/QuotaReserved" &&
                             Condition(world, job, "Evicted").substr(0, 4) != "True";
          if (holds && Text(sim::Get(state, "state")) == "Pending") {
            const bool retry = retries > 0 && std::string(job) == "train";
            if (retry) --retries;
            Answer(world, job, "budget", retry ? "Retry" : "Ready", {{"requeueAfterSeconds", 2}});
          } else if (rejections > 0 && std::string(job) == "train" && !Suspended(world, job) && holds) {
            --rejections;
            Answer(world, job, "budget", "Rejected");
          } else if (!sim::Flag(At(world.WorkloadOf(job), "spec", "active"), true) &&
                     Condition(world, job, "QuotaReserved") == "False/Deactivated") {
            world.Patch("workloads", "team", Text(At(world.WorkloadOf(job), "metadata", "name")),
                        {{"spec", {{"active", true}}}});
          }
        }
        return world.Finished("train") && world.Finished("other");
      },
      minutes(20));
}

TEST_CASE("A Muster that dies at any write finds reservations and checks as they are") {
  // So many writes of Jobs and Workloads there are in such a life.
  for (int writes = 1; writes <= 34; ++writes) {
    DYNAMIC_SECTION("after write " << writes) {
      World world(static_cast<uint64_t>(writes));
      Auditor auditor(&world, 4);
      Process* muster = &world.Start();
      MakeCheckedQueues(world, "4");
      world.RunFor(seconds(3));
      const size_t before = world.server.writes().size();
      world.MakeJob("train", 3, 20);
      world.MakeJob("other", 3, 20);
      bool killed = false;
      REQUIRE(LiveThrough(world, [&] {
        if (killed) return true;
        int sum = 0;
        for (const auto& [what, count] : world.Writes(before)) {
          const bool counts = what.find("workloads") != std::string::npos || what.find("jobs") != std::string::npos;
          sum += counts ? count : 0;
        }
        if (sum < writes) return true;
        killed = true;
        world.Kill(*muster);
        muster = &world.Start();
        return true;
      }));
      AtRest(world, *muster);
      CHECK(Count(world, "reservingWorkloads") == 0);
      CHECK(Count(world, "pendingWorkloads") == 0);
    }
  }
}

TEST_CASE("Every write of a Job with checks may fail in every way") {
  const std::pair<const char*, const char*> kinds[] = {
      {"create", "workloads"}, {"patch", "workloads"}, {"patch", "workloads/status"}, {"patch", "jobs"}};
  struct Way {
    Fault::Kind kind;
    int status;
  };
  const Way ways[] = {{Fault::Kind::kRefuse, 0},       {Fault::Kind::kAnswer, 409},
                      {Fault::Kind::kAnswer, 500},     {Fault::Kind::kApplyAndAnswer, 500},
                      {Fault::Kind::kLoseRequest, 0},  {Fault::Kind::kLoseAnswer, 0},
                      {Fault::Kind::kDelayRequest, 0}, {Fault::Kind::kDelayAnswer, 0}};
  for (const auto& [verb, resource] : kinds) {
    for (const Way& way : ways) {
      DYNAMIC_SECTION(verb << " " << resource << " way " << static_cast<int>(way.kind) << " " << way.status) {
        World world;
        Auditor auditor(&world, 4);
        Process& muster = world.Start();
        MakeCheckedQueues(world, "4");
        FaultRule rule;
        rule.user = World::kMuster;
        rule.verbs = {verb};
        rule.resource = resource;
        rule.times = 3;
        rule.fault.kind = way.kind;
        rule.fault.status = way.status;
        rule.fault.delay = seconds(3);
        world.server.faults().Add(rule);
        world.MakeJob("train", 3, 20);
        world.MakeJob("other", 3, 20);
        REQUIRE(LiveThrough(world, [] { return true; }));
        AtRest(world, muster);
        CHECK(Count(world, "reservingWorkloads") == 0);
      }
    }
  }
}

}  // namespace
}  // namespace muster::controller
