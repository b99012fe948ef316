// Jobs with a prebuilt Workload (kueue_semantics 2.2, 2.5): the Workload holds the record of the admission, and the
// Job's start follows (record.md).
#include <catch2/catch.hpp>

#include "drills.h"
#include "each_write.h"
#include "world.h"

namespace muster::controller {
namespace {

using sim::At;
using sim::Fault;
using sim::FaultRule;
using sim::Json;
using sim::Text;

constexpr const char* kOwn = "prebuilt";

Json Prebuilt(int pods, const std::string& name = kOwn) {
  Json workload = Json::parse(R"({"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"Workload",
    "metadata":{"namespace":"team"},"spec":{"active":true,"queueName":"lq","podSets":[{"name":"main",
    "template":{"spec":{"restartPolicy":"Never","containers":[
      {"name":"main","image":"work:1","resources":{"requests":{"cpu":"1"}}}]}}}]}})");
  workload["metadata"]["name"] = name;
  workload["spec"]["podSets"][0]["count"] = pods;
  return workload;
}

Json PrebuiltJob(const std::string& name, int pods, int seconds, bool as_label = false) {
  Json job = Json::parse(R"({"apiVersion":"batch/v1","kind":"Job","metadata":{"namespace":"team",
    "labels":{"kueue.x-k8s.io/queue-name":"lq"},"annotations":{}},
    "spec":{"suspend":true,"template":{"metadata":{"annotations":{}},"spec":{"restartPolicy":"Never","containers":[
      {"name":"main","image":"work:1","resources":{"requests":{"cpu":"1"}}}]}}}})");
  job["metadata"]["name"] = name;
  job["metadata"][as_label ? "labels" : "annotations"]["kueue.x-k8s.io/prebuilt-workload-name"] = kOwn;
  job["spec"]["parallelism"] = pods;
  job["spec"]["completions"] = pods;
  job["spec"]["template"]["metadata"]["annotations"]["muster.dev/run-seconds"] = std::to_string(seconds);
  return job;
}

Json Own(const World& world) { return world.Get("workloads", "team", kOwn); }
bool Has(const World& world, const std::string& condition) { return sim::HasCondition(Own(world), condition); }
std::string Condition(const World& world, const std::string& type) {
  const Json workload = Own(world);
  const Json& condition = sim::FindCondition(At(workload, "status", "conditions"), type);
  if (condition.is_null()) return "";
  return Text(sim::Get(condition, "status")) + "/" + Text(sim::Get(condition, "reason"));
}
bool Noted(const World& world, const std::string& text) {
  for (const Json& event : world.List("events", "team")) {
    if (Text(sim::Get(event, "note")).find(text) != std::string::npos) return true;
  }
  return false;
}

// Whoever runs is admitted, by its Workload too, from before its start on; and quota is kept.
class Auditor {
 public:
  Auditor(World* world, int64_t cpus) : world_(world), cpus_(cpus) {
    world->store.Subscribe([this](const sim::Change& change) {
      if (change.kind->plural != "jobs") return;
      const std::string name = Text(At(*change.object, "metadata", "name"));
      const bool lives = change.type != sim::Change::Type::kDeleted && !sim::HasCondition(*change.object, "Complete");
      const bool runs = lives && !sim::Flag(At(*change.object, "spec", "suspend"));
      const bool leaves = lives && sim::Number(At(*change.object, "status", "active")) > 0;
      if (runs && !running_.contains(name)) {
        ++starts_;
        const bool prebuilt =
            At(*change.object, "metadata", "annotations").contains("kueue.x-k8s.io/prebuilt-workload-name");
        // A start may be on its way while the Workload is deleted; it is stopped again then.
        const bool gone = world_->Get("workloads", "team", kOwn).is_null();
        if (prebuilt && !gone) CHECK(Has(*world_, "Admitted"));
      }
      runs || leaves ? void(running_[name] = sim::Number(At(*change.object, "spec", "parallelism")))
                     : void(running_.erase(name));
      int64_t sum = 0;
      for (const auto& [job, pods] : running_) sum += pods;
      REQUIRE(sum <= cpus_);
    });
  }
  int starts() const { return starts_; }

