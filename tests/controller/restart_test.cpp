// Restarts, fail-over and faults.
#include <catch2/catch.hpp>
#include <cstdlib>

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

// No gang starts twice, none is half started, quota is kept: looked at after every commit.
class Referee {
 public:
  Referee(World* world, int64_t cpus) : cpus_(cpus) {
    world->store.Subscribe([this](const sim::Change& change) { Look(change); });
  }
  int64_t most() const { return most_; }
  int starts(const std::string& job) const {
    const auto it = starts_.find(job);
    return it == starts_.end() ? 0 : it->second;
  }

 private:
  void Look(const sim::Change& change) {
    if (change.kind->plural != "jobs") return;
    const std::string name = Text(At(*change.object, "metadata", "name"));
    const bool gone = change.type == sim::Change::Type::kDeleted;
    const bool ended = sim::HasCondition(*change.object, "Complete") || sim::HasCondition(*change.object, "Failed");
    const bool runs = !gone && !ended && !sim::Flag(At(*change.object, "spec", "suspend"));
    // A suspended gang holds its quota until its pods are gone.
    const bool leaves = !gone && !ended && sim::Number(At(*change.object, "status", "active")) > 0;
    const bool ran = running_.contains(name);
    if (runs && !ran) ++starts_[name];
    // What has ended of it holds nothing. All its pods run at once.
    const int64_t left =
        sim::Number(At(*change.object, "spec", "parallelism")) - sim::Number(At(*change.object, "status", "succeeded"));
    if (runs) {
      running_[name] = left;
    } else {
      running_.erase(name);
    }
    runs || leaves ? void(held_[name] = left) : void(held_.erase(name));
    int64_t sum = 0;
    for (const auto& [job, pods] : held_) sum += pods;
    most_ = std::max(most_, sum);
    REQUIRE(sum <= cpus_);
  }

  int64_t cpus_;
  int64_t most_ = 0;
  std::map<std::string, int> starts_;
  std::map<std::string, int64_t> running_;
  std::map<std::string, int64_t> held_;
};

void AllFinish(World& world, int jobs, Duration within = std::chrono::hours(1)) {
  const bool done = world.RunUntil(
      [&] {
        for (int i = 0; i < jobs; ++i) {
          if (!world.Finished("job-" + std::to_string(i))) return false;
        }
        return true;
      },
      within);
  for (int i = 0; i < jobs && !done; ++i) {
    const std::string name = "job-" + std::to_string(i);
    if (!world.Finished(name)) UNSCOPED_INFO(world.Get("jobs", "team", name).dump());
  }
  REQUIRE(done);
}

// Who started again was stopped, and its Workload says so. One that was stopped in its last moments may have ended all
// the same.
void CheckStarts(const World& world, const Referee& referee, const std::string& job) {
  INFO(job << " " << world.WorkloadOf(job).dump());
  const int64_t evictions = EvictionsIn(world.WorkloadOf(job));
  CHECK(referee.starts(job) >= std::max<int64_t>(1, evictions));
  CHECK(referee.starts(job) <= 1 + evictions);
}

// An admitted gang that takes the whole queue while Muster is down, and another that waits for it.
struct Occupied {
  Occupied() : referee(&world, 4) {
    Process& first = world.Start();
    world.MakeQueues("4");
    world.MakeJob("job-0", 4, 120);
    REQUIRE(world.RunUntil([&] { return sim::HasCondition(world.WorkloadOf("job-0"), "Admitted"); }));
    world.RunFor(std::chrono::seconds(5));
    world.Kill(first);
  }
  // The referee sees to it that nobody else is given the quota before the gang has ended.
  void NobodyElseStartsUntilItEnds() {
    Process& second = world.Start();
    world.MakeJob("job-1", 4, 10);
    world.RunFor(std::chrono::seconds(20));
    CHECK(Suspended(world, "job-1"));
    CHECK(Reserving(world) == 1);
    AllFinish(world, 2);
    AtRest(world, second);
  }
  World world;
  Referee referee;
};

