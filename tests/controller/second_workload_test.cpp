// Workloads that name a Job as their controller and are not its own (kueue_semantics 2.5: all but the matching one are
// deleted). The Job's own has the deterministic name of section 2.2, or is one that Kueue reserved quota for.
#include <catch2/catch.hpp>

#include "drills.h"
#include "world.h"

namespace muster::controller {
namespace {

using sim::At;
using sim::Json;
using sim::Text;

// As a user makes it, who knows the Job: inactive, which would stop the gang if it counted.
Json SecondWorkload(const World& world, const std::string& name, const std::string& job) {
  Json workload = Json::parse(R"({"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"Workload",
    "metadata":{"namespace":"team"},"spec":{"active":false,"queueName":"lq","podSets":[{"name":"main","count":1,
    "template":{"spec":{"containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":"1"}}}]}}}]}})");
  workload["metadata"]["name"] = name;
  workload["metadata"]["ownerReferences"] =
      Json::array({{{"apiVersion", "batch/v1"},
                    {"kind", "Job"},
                    {"name", job},
                    {"uid", At(world.Get("jobs", "team", job), "metadata", "uid")},
                    {"controller", true}}});
  return workload;
}

bool Gone(const World& world, const std::string& workload) {
  return world.Get("workloads", "team", workload).is_null();
}

std::vector<std::string> Messages(const World& world, const std::string& reason) {
  std::vector<std::string> out;
  for (const Json& event : world.List("events", "team")) {
    if (Text(sim::Get(event, "reason")) == reason) out.push_back(Text(sim::Get(event, "note")));
  }
  return out;
}

// Counts how often the Job was suspended.
class Stops {
 public:
  Stops(World* world, std::string job) : job_(std::move(job)) {
    world->store.Subscribe([this](const sim::Change& change) {
      if (change.kind->plural != "jobs" || Text(At(*change.object, "metadata", "name")) != job_) return;
      const bool runs = !sim::Flag(At(*change.object, "spec", "suspend"));
      if (ran_ && !runs) ++count_;
      ran_ = runs;
    });
  }
  int count() const { return count_; }

 private:
  std::string job_;
  bool ran_ = false;
  int count_ = 0;
};

TEST_CASE("A second Workload of a running Job is deleted, and the Job runs on") {
  World world;
  Process& first = world.Start();
  world.MakeQueues("4");
  world.MakeJob("train", 2, 300);
  Stops stops(&world, "train");
  REQUIRE(world.RunUntil([&] { return sim::HasCondition(world.WorkloadOf("train"), "Admitted"); }));
  const Json own = world.WorkloadOf("train");
  world.RunFor(std::chrono::seconds(5));
  SECTION("while Muster runs") {
    world.Create(SecondWorkload(world, "second", "train"));
    REQUIRE(world.RunUntil([&] { return Gone(world, "second"); }));
  }
  SECTION("while Muster is down") {
    world.Kill(first);
    world.Create(SecondWorkload(world, "second", "train"));
    world.RunFor(std::chrono::seconds(5));
    world.Start();
    REQUIRE(world.RunUntil([&] { return Gone(world, "second"); }));
  }
  SECTION("and its user takes it away again at once") {
    world.Create(SecondWorkload(world, "second", "train"));
    world.Delete("workloads", "team", "second");
  }
  SECTION("again and again") {
    for (int i = 0; i < 5; ++i) {
      world.Create(SecondWorkload(world, "second", "train"));
      REQUIRE(world.RunUntil([&] { return Gone(world, "second"); }));
    }
  }
  SECTION("under a name that comes before") {
    world.Create(SecondWorkload(world, "a", "train"));
    REQUIRE(world.RunUntil([&] { return Gone(world, "a"); }));
  }
  SECTION("and Kueue's finalizer holds it") {
    Json second = SecondWorkload(world, "second", "train");
    second["metadata"]["finalizers"] = {"kueue.x-k8s.io/resource-in-use"};
    world.Create(second);
    REQUIRE(world.RunUntil([&] { return Gone(world, "second"); }));
  }
  world.RunFor(std::chrono::seconds(20));
  CHECK(stops.count() == 0);
  CHECK(At(world.WorkloadOf("train"), "metadata", "uid") == At(own, "metadata", "uid"));
  CHECK(sim::HasCondition(world.WorkloadOf("train"), "Admitted"));
  REQUIRE(world.RunUntil([&] { return world.Finished("train"); }, std::chrono::minutes(10)));
  REQUIRE(world.RunUntil([&] { return sim::HasCondition(world.WorkloadOf("train"), "Finished"); }));
  CHECK(stops.count() == 0);
}

TEST_CASE("The deletion of a second Workload is told of on the Job") {
  World world;
  world.Start();
  world.MakeQueues("4");
  world.MakeJob("train", 2, 300);
  REQUIRE(world.RunUntil([&] { return sim::HasCondition(world.WorkloadOf("train"), "Admitted"); }));
  world.Create(SecondWorkload(world, "second", "train"));
  REQUIRE(world.RunUntil([&] { return !Messages(world, "DeletedWorkload").empty(); }));
  CHECK(Messages(world, "DeletedWorkload") == std::vector<std::string>{"Deleted not matching Workload: team/second"});
}