 private:
  World* world_;
  int64_t cpus_;
  int starts_ = 0;
  std::map<std::string, int64_t> running_;
};

TEST_CASE("A Job takes its prebuilt Workload, which is admitted before the Job starts") {
  const bool as_label = GENERATE(false, true);
  World world;
  Auditor auditor(&world, 4);
  Process& muster = world.Start();
  world.MakeQueues("4");
  SECTION("the Workload comes first") {
    Json workload = Prebuilt(2);
    workload["spec"]["queueName"] = "nowhere";  // the Job says where
    world.Create(workload);
    world.RunFor(std::chrono::seconds(3));
    world.Create(PrebuiltJob("train", 2, 10, as_label));
  }
  SECTION("the Workload is admitted before there is a Job") {
    world.Create(Prebuilt(2));
    REQUIRE(world.RunUntil([&] { return Has(world, "Admitted"); }));
    world.RunFor(std::chrono::seconds(3));
    CHECK(Reserving(world) == 1);
    world.Create(PrebuiltJob("train", 2, 10, as_label));
  }
  SECTION("the Job comes first") {
    world.Create(PrebuiltJob("train", 2, 10, as_label));
    world.RunFor(std::chrono::seconds(10));
    CHECK(Suspended(world, "train"));
    CHECK(Noted(world, "Workload \"team/prebuilt\" does not exist"));
    world.Create(Prebuilt(2));
  }
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "train"); }));
  const Json job = world.Get("jobs", "team", "train");
  const Json taken = Own(world);
  const Json owner = At(taken, "metadata", "ownerReferences")[0];
  CHECK(Text(sim::Get(owner, "uid")) == Text(At(job, "metadata", "uid")));
  CHECK(sim::Flag(sim::Get(owner, "controller")));
  CHECK(Text(At(Own(world), "metadata", "labels", "kueue.x-k8s.io/job-uid")) == Text(At(job, "metadata", "uid")));
  CHECK(Text(At(Own(world), "metadata", "labels", "muster.dev/record")) == "workload");
  CHECK(Text(At(Own(world), "spec", "queueName")) == "lq");
  CHECK(Text(At(job, "spec", "template", "metadata", "annotations", "kueue.x-k8s.io/workload")) == kOwn);
  CHECK(At(job, "spec", "template", "spec", "nodeSelector") == Json({{"tier", "std"}}));
  REQUIRE(world.RunUntil([&] { return Reserving(world) == 1; }));
  REQUIRE(world.RunUntil([&] { return world.Finished("train"); }));
  REQUIRE(world.RunUntil([&] { return Condition(world, "Finished") == "True/Succeeded"; }));
  CHECK(world.List("workloads", "team").size() == 1);
  CHECK(auditor.starts() == 1);
  CHECK(muster.telemetry.admitted == 1);
  ComesToRest(world, muster);
  CHECK(Reserving(world) == 0);
  CHECK(Pending(world) == 0);
}

TEST_CASE("A prebuilt Workload waits in its Job's place") {
  World world;
  Auditor auditor(&world, 4);
  world.Start();
  world.MakeQueues("4");
  world.MakeJob("first", 3, 30);
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "first"); }));
  world.Create(Prebuilt(2));
  world.Create(PrebuiltJob("train", 2, 10));
  REQUIRE(world.RunUntil([&] { return Condition(world, "QuotaReserved") == "False/WaitingForQuota"; }));
  CHECK(Suspended(world, "train"));
  REQUIRE(world.RunUntil([&] { return Pending(world) == 1; }));
  REQUIRE(world.RunUntil([&] { return world.Finished("train"); }));
}

TEST_CASE("Of two Jobs that name one prebuilt Workload one gets it, and the other says why not") {
  World world;
  Auditor auditor(&world, 4);
  world.Start();
  world.MakeQueues("4");
  world.Create(Prebuilt(2));
  world.Create(PrebuiltJob("one", 2, 3600));
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "one"); }));
  world.Create(PrebuiltJob("two", 2, 10));
  world.RunFor(std::chrono::seconds(30));
  CHECK(Suspended(world, "two"));
  CHECK(Noted(world, "is controlled by Job \"one\""));
  CHECK(auditor.starts() == 1);
  // Gone with its Job; another of the name is there for the second.
  world.Delete("jobs", "team", "one");
  REQUIRE(world.RunUntil([&] { return Own(world).is_null(); }));
  world.Create(Prebuilt(2));
  REQUIRE(world.RunUntil([&] { return world.Finished("two"); }));
}