TEST_CASE("An admitted Job that became the child of a queued one while Muster was down keeps its quota") {
  Occupied occupied;
  World& world = occupied.world;
  const Json parent = world.MakeJob("parent", 4, 1);
  world.Patch("jobs", "team", "job-0",
              {{"metadata",
                {{"ownerReferences", Json::array({{{"apiVersion", "batch/v1"},
                                                   {"kind", "Job"},
                                                   {"name", "parent"},
                                                   {"uid", At(parent, "metadata", "uid")},
                                                   {"controller", true}}})}}}});
  occupied.NobodyElseStartsUntilItEnds();
}

TEST_CASE("An admitted Job that lost its queue name while Muster was down keeps its quota") {
  for (const bool suspended : {false, true}) {
    DYNAMIC_SECTION(suspended) {
      Occupied occupied;
      World& world = occupied.world;
      if (suspended) world.Patch("jobs", "team", "job-0", {{"spec", {{"suspend", true}}}});
      world.Patch("jobs", "team", "job-0", {{"metadata", {{"labels", {{"kueue.x-k8s.io/queue-name", nullptr}}}}}});
      occupied.NobodyElseStartsUntilItEnds();
    }
  }
}

TEST_CASE("A gang whose namespace is no longer managed after a restart keeps its quota") {
  Occupied occupied;
  // The default selector passes the system's namespaces over.
  occupied.world.Patch("namespaces", "", "team",
                       {{"metadata", {{"labels", {{"kubernetes.io/metadata.name", "kube-system"}}}}}});
  Process& second = occupied.world.Start();
  occupied.world.RunFor(std::chrono::seconds(20));
  CHECK(Reserving(occupied.world) == 1);
  AllFinish(occupied.world, 1);
  AtRest(occupied.world, second);
}

// As somebody can write it who gets past the policies: `change` makes the lie.
std::string ForgedRecord(World& world, const std::string& job, void (*change)(Json*)) {
  Json record = Json::parse(R"({"v":1,"claim":"1-1","state":"started","clusterQueue":"cq","localQueue":"lq",
    "reservedAt":"2026-01-01T00:00:00Z","podSets":[{"name":"main","count":4,"flavors":{"cpu":"f"},
    "usage":{"cpu":4000}}],"injected":{}})");
  record["uid"] = At(world.Get("jobs", "team", job), "metadata", "uid");
  change(&record);
  return record.dump();
}

TEST_CASE("A forged record starts no waiting Job and takes no quota, and is told of") {
  void (*const lies[])(Json*) = {
      [](Json*) {},  // nothing but the Workload gives it away
      [](Json* record) { (*record)["podSets"][0]["usage"]["cpu"] = 0; },
      [](Json* record) { (*record)["podSets"][0]["usage"]["cpu"] = INT64_MAX; },
      [](Json* record) { (*record)["podSets"][0]["usage"]["gpu"] = 8; },
      [](Json* record) { (*record)["podSets"][0]["count"] = 1; },
      [](Json* record) { (*record)["podSets"][0]["name"] = "other"; },
      [](Json* record) { (*record)["podSets"][0]["count"] = 2000000000; },
      [](Json* record) {
        (*record)["state"] = "stopped";
        (*record)["podSets"][0]["usage"]["cpu"] = INT64_MAX;
      },
  };
  for (size_t i = 0; i < std::size(lies); ++i) {
    for (const bool restart : {false, true}) {
      DYNAMIC_SECTION(i << restart) {
        World world;
        Referee referee(&world, 4);
        Process& first = world.Start();
        world.MakeQueues("4");
        world.MakeJob("job-0", 4, 60);
        REQUIRE(world.RunUntil([&] { return sim::HasCondition(world.WorkloadOf("job-0"), "Admitted"); }));
        world.MakeJob("job-1", 4, 10);
        world.RunFor(std::chrono::seconds(5));
        REQUIRE(Suspended(world, "job-1"));
        if (restart) world.Kill(first);
        world.Patch(
            "jobs", "team", "job-1",
            {{"metadata", {{"annotations", {{"muster.dev/admission", ForgedRecord(world, "job-1", lies[i])}}}}}});
        Process& muster = restart ? world.Start() : first;
        world.RunFor(std::chrono::seconds(10));
        CHECK(Suspended(world, "job-1"));
        CHECK(Reserving(world) == 1);
        AllFinish(world, 2);
        CHECK(referee.starts("job-1") == 1);
        AtRest(world, muster);
      }
    }
  }
}