TEST_CASE("A second Workload of a waiting Job is deleted, and the Job keeps its place") {
  World world;
  world.Start();
  world.MakeQueues("2");
  world.MakeJob("first", 2, 30);
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "first"); }));
  world.MakeJob("train", 2, 5);
  SECTION("beside its own") {
    REQUIRE(world.RunUntil([&] { return !world.WorkloadOf("train").is_null(); }));
    world.Create(SecondWorkload(world, "second", "train"));
  }
  SECTION("before its own") { world.Create(SecondWorkload(world, "second", "train")); }
  REQUIRE(world.RunUntil([&] { return Gone(world, "second"); }));
  REQUIRE(world.RunUntil([&] { return world.Finished("train"); }, std::chrono::minutes(5)));
  REQUIRE(world.RunUntil([&] { return sim::HasCondition(world.WorkloadOf("train"), "Finished"); }));
  CHECK(sim::Get(At(world.WorkloadOf("train"), "status"), "schedulingStats").is_null());
}

TEST_CASE("A second Workload that cannot be deleted stops nothing, and the Job's own is kept up") {
  World world;
  world.Start();
  world.MakeQueues("4");
  sim::FaultRule rule;
  rule.user = World::kMuster;
  rule.verbs = {"delete"};
  rule.resource = "workloads";
  rule.times = -1;
  rule.fault.kind = sim::Fault::Kind::kAnswer;
  rule.fault.status = 403;
  world.server.faults().Add(rule);
  world.MakeJob("train", 2, 60);
  Stops stops(&world, "train");
  REQUIRE(world.RunUntil([&] { return sim::HasCondition(world.WorkloadOf("train"), "Admitted"); }));
  world.Create(SecondWorkload(world, "second", "train"));
  REQUIRE(world.RunUntil([&] { return world.Finished("train"); }, std::chrono::minutes(10)));
  REQUIRE(world.RunUntil([&] { return sim::HasCondition(world.WorkloadOf("train"), "Finished"); }));
  CHECK(stops.count() == 0);
  CHECK_FALSE(Gone(world, "second"));
  CHECK_FALSE(Messages(world, "WorkloadRefused").empty());
}

TEST_CASE("The name that a Job's Workload would have is taken by another's: the Job runs all the same") {
  World world;
  Process& scout = world.Start();
  world.MakeQueues("4");
  world.MakeJob("train", 2, 60);
  REQUIRE(world.RunUntil([&] { return !world.WorkloadOf("train").is_null(); }));
  const std::string name = Text(At(world.WorkloadOf("train"), "metadata", "name"));
  world.Kill(scout);
  world.Delete("workloads", "team", name);
  Json taken = SecondWorkload(world, name, "train");
  SECTION("of another Job") {
    const Json other = world.MakeJob("other", 1, 1, "");
    taken["metadata"]["ownerReferences"][0]["name"] = "other";
    taken["metadata"]["ownerReferences"][0]["uid"] = At(other, "metadata", "uid");
  }
  SECTION("of another kind") {
    taken["metadata"]["ownerReferences"][0]["apiVersion"] = "example.com/v1";
    taken["metadata"]["ownerReferences"][0]["kind"] = "Thing";
  }
  // Without a single pod it stays until the name is free.
  taken["spec"]["queueName"] = "nowhere";
  world.Create(taken);
  Stops stops(&world, "train");
  world.Start();
  REQUIRE(world.RunUntil([&] { return world.Finished("train"); }, std::chrono::minutes(10)));
  CHECK(stops.count() == 0);
  CHECK_FALSE(Messages(world, "WorkloadRefused").empty());
}

TEST_CASE("All Workloads beside a Job's own are deleted, though one of them cannot be") {
  World world;
  world.Start();
  world.MakeQueues("4");
  world.MakeJob("train", 2, 300);
  REQUIRE(world.RunUntil([&] { return sim::HasCondition(world.WorkloadOf("train"), "Admitted"); }));
  sim::FaultRule rule;
  rule.user = World::kMuster;
  rule.verbs = {"delete"};
  rule.resource = "workloads";
  rule.name = GENERATE("second-a", "second-c", "second-e");
  rule.times = -1;
  rule.fault.kind = sim::Fault::Kind::kAnswer;
  rule.fault.status = 403;
  world.server.faults().Add(rule);
  const std::vector<std::string> names = {"second-a", "second-b", "second-c", "second-d", "second-e"};
  for (const std::string& name : names) world.Create(SecondWorkload(world, name, "train"));
  world.RunFor(std::chrono::seconds(30));
  for (const std::string& name : names) {
    INFO(name);
    CHECK(Gone(world, name) == (name != rule.name));
  }
  CHECK(sim::HasCondition(world.WorkloadOf("train"), "Admitted"));
}

}  // namespace
}  // namespace muster::controller