TEST_CASE("A prebuilt Workload that does not fit its Job is out of sync, and nothing starts") {
  World world;
  Process& muster = world.Start();
  world.MakeQueues("4");
  Json workload = Prebuilt(2);
  Json job = PrebuiltJob("train", 2, 10);
  SECTION("other pods") { workload["spec"]["podSets"][0]["count"] = 3; }
  SECTION("other requests") {
    workload["spec"]["podSets"][0]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "500m";
  }
  SECTION("other tolerations") {
    workload["spec"]["podSets"][0]["template"]["spec"]["tolerations"] = Json::array({{{"operator", "Exists"}}});
  }
  SECTION("two pod sets") {
    workload["spec"]["podSets"].push_back(workload["spec"]["podSets"][0]);
    workload["spec"]["podSets"][1]["name"] = "more";
  }
  SECTION("it is admitted already") {
    workload["spec"]["podSets"][0]["count"] = 3;
    world.Create(workload);
    REQUIRE(world.RunUntil([&] { return Has(world, "Admitted"); }));
    world.Create(job);
  }
  SECTION("it is admitted already, for less, and the Job's template says that it was started with it") {
    workload["spec"]["podSets"][0]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1m";
    world.Create(workload);
    REQUIRE(world.RunUntil([&] { return Has(world, "Admitted"); }));
    job["spec"]["template"]["metadata"]["annotations"]["kueue.x-k8s.io/workload"] = kOwn;
    world.Create(job);
  }
  if (Own(world).is_null()) {
    world.Create(workload);
    world.Create(job);
  }
  REQUIRE(world.RunUntil([&] { return Condition(world, "Finished") == "True/OutOfSync"; }));
  world.RunFor(std::chrono::seconds(30));
  CHECK(Suspended(world, "train"));
  CHECK(Reserving(world) == 0);
  world.MakeJob("other", 4, 5);
  REQUIRE(world.RunUntil([&] { return world.Finished("other"); }));
  ComesToRest(world, muster);
}

TEST_CASE("A deactivated prebuilt Workload stops its Job; active again, it queues and starts") {
  World world;
  Auditor auditor(&world, 4);
  Process& muster = world.Start();
  world.MakeQueues("4");
  world.Create(Prebuilt(3));
  world.Create(PrebuiltJob("train", 3, 60));
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "train"); }));
  world.RunFor(std::chrono::seconds(5));
  world.Patch("workloads", "team", kOwn, {{"spec", {{"active", false}}}});
  REQUIRE(world.RunUntil([&] { return Condition(world, "QuotaReserved") == "False/Deactivated"; }));
  CHECK(Suspended(world, "train"));
  CHECK(Condition(world, "Evicted") == "True/Deactivated");
  REQUIRE(world.RunUntil(
      [&] { return At(world.Get("jobs", "team", "train"), "spec", "template", "spec", "nodeSelector").is_null(); }));
  world.MakeJob("other", 3, 20);
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "other"); }));
  world.Patch("workloads", "team", kOwn, {{"spec", {{"active", true}}}});
  REQUIRE(world.RunUntil([&] { return world.Finished("train"); }, std::chrono::minutes(5)));
  CHECK(auditor.starts() == 3);
  CHECK(muster.telemetry.evicted["Deactivated"] == 1);
  REQUIRE(world.RunUntil([&] { return Condition(world, "Finished") == "True/Succeeded"; }));
  ComesToRest(world, muster);
}