TEST_CASE("A running Job whose record claims other amounts is stopped, or goes by its Workload") {
  for (const bool has_workload : {false, true}) {
    DYNAMIC_SECTION(has_workload) {
      Occupied occupied;
      World& world = occupied.world;
      const std::string key = "muster.dev/admission";
      Json record = Json::parse(Text(At(world.Get("jobs", "team", "job-0"), "metadata", "annotations", key)));
      record["podSets"][0]["usage"]["cpu"] = 0;
      world.Patch("jobs", "team", "job-0", {{"metadata", {{"annotations", {{key, record.dump()}}}}}});
      if (!has_workload) world.Delete("workloads", "team", Text(At(world.WorkloadOf("job-0"), "metadata", "name")));
      Process& second = world.Start();
      REQUIRE(world.RunUntil([&] {
        for (const Json& event : world.List("events", "team")) {
          if (Text(sim::Get(event, "reason")) == "AdmissionRecordInvalid") return true;
        }
        return false;
      }));
      world.RunFor(std::chrono::seconds(20));
      // Started anew where nothing else told of an admission.
      CHECK(occupied.referee.starts("job-0") == (has_workload ? 1 : 2));
      record = Json::parse(Text(At(world.Get("jobs", "team", "job-0"), "metadata", "annotations", key)));
      CHECK(record["podSets"][0]["usage"]["cpu"] == 4000);
      AllFinish(world, 1);
      AtRest(world, second);
    }
  }
}

TEST_CASE("A record that is altered or spoilt while its gang runs is written again, and told of") {
  for (const bool spoilt : {false, true}) {
    DYNAMIC_SECTION(spoilt) {
      World world;
      Process& muster = world.Start();
      world.MakeQueues("4");
      world.MakeJob("job-0", 4, 60);
      REQUIRE(world.RunUntil([&] { return sim::HasCondition(world.WorkloadOf("job-0"), "Admitted"); }));
      const std::string key = "muster.dev/admission";
      const auto record = [&] { return Text(At(world.Get("jobs", "team", "job-0"), "metadata", "annotations", key)); };
      const std::string before = record();
      Json altered = Json::parse(before);
      altered["podSets"][0]["usage"]["cpu"] = 1;
      world.Patch("jobs", "team", "job-0",
                  {{"metadata", {{"annotations", {{key, spoilt ? std::string("spoilt") : altered.dump()}}}}}});
      REQUIRE(world.RunUntil([&] { return record() == before; }));
      world.RunFor(std::chrono::seconds(5));
      int told = 0;
      for (const Json& event : world.List("events", "team")) {
        if (Text(sim::Get(event, "reason")) == "AdmissionRecordInvalid") ++told;
      }
      CHECK(told == 1);
      AllFinish(world, 1);
      AtRest(world, muster);
    }
  }
}

// user_pains H1
TEST_CASE("After a restart running gangs keep their quota and waiting ones their turn") {
  World world;
  Referee referee(&world, 4);
  Process& first = world.Start();
  world.MakeQueues("4");
  for (int i = 0; i < 4; ++i) world.MakeJob("job-" + std::to_string(i), 2, 60);
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "job-0") && !Suspended(world, "job-1"); }));
  world.RunFor(std::chrono::seconds(5));
  world.Kill(first);
  world.RunFor(std::chrono::seconds(5));
  const size_t before = world.server.writes().size();
  Process& second = world.Start();
  world.RunFor(std::chrono::seconds(20));
  CHECK(Suspended(world, "job-2"));
  CHECK(world.Writes(before)["patch jobs"] == 0);
  AllFinish(world, 4);
  for (int i = 0; i < 4; ++i) CHECK(referee.starts("job-" + std::to_string(i)) == 1);
  AtRest(world, second);
}