TEST_CASE("A reservation whose Job cannot be started is given back") {
  World world;
  Auditor auditor(&world, 4);
  Process& muster = world.Start();
  world.MakeQueues("4");
  FaultRule rule;
  rule.user = World::kMuster;
  rule.verbs = {"patch"};
  rule.resource = "jobs";
  rule.name = "train";
  rule.times = -1;
  rule.fault.kind = Fault::Kind::kAnswer;
  rule.fault.status = GENERATE(422, 500);
  const auto id = world.server.faults().Add(rule);
  world.Create(Prebuilt(3));
  world.Create(PrebuiltJob("train", 3, 30));
  REQUIRE(world.RunUntil([&] { return Has(world, "Admitted"); }));
  SECTION("since its start is refused, and is tried again") {
    world.MakeJob("other", 3, 30);
    REQUIRE(world.RunUntil([&] { return !Suspended(world, "other"); }, std::chrono::minutes(10)));
    world.server.faults().Remove(id);
  }
  SECTION("since it is deactivated meanwhile") {
    world.Patch("workloads", "team", kOwn, {{"spec", {{"active", false}}}});
    REQUIRE(world.RunUntil([&] { return Condition(world, "QuotaReserved") == "False/Deactivated"; },
                           std::chrono::minutes(5)));
    world.server.faults().Remove(id);
    world.RunFor(std::chrono::minutes(1));
    // Refused, it was given back before.
    if (rule.fault.status == 500) CHECK(muster.telemetry.evicted["Deactivated"] == 1);
    CHECK(Suspended(world, "train"));
    CHECK(Reserving(world) == 0);
    world.Patch("workloads", "team", kOwn, {{"spec", {{"active", true}}}});
  }
  SECTION("since the Workload is deleted meanwhile") {
    world.Delete("workloads", "team", kOwn);
    REQUIRE(world.RunUntil([&] { return Reserving(world) == 0; }, std::chrono::minutes(5)));
    world.server.faults().Remove(id);
    world.RunFor(std::chrono::minutes(1));
    CHECK(Suspended(world, "train"));
    world.Create(Prebuilt(3));
  }
  REQUIRE(world.RunUntil([&] { return world.Finished("train"); }, std::chrono::minutes(30)));
  ComesToRest(world, muster);
  CHECK(Reserving(world) == 0);
}

// "cq" has an AdmissionCheck that passes only after the Job has left; "other" has none, and its own quota.
TEST_CASE("A prebuilt gang whose Job goes to another queue while checks are pending is started there, on its quota") {
  World world;
  Auditor auditor(&world, 4);
  Process& muster = world.Start();
  world.Create(Json::parse(R"({"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"AdmissionCheck",
    "metadata":{"name":"budget"},"spec":{"controllerName":"example.com/budget"}})"));
  const Json active = {{"type", "Active"},
                       {"status", "True"},
                       {"reason", "Test"},
                       {"message", ""},
                       {"lastTransitionTime", "2026-01-01T00:00:00Z"}};
  world.Patch("admissionchecks", "", "budget", {{"status", {{"conditions", Json::array({active})}}}}, "status");
  world.MakeQueues("4");
  world.Patch("clusterqueues", "", "cq",
              {{"spec", {{"admissionChecksStrategy", {{"admissionChecks", {{{"name", "budget"}}}}}}}}});
  world.AwaitActive("clusterqueues", "", "cq");
  world.Create(Json::parse(R"({"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"ClusterQueue","metadata":{"name":"other"},
    "spec":{"namespaceSelector":{},"queueingStrategy":"BestEffortFIFO","stopPolicy":"None","resourceGroups":[
      {"coveredResources":["cpu"],"flavors":[{"name":"f","resources":[{"name":"cpu","nominalQuota":"4"}]}]}]}})"));
  world.Create(Json::parse(R"({"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"LocalQueue",
    "metadata":{"name":"next","namespace":"team"},"spec":{"clusterQueue":"other","stopPolicy":"None"}})"));
  world.AwaitActive("localqueues", "team", "next");
  world.Create(Prebuilt(3));
  world.Create(PrebuiltJob("train", 3, 30));
  REQUIRE(world.RunUntil(
      [&] { return Has(world, "QuotaReserved") && !At(Own(world), "status", "admissionChecks").empty(); }));
  world.RunFor(std::chrono::seconds(5));
  REQUIRE(Suspended(world, "train"));
  REQUIRE(Reserving(world) == 1);
  world.Patch("jobs", "team", "train", {{"metadata", {{"labels", {{"kueue.x-k8s.io/queue-name", "next"}}}}}});
  Json checks = At(Own(world), "status", "admissionChecks");
  checks[0]["state"] = "Ready";
  world.Patch("workloads", "team", kOwn, {{"status", {{"admissionChecks", checks}}}}, "status");
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "train"); }));
  const std::string record =
      Text(At(world.Get("jobs", "team", "train"), "metadata", "annotations", "muster.dev/admission"));
  CHECK(Text(sim::Get(Json::parse(record), "localQueue")) == "next");
  CHECK(Text(At(Own(world), "status", "admission", "clusterQueue")) == "other");
  world.RunFor(std::chrono::seconds(5));
  CHECK(Text(At(Own(world), "spec", "queueName")) == "next");
  CHECK(Reserving(world) == 0);
  CHECK(Reserving(world, "other") == 1);
  REQUIRE(world.RunUntil([&] { return Condition(world, "Finished") == "True/Succeeded"; }));
  CHECK(auditor.starts() == 1);
  ComesToRest(world, muster);
}