TEST_CASE("A Job that ends while Muster is down has its Workload finished afterwards") {
  World world;
  Process& first = world.Start();
  world.MakeQueues("4");
  world.MakeJob("job-0", 2, 10);
  REQUIRE(world.RunUntil([&] { return sim::HasCondition(world.WorkloadOf("job-0"), "Admitted"); }));
  world.Kill(first);
  REQUIRE(world.RunUntil([&] { return world.Finished("job-0"); }));
  AtRest(world, world.Start());
}

TEST_CASE("A record lost while Muster was down is found again by the Workload's admission") {
  World world;
  Process& first = world.Start();
  world.MakeQueues("4");
  world.MakeJob("job-0", 2, 60);
  REQUIRE(world.RunUntil([&] { return sim::HasCondition(world.WorkloadOf("job-0"), "Admitted"); }));
  world.Kill(first);
  world.Patch("jobs", "team", "job-0", {{"metadata", {{"annotations", {{"muster.dev/admission", nullptr}}}}}});
  Process& second = world.Start();
  REQUIRE(world.RunUntil([&] {
    return At(world.Get("jobs", "team", "job-0"), "metadata", "annotations").contains("muster.dev/admission");
  }));
  CHECK_FALSE(Suspended(world, "job-0"));
  AllFinish(world, 1);
  AtRest(world, second);
}

// Its Workload was deleted and it was suspended while nobody led: nothing but its record tells of the admission.
TEST_CASE("A gang of which only a started record is left is made as it was, and queues again") {
  World world;
  Process& first = world.Start();
  world.MakeQueues("3");
  Json job = world.MakeJob("job-0", 4, 60);
  world.Patch("jobs", "team", "job-0",
              {{"metadata", {{"annotations", {{"kueue.x-k8s.io/job-min-parallelism", "1"}}}}}});
  REQUIRE(world.RunUntil([&] { return sim::HasCondition(world.WorkloadOf("job-0"), "Admitted"); }));
  CHECK(sim::Number(At(world.Get("jobs", "team", "job-0"), "spec", "parallelism")) == 3);
  world.RunFor(std::chrono::seconds(5));
  world.Kill(first);
  world.Delete("workloads", "team", Text(At(world.WorkloadOf("job-0"), "metadata", "name")));
  world.Patch("jobs", "team", "job-0", {{"spec", {{"suspend", true}}}});
  world.Patch("clusterqueues", "", "cq", {{"spec", {{"stopPolicy", "Hold"}}}});
  world.RunFor(std::chrono::seconds(5));
  Process& second = world.Start();
  world.RunFor(std::chrono::seconds(20));
  const Json waits = world.Get("jobs", "team", "job-0");
  CHECK(At(waits, "spec", "template") == At(job, "spec", "template"));
  CHECK(sim::Number(At(waits, "spec", "parallelism")) == 4);
  CHECK_FALSE(At(waits, "metadata", "annotations").contains("muster.dev/admission"));
  world.Patch("clusterqueues", "", "cq", {{"spec", {{"stopPolicy", "None"}}}});
  AllFinish(world, 1);
  AtRest(world, second);
}

// It was scaled while nobody led, and its Workload was not there yet, or was deleted.
TEST_CASE("A gang that its record does not fit any more is stopped, made as it was, and queues again") {
  World world;
  Process& first = world.Start();
  world.MakeQueues("4");
  const Json job = world.MakeJob("job-0", 4, 60);
  REQUIRE(world.RunUntil([&] { return sim::HasCondition(world.WorkloadOf("job-0"), "Admitted"); }));
  world.RunFor(std::chrono::seconds(5));
  world.Kill(first);
  world.Delete("workloads", "team", Text(At(world.WorkloadOf("job-0"), "metadata", "name")));
  world.Patch("jobs", "team", "job-0", {{"spec", {{"parallelism", 1}}}});
  world.Patch("clusterqueues", "", "cq", {{"spec", {{"stopPolicy", "Hold"}}}});
  world.RunFor(std::chrono::seconds(5));
  Process& second = world.Start();
  world.RunFor(std::chrono::seconds(20));
  const Json waits = world.Get("jobs", "team", "job-0");
  CHECK(Suspended(world, "job-0"));
  CHECK(At(waits, "spec", "template") == At(job, "spec", "template"));
  CHECK(sim::Number(At(waits, "spec", "parallelism")) == 1);
  CHECK_FALSE(At(waits, "metadata", "annotations").contains("muster.dev/admission"));
  world.Patch("clusterqueues", "", "cq", {{"spec", {{"stopPolicy", "None"}}}});
  AllFinish(world, 1);
  AtRest(world, second);
}

TEST_CASE("A standby writes nothing, and takes over when the leader dies") {
  World world;
  Referee referee(&world, 4);
  Process& first = world.Start("a");
  world.MakeQueues("4");
  REQUIRE(world.RunUntil([&] { return first.controller->health().leading; }));
  Process& second = world.Start("b");
  for (int i = 0; i < 6; ++i) world.MakeJob("job-" + std::to_string(i), 2, 40);
  world.RunFor(std::chrono::seconds(10));
  CHECK_FALSE(second.controller->health().leading);
  CHECK(second.controller->health().synced);
  CHECK(second.telemetry.writes == 0);
  world.Kill(first);
  REQUIRE(world.RunUntil([&] { return second.controller->health().leading; }, std::chrono::minutes(1)));
  AllFinish(world, 6);
  for (int i = 0; i < 6; ++i) CHECK(referee.starts("job-" + std::to_string(i)) == 1);
}

// user_pains H12
TEST_CASE("A leader that was paused past its lease writes nothing when it wakes") {
  World world;
  Referee referee(&world, 4);
  Process& first = world.Start("a");
  world.MakeQueues("4");
  REQUIRE(world.RunUntil([&] { return first.controller->health().leading; }));
  Process& second = world.Start("b");
  world.MakeJob("job-0", 4, 100);
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "job-0"); }));
  // Queue status follows within a second; what was sent before the pause may be answered after it.
  world.RunFor(std::chrono::seconds(3));
  first.source->SetPaused(true);
  REQUIRE(world.RunUntil([&] { return second.controller->health().leading; }, std::chrono::minutes(1)));
  for (int i = 1; i < 5; ++i) world.MakeJob("job-" + std::to_string(i), 2, 10);
  world.RunFor(std::chrono::seconds(10));
  const int written = first.telemetry.writes;
  first.source->SetPaused(false);
  world.RunFor(std::chrono::seconds(30));
  CHECK(first.lost_leadership);
  CHECK(first.telemetry.writes == written);
  world.Kill(first);
  AllFinish(world, 5);
  for (int i = 0; i < 5; ++i) CHECK(referee.starts("job-" + std::to_string(i)) == 1);
}

TEST_CASE("While Kueue's lease is held Muster does not lead, and says why") {
  World world;
  world.Create(Json::parse(R"({"apiVersion":"v1","kind":"Namespace","metadata":{"name":"kueue-system"}})"));
  Json lease = Json::parse(R"({"apiVersion":"coordination.k8s.io/v1","kind":"Lease",
    "metadata":{"name":"c1f6bfd2.kueue.x-k8s.io","namespace":"kueue-system"},
    "spec":{"holderIdentity":"kueue-0","leaseDurationSeconds":15}})");
  lease["spec"]["renewTime"] = FormatMicroTime(world.executor.Now());
  world.Create(lease);
  Process& muster = world.Start("a");
  world.RunFor(std::chrono::seconds(8));
  CHECK_FALSE(muster.controller->health().leading);
  REQUIRE(muster.controller->health().problems.size() == 1);
  CHECK_THAT(muster.controller->health().problems[0], Catch::Contains("kueue-0"));
  REQUIRE(world.RunUntil([&] { return muster.controller->health().leading; }, std::chrono::minutes(1)));
  CHECK(muster.controller->health().problems.empty());
}