TEST_CASE("A prebuilt Workload that is deleted stops its Job, which starts again with another") {
  World world;
  Auditor auditor(&world, 4);
  Process& muster = world.Start();
  world.MakeQueues("4");
  world.Create(Prebuilt(3));
  world.Create(PrebuiltJob("train", 3, 60));
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "train"); }));
  world.RunFor(std::chrono::seconds(5));
  world.Delete("workloads", "team", kOwn);
  REQUIRE(world.RunUntil([&] { return Suspended(world, "train"); }));
  REQUIRE(world.RunUntil([&] { return Reserving(world) == 0; }));
  REQUIRE(world.RunUntil(
      [&] { return At(world.Get("jobs", "team", "train"), "spec", "template", "spec", "nodeSelector").is_null(); }));
  CHECK(world.List("workloads", "team").empty());
  world.Create(Prebuilt(3));
  REQUIRE(world.RunUntil([&] { return world.Finished("train"); }, std::chrono::minutes(5)));
  CHECK(auditor.starts() == 2);
  ComesToRest(world, muster);
}

TEST_CASE("A Job that is deleted between the reservation and its start leaves nothing behind") {
  World world;
  Auditor auditor(&world, 4);
  Process& muster = world.Start();
  world.MakeQueues("4");
  FaultRule rule;
  rule.user = World::kMuster;
  rule.verbs = {"patch"};
  rule.resource = "jobs";
  rule.times = -1;
  rule.fault.kind = Fault::Kind::kLoseRequest;
  const auto id = world.server.faults().Add(rule);
  world.Create(Prebuilt(3));
  world.Create(PrebuiltJob("train", 3, 30));
  REQUIRE(
      world.RunUntil([&] { return Has(world, "Admitted") && !At(Own(world), "metadata", "ownerReferences").empty(); }));
  const std::string propagation = GENERATE("Background", "Orphan");
  world.Delete("jobs", "team", "train", propagation);
  world.server.faults().Remove(id);
  world.MakeJob("other", 3, 5);
  REQUIRE(world.RunUntil([&] { return world.Finished("other"); }));
  if (propagation == "Orphan") {
    REQUIRE(world.RunUntil([&] { return Condition(world, "Finished") == "True/OwnerNotFound"; }));
  } else {
    CHECK(Own(world).is_null());
  }
  ComesToRest(world, muster);
}

TEST_CASE("A Muster that dies at any write finds a prebuilt Workload and its Job as they are") {
  DieAtEachWrite<Auditor>(16, [](World& world, Auditor&, const AwaitDeath& await_death) {
    world.Create(Prebuilt(3));
    world.Create(PrebuiltJob("train", 3, 30));
    world.MakeJob("other", 3, 30);
    await_death(std::chrono::seconds(10), [] {});
    const bool drained = GENERATE(false, true);
    CAPTURE(drained);
    if (drained) world.Patch("clusterqueues", "", "cq", {{"spec", {{"stopPolicy", "HoldAndDrain"}}}});
    world.Start();
    if (drained) {
      REQUIRE(world.RunUntil([&] { return Reserving(world) == 0; }, std::chrono::minutes(5)));
      world.Patch("clusterqueues", "", "cq", {{"spec", {{"stopPolicy", "None"}}}});
    }
    REQUIRE(
        world.RunUntil([&] { return world.Finished("train") && world.Finished("other"); }, std::chrono::minutes(10)));
    REQUIRE(world.RunUntil([&] { return Condition(world, "Finished") == "True/Succeeded"; }));
  });
}