TEST_CASE("A clean stop releases the lease, so that the next one leads at once") {
  World world;
  Process& first = world.Start("a");
  world.MakeQueues("4");
  REQUIRE(world.RunUntil([&] { return first.controller->health().leading; }));
  bool stopped = false;
  first.source->Post([&] { first.controller->Stop([&] { stopped = true; }); });
  REQUIRE(world.RunUntil([&] { return stopped; }));
  world.Kill(first);
  Process& second = world.Start("b");
  REQUIRE(world.RunUntil([&] { return second.controller->health().leading; }, std::chrono::seconds(10)));
}

// Each write of Muster's, made to fail in each way; every Job ends, none starts twice.
TEST_CASE("Every kind of write may fail in every way") {
  FailEachWrite<Referee>(
      {{"patch", "jobs"}, {"create", "workloads"}, {"patch", "workloads/status"}, {"patch", "clusterqueues/status"}},
      [](World& world, Process& muster, Referee& referee) {
        for (int i = 0; i < 5; ++i) world.MakeJob("job-" + std::to_string(i), 2, 10);
        AllFinish(world, 5);
        for (int i = 0; i < 5; ++i) CHECK(referee.starts("job-" + std::to_string(i)) == 1);
        world.RunFor(std::chrono::minutes(1));
        CHECK(muster.telemetry.admitted == 5);
        CHECK(muster.telemetry.finished == 5);
      });
}

TEST_CASE("A Job that ends before its start is answered has been started all the same") {
  World world;
  Referee referee(&world, 4);
  Process& muster = world.Start();
  world.MakeQueues("4");
  FaultRule rule;
  rule.user = World::kMuster;
  rule.verbs = {"patch"};
  rule.resource = "jobs";
  rule.times = 1;
  rule.fault.kind = GENERATE(Fault::Kind::kDelayAnswer, Fault::Kind::kLoseAnswer);
  rule.fault.delay = std::chrono::seconds(30);
  world.server.faults().Add(rule);
  world.MakeJob("job-0", 2, 1);
  const bool deleted = GENERATE(false, true);
  CAPTURE(deleted);
  REQUIRE(world.RunUntil([&] { return world.Finished("job-0"); }));
  if (deleted) world.Delete("jobs", "team", "job-0");
  world.RunFor(std::chrono::minutes(1));
  CHECK(muster.telemetry.admitted == 1);
  CHECK(muster.telemetry.finished == 1);
  if (!deleted) AtRest(world, muster);
}

TEST_CASE("A stop that was ordered and never made is no eviction") {
  World world;
  Process& muster = world.Start();
  world.MakeQueues("4");
  FaultRule rule;
  rule.user = World::kMuster;
  rule.verbs = {"patch"};
  rule.resource = "jobs";
  rule.body_contains = R"("op":"add","path":"/spec/suspend","value":true)";
  rule.fault.kind = Fault::Kind::kAnswer;
  rule.fault.status = 500;
  rule.times = -1;
  const auto id = world.server.faults().Add(rule);
  world.MakeJob("job-0", 2, 5);
  REQUIRE(world.RunUntil([&] { return sim::HasCondition(world.WorkloadOf("job-0"), "Admitted"); }));
  world.Patch("clusterqueues", "", "cq", {{"spec", {{"stopPolicy", "HoldAndDrain"}}}});
  REQUIRE(world.RunUntil([&] { return world.Finished("job-0"); }));
  CHECK(world.server.faults().hits(id) > 0);
  world.RunFor(std::chrono::minutes(1));
  const Json workload = world.WorkloadOf("job-0");
  INFO(workload.dump());
  CHECK(sim::HasCondition(workload, "Finished"));
  CHECK_FALSE(sim::HasCondition(workload, "Evicted"));
  CHECK(EvictionsIn(world.WorkloadOf("job-0")) == 0);
  CHECK(muster.telemetry.evicted.empty());
}