TEST_CASE("Every write of a prebuilt gang may fail in every way") {
  FailEachWrite<Auditor>({{"patch", "workloads"}, {"patch", "workloads/status"}, {"patch", "jobs"}},
                         [](World& world, Process&, Auditor& auditor) {
                           world.Create(Prebuilt(3));
                           world.Create(PrebuiltJob("train", 3, 20));
                           world.MakeJob("other", 3, 20);
                           REQUIRE(world.RunUntil([&] { return world.Finished("train") && world.Finished("other"); },
                                                  std::chrono::hours(1)));
                           REQUIRE(world.RunUntil([&] { return Condition(world, "Finished") == "True/Succeeded"; }));
                           CHECK(auditor.starts() == 2);
                         });
}

std::string ClaimOf(const World& world, const std::string& job) {
  const Json annotations = At(world.Get("jobs", "team", job), "metadata", "annotations");
  const std::string record = annotations.is_object() ? annotations.value("muster.dev/admission", "") : "";
  return record.empty() ? record : Text(Json::parse(record)["claim"]);
}

TEST_CASE("A running Job that is deleted and lets its prebuilt Workload go leaves no quota held") {
  // Its end may be seen long before or after its Workload is let go.
  FaultRule rule;
  rule.user = World::kMuster;
  rule.verbs = {"watch"};
  rule.resource = GENERATE("jobs", "workloads");
  rule.fault.kind = Fault::Kind::kCut;
  rule.fault.lines = GENERATE(range(1, 16));
  CAPTURE(rule.resource, rule.fault.lines);
  World world;
  world.server.faults().Add(rule);
  Process& muster = world.Start();
  world.MakeQueues("4");
  world.Create(Prebuilt(3));
  world.Create(PrebuiltJob("train", 3, 3600));
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "train"); }));
  world.RunFor(std::chrono::seconds(5));
  world.Delete("jobs", "team", "train", "Orphan");
  world.RunFor(std::chrono::seconds(20));
  CHECK(Condition(world, "Finished") == "True/OwnerNotFound");
  CHECK(Reserving(world) == 0);
  world.MakeJob("other", 4, 5);
  REQUIRE(world.RunUntil([&] { return world.Finished("other"); }));
  ComesToRest(world, muster);
}

TEST_CASE("A prebuilt Workload that loses its owner while its Job runs counts once, and is taken again") {
  World world;
  Auditor auditor(&world, 4);
  Process* muster = &world.Start();
  world.MakeQueues("4");
  world.Create(Prebuilt(3));
  world.Create(PrebuiltJob("train", 3, 60));
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "train"); }));
  world.RunFor(std::chrono::seconds(5));
  SECTION("while Muster runs") {
    world.Patch("workloads", "team", kOwn, {{"metadata", {{"ownerReferences", nullptr}}}});
  }
  SECTION("while Muster is down") {
    world.Kill(*muster);
    world.Patch("workloads", "team", kOwn, {{"metadata", {{"ownerReferences", nullptr}}}});
    muster = &world.Start();
  }
  REQUIRE(world.RunUntil([&] { return At(Own(world), "metadata", "ownerReferences").size() == 1; }));
  world.MakeJob("other", 1, 5);
  REQUIRE(world.RunUntil([&] { return world.Finished("other"); }, std::chrono::seconds(30)));
  CHECK_FALSE(Suspended(world, "train"));
  CHECK(world.RunUntil([&] { return Reserving(world) == 1; }, std::chrono::seconds(5)));
  REQUIRE(world.RunUntil([&] { return world.Finished("train"); }, std::chrono::minutes(3)));
  REQUIRE(world.RunUntil([&] { return Condition(world, "Finished") == "True/Succeeded"; }));
  ComesToRest(world, *muster);
  CHECK(auditor.starts() == 2);
}