// So a process leaves them that dies while it takes back what it had reserved again for a gang that it had stopped.
TEST_CASE("A stopped Job whose Workload tells of the end of a later reservation waits for its turn") {
  World world;
  Referee referee(&world, 4);
  Process& first = world.Start();
  world.MakeQueues("4");
  world.MakeJob("job-0", 4, 60);
  REQUIRE(world.RunUntil([&] { return sim::HasCondition(world.WorkloadOf("job-0"), "Admitted"); }));
  const Json admission = At(world.WorkloadOf("job-0"), "status", "admission");
  const auto restores = Strike({Fault::Kind::kAnswer, 500}, "patch", "jobs", -1,
                               R"("op":"remove","path":"/metadata/annotations/muster.dev~1admission")");
  const auto id = world.server.faults().Add(restores);
  world.Patch("clusterqueues", "", "cq", {{"spec", {{"stopPolicy", "HoldAndDrain"}}}});
  REQUIRE(world.RunUntil([&] { return Suspended(world, "job-0") && Reserving(world) == 0; }));
  world.Kill(first);
  world.server.faults().Remove(id);
  const std::string name = Text(At(world.WorkloadOf("job-0"), "metadata", "name"));
  world.Patch("workloads", "team", name,
              {{"metadata",
                {{"labels", {{"muster.dev/record", "workload"}}},
                 {"annotations", {{"muster.dev/claim", "9000000000000000000-1"}}}}}});
  Json conditions = Json::parse(R"([{"type":"QuotaReserved","status":"True","reason":"QuotaReserved","message":"m"},
    {"type":"Evicted","status":"True","reason":"AdmissionCheck","message":"m"}])");
  for (Json& condition : conditions) condition["lastTransitionTime"] = FormatTime(world.executor.Now());
  world.Patch("workloads", "team", name, {{"status", {{"admission", admission}, {"conditions", conditions}}}},
              "status");
  Process& second = world.Start();
  REQUIRE(world.RunUntil([&] { return !sim::HasCondition(world.WorkloadOf("job-0"), "QuotaReserved"); }));
  CHECK(Suspended(world, "job-0"));
  world.Patch("clusterqueues", "", "cq", {{"spec", {{"stopPolicy", "None"}}}});
  AllFinish(world, 1);
  CHECK(referee.starts("job-0") == 2);
  AtRest(world, second);
}

// Killed after each of the first steps of a life with a stop in it; the next process finds everything.
TEST_CASE("The process may be killed at any write") {
  DieAtEachWrite<Referee>(14, [](World& world, Referee& referee, const AwaitDeath& await_death) {
    for (int i = 0; i < 3; ++i) world.MakeJob("job-" + std::to_string(i), 2, 30);
    bool drained = false;
    await_death(std::chrono::seconds(60), [&] {
      if (drained || world.executor.Mono() - MonoTime{} <= std::chrono::seconds(8)) return;
      drained = true;
      world.Patch("clusterqueues", "", "cq", {{"spec", {{"stopPolicy", "HoldAndDrain"}}}});
    });
    world.RunFor(std::chrono::seconds(6));
    world.Start();
    world.RunFor(std::chrono::seconds(20));
    world.Patch("clusterqueues", "", "cq", {{"spec", {{"stopPolicy", "None"}}}});
    AllFinish(world, 3);
    for (int i = 0; i < 3; ++i) CheckStarts(world, referee, "job-" + std::to_string(i));
  });
}