// The policy muster-fence lets no start through that a leader of a former term decided on.
TEST_CASE("A reservation of a former leader is started by the next one under its own term") {
  World world;
  world.MakeQueues("4");
  sim::MusterPolicyOptions policies;
  policies.lease = [&world] { return world.Get("leases", "muster-system", "c1f6bfd2.kueue.x-k8s.io"); };
  sim::AddMusterPolicies(policies, &world.store.admission());
  Auditor auditor(&world, 4);
  Process& first = world.Start("a");
  REQUIRE(world.RunUntil([&] { return first.controller->health().leading; }));
  FaultRule rule;
  rule.user = World::kMuster;
  rule.verbs = {"patch"};
  rule.resource = "jobs";
  rule.times = -1;
  rule.fault.kind = Fault::Kind::kLoseRequest;
  const auto id = world.server.faults().Add(rule);
  world.Create(Prebuilt(3));
  world.Create(PrebuiltJob("train", 3, 30));
  REQUIRE(
      world.RunUntil([&] { return Has(world, "Admitted") && !At(Own(world), "metadata", "ownerReferences").empty(); }));
  world.Kill(first);
  world.server.faults().Remove(id);
  Process& second = world.Start("b");
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "train"); }, std::chrono::minutes(3)));
  CHECK(ClaimOf(world, "train").starts_with("2-"));
  CHECK_FALSE(Noted(world, "former leader"));
  REQUIRE(world.RunUntil(
      [&] { return Text(At(Own(world), "metadata", "annotations", "muster.dev/claim")) == ClaimOf(world, "train"); }));
  REQUIRE(world.RunUntil([&] { return world.Finished("train"); }));
  CHECK(auditor.starts() == 1);
  CHECK(second.telemetry.evicted.empty());
  ComesToRest(world, second);
}

// The time that a gang may run is its Workload's (kueue_semantics 7.5): what is queued under another begins anew.
TEST_CASE("The time that a gang has run stays with the prebuilt Workload that it ran with") {
  World world;
  Process* muster = &world.Start();
  world.MakeQueues("4");
  Json workload = Prebuilt(3);
  workload["spec"]["maximumExecutionTimeSeconds"] = 60;
  world.Create(workload);
  Json job = PrebuiltJob("train", 3, 600);
  job["metadata"]["labels"]["kueue.x-k8s.io/max-exec-time-seconds"] = "60";
  world.Create(job);
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "train"); }));
  world.RunFor(std::chrono::seconds(40));
  std::string name = kOwn;
  SECTION("deleted and made again") {
    world.Delete("workloads", "team", kOwn);
    REQUIRE(world.RunUntil([&] { return Suspended(world, "train"); }));
  }
  SECTION("deleted, and made again at once") {
    world.Delete("workloads", "team", kOwn);
    world.RunFor(std::chrono::milliseconds(1));
  }
  SECTION("the Job names another") {
    name = "another";
    const bool restarted = GENERATE(false, true);
    world.Patch("clusterqueues", "", "cq", {{"spec", {{"stopPolicy", "HoldAndDrain"}}}});
    REQUIRE(world.RunUntil([&] { return Suspended(world, "train"); }));
    if (restarted) world.Kill(*muster);
    world.Patch("jobs", "team", "train",
                {{"metadata", {{"annotations", {{"kueue.x-k8s.io/prebuilt-workload-name", name}}}}}});
    if (restarted) muster = &world.Start();
    world.RunFor(std::chrono::seconds(10));
    world.Patch("clusterqueues", "", "cq", {{"spec", {{"stopPolicy", "None"}}}});
  }
  workload["metadata"]["name"] = name;
  world.Create(workload);
  REQUIRE(world.RunUntil([&] {
    return !Suspended(world, "train") && sim::HasCondition(world.Get("workloads", "team", name), "Admitted");
  }));
  const WallTime from = world.executor.Now();
  REQUIRE(world.RunUntil([&] { return Suspended(world, "train"); }, std::chrono::minutes(5)));
  CHECK(world.executor.Now() - from > std::chrono::seconds(58));
  CHECK(world.executor.Now() - from < std::chrono::seconds(62));
  REQUIRE(
      world.RunUntil([&] { return sim::HasCondition(world.Get("workloads", "team", name), "DeactivationTarget"); }));
  // It was evicted once, whatever became of the other.
  CHECK(At(world.Get("workloads", "team", name), "status", "schedulingStats", "evictions").size() == 1);
}

}  // namespace
}  // namespace muster::controller