// Gangs come and their queue is drained now and then, while processes die at any moment of their lives, also before
// they lead.
// user_pains H12
TEST_CASE("The process may be killed at random points") {
  const uint64_t seeds = std::getenv("MUSTER_LONG") != nullptr ? 300 : 10;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    DYNAMIC_SECTION("seed " << seed) {
      World world(seed);
      Referee referee(&world, 8);
      SeededRandom random = world.executor.NewRandom("kills");
      world.MakeQueues("8");
      if (seed % 2 == 0) {
        sim::RandomFaults rates;
        rates.user = World::kMuster;
        rates.write_permille = 100;
        rates.read_permille = 30;
        rates.watch_line_permille = 5;
        world.server.faults().SetRandom(world.executor.NewRandom("faults"), rates);
      }
      Process* muster = &world.Start("a-0");
      for (int i = 0; i < 24; ++i) {
        world.MakeJob("job-" + std::to_string(i), 1 + i % 4, 1 + static_cast<int>(random.Below(20)));
      }
      for (int kill = 1; kill <= 8; ++kill) {
        if (random.Below(4) != 0) world.RunUntil([&] { return muster->controller->health().leading; });
        const bool drain = random.Below(3) == 0;
        world.Patch("clusterqueues", "", "cq", {{"spec", {{"stopPolicy", drain ? "HoldAndDrain" : "None"}}}});
        const uint64_t most_ms = random.Below(2) == 0 ? 200 : 15'000;
        world.RunFor(std::chrono::milliseconds(random.Below(most_ms)));
        world.Kill(*muster);
        muster = &world.Start("a-" + std::to_string(kill));
      }
      world.Patch("clusterqueues", "", "cq", {{"spec", {{"stopPolicy", "None"}}}});
      world.server.faults().ClearRandom();
      if (muster->lost_leadership) muster = &world.Start("a-9");
      AllFinish(world, 24);
      AtRest(world, *muster);
      for (int i = 0; i < 24; ++i) CheckStarts(world, referee, "job-" + std::to_string(i));
    }
  }
}

TEST_CASE("Chance may strike any request of Muster's") {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    DYNAMIC_SECTION("seed " << seed) {
      World world(seed);
      Referee referee(&world, 6);
      Process& muster = world.Start();
      world.MakeQueues("6");
      sim::RandomFaults rates;
      rates.user = World::kMuster;
      rates.write_permille = 150;
      rates.read_permille = 50;
      rates.watch_line_permille = 10;
      world.server.faults().SetRandom(world.executor.NewRandom("faults"), rates);
      for (int i = 0; i < 20; ++i) world.MakeJob("job-" + std::to_string(i), 1 + i % 3, 10);
      AllFinish(world, 20);
      world.server.faults().ClearRandom();
      for (int i = 0; i < 20; ++i) CHECK(referee.starts("job-" + std::to_string(i)) == 1);
      AtRest(world, muster);
    }
  }
}

// A decided start meets a Job that was changed meanwhile.
TEST_CASE("A relabel between decision and write is decided on again") {
  World world;
  world.Start();
  world.MakeQueues("4");
  world.Create(Json::parse(R"({"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"LocalQueue",
    "metadata":{"name":"lq2","namespace":"team"},"spec":{"clusterQueue":"cq","stopPolicy":"None"}})"));
  world.RunFor(std::chrono::seconds(3));
  bool relabelled = false;
  bool due = false;
  world.server.SetObserver([&](const sim::ApiRequest& request, sim::SimServer::Phase at) {
    if (at == sim::SimServer::Phase::kSent && request.verb == "patch" && request.Resource() == "jobs") due = true;
  });
  world.MakeJob("job-0", 2, 5);
  REQUIRE(world.RunUntil([&] { return due; }));
  world.Patch("jobs", "team", "job-0", {{"metadata", {{"labels", {{"kueue.x-k8s.io/queue-name", "lq2"}}}}}});
  relabelled = true;
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "job-0"); }));
  CHECK(relabelled);
  CHECK(Text(At(world.Get("jobs", "team", "job-0"), "spec", "template", "metadata", "labels",
                "kueue.x-k8s.io/local-queue-name")) == "lq2");
  AllFinish(world, 1);
}

}  // namespace
}  // namespace muster::controller
