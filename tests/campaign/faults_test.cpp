// Each write of Muster's is made to fail in each way, on the real API server: every Job ends, none starts more often
// than it was told to, and what Muster says afterwards is what a recount says.
#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "fixture/text.h"
#include "world.h"

namespace muster::campaign {
namespace {

using cluster::Answer;
using cluster::Cat;
using cluster::Fault;
using cluster::FaultProxy;
using cluster::Match;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr const char* kUrgent = "urgent";

struct Way {
  const char* name;
  Fault fault;
  int count = 2;  // how often it strikes
};

// A write that gets no answer is given up after 4 + 2 s (the lease of 15 s, renewed within 10 s).
std::vector<Way> Ways() {
  return {{"refuse", cluster::Refuse()},
          {"hang", cluster::Hang(), 1},
          {"delay", cluster::Delay(seconds(2))},
          {"delay-too-long", cluster::Delay(seconds(8)), 1},  // applied after it was given up
          {"403", Answer(403)},
          {"409", Answer(409)},
          {"422", Answer(422)},
          {"429", Answer(429, 1)},
          {"500", Answer(500)},
          {"503", Answer(503, 1)},
          {"lose-answer", cluster::LoseAnswer()},
          {"late-answer", cluster::DelayAnswer(seconds(2))},
          {"too-late-answer", cluster::DelayAnswer(seconds(8)), 1},
          {"garbage", cluster::Garbage()},
          {"bad-body", cluster::BadBody()}};
}

// How its Job has to be stopped once for the write to be made.
enum class Stop : uint8_t { kNever, kDrained, kPreempted };

struct Kind {
  const char* name;
  Match (*match)(const std::string& ns, const std::string& job);
  Stop stop = Stop::kNever;
};

constexpr Kind kKinds[] = {{"start", StartPatch},
                           {"create", WorkloadCreate},
                           {"status", WorkloadStatus},
                           {"stop", StopPatch, Stop::kDrained},
                           {"restore", RestorePatch, Stop::kDrained},
                           {"preempt", StopPatch, Stop::kPreempted},
                           {"preempt-restore", RestorePatch, Stop::kPreempted}};

// One write to fail in one way, in a namespace of its own.
struct Case {
  enum class Phase : uint8_t { kStarts, kStops, kStartsAgain, kEnds };

  std::string ns;
  Stop stop = Stop::kNever;
  FaultProxy::RuleId rule = 0;
  Phase phase = Phase::kEnds;
};

std::vector<Case> Prepare(World& world) {
  std::vector<Case> cases;
  for (const Kind& kind : kKinds) {
    for (const Way& way : Ways()) {
      const std::string ns = Cat("fault-", kind.name, "-", way.name);
      world.MakeQueue(ns, 2);
      if (kind.stop == Stop::kPreempted) {
        world.PatchClusterQueue(ns, R"({"preemption": {"withinClusterQueue": "LowerPriority"}})");
      }
      cases.push_back({ns, kind.stop, world.proxy().Add(kind.match(ns, "it"), way.fault, 0, way.count),
                       kind.stop == Stop::kNever ? Case::Phase::kEnds : Case::Phase::kStarts});
    }
  }
  return cases;
}

// Whoever is to be stopped is stopped while it runs, and may start again once it is restored: the next start would do
// that as well.
void Drive(World& world, Case& c) {
  const auto runs = [&](const char* job) {
    const Json seen = world.watched().Job(c.ns, job);
    return !seen.At("spec/suspend").Bool(true) && seen.At("status/ready").Int() == 2;
  };
  const bool preempted = c.stop == Stop::kPreempted;
  switch (c.phase) {
    case Case::Phase::kStarts:
      if (!runs("it")) return;
      if (preempted) {
        world.Submit(c.ns, {.name = "next", .pods = 2, .run_seconds = kUntilLet, .priority = kUrgent});
      } else {
        world.Drain(c.ns);
      }
      c.phase = Case::Phase::kStops;
      return;
    case Case::Phase::kStops:
      if (!world.Restored(c.ns, "it") || (preempted && !runs("next"))) return;
      preempted ? world.LetEnd(c.ns, "next") : world.Reopen(c.ns);
      c.phase = Case::Phase::kStartsAgain;
      return;
    case Case::Phase::kStartsAgain:
      if (!runs("it")) return;
      world.LetEnd(c.ns, "it");
      c.phase = Case::Phase::kEnds;
      return;
    case Case::Phase::kEnds:
      return;
  }
}

void Judge(World& world, const Case& c, const std::string& metrics) {
  INFO(c.ns);
  CHECK(world.proxy().Hits(c.rule) >= 1);
  const int starts = c.stop == Stop::kNever ? 1 : 2;
  CHECK(world.watched().Starts(c.ns, "it") == starts);
  CHECK(world.watched().Starts(c.ns, "next") == 1);
  CHECK(world.watched().MostGpus(c.ns) == 2);
  const Json workload = world.Workload(c.ns, "it");
  INFO(workload.At("status").Dump());
  CHECK(World::Evictions(workload) == starts - 1);
  CHECK(workload.At("status/conditions").Find("type", "Finished")["reason"].Str() == "Succeeded");
  const auto counter = [&](const char* name) {
    return cluster::Metric(metrics, name, {{"cluster_queue", c.ns}}).value_or(0);
  };
  CHECK(counter("kueue_admitted_workloads_total") == starts + 1);
  CHECK(counter("kueue_evicted_workloads_total") == starts - 1);
  CHECK(counter("kueue_finished_workloads_total") == 2);
  const std::map<std::string, std::string> preempting = {{"preempting_cluster_queue", c.ns}};
  CHECK(cluster::Metric(metrics, "kueue_preempted_workloads_total", preempting).value_or(0) ==
        (c.stop == Stop::kPreempted ? 1 : 0));
}

TEST_CASE("Every write may fail in every way: every Job ends, and none starts twice") {
  World& world = Shared();
  const Run run;
  const int restarts = world.restarts();
  world.MakeClass(kUrgent, 1);
  std::vector<Case> cases = Prepare(world);
  for (const Case& c : cases) {
    world.Submit(c.ns, {.name = "it", .pods = 2, .run_seconds = c.stop == Stop::kNever ? "1" : kUntilLet});
    // Has room only when the other has gone.
    if (c.stop != Stop::kPreempted) world.Submit(c.ns, {.name = "next", .pods = 2});
  }
  REQUIRE(world.Await([&] {
    for (Case& c : cases) Drive(world, c);
    return std::all_of(cases.begin(), cases.end(), [](const Case& c) { return c.phase == Case::Phase::kEnds; });
  }));
  for (const Case& c : cases) REQUIRE(world.AwaitEnd(c.ns));
  std::vector<std::string> namespaces;
  for (const Case& c : cases) namespaces.push_back(c.ns);
  world.CheckRecount(namespaces);
  // Counters are those of one process.
  REQUIRE(world.restarts() == restarts);
  const std::string metrics = world.muster().Metrics();
  for (const Case& c : cases) Judge(world, c, metrics);
}

// The lease is lost at the second failure in a row that lasts: then the process ends, and another takes over.
TEST_CASE("Writes of the lease may fail in every way, and while nobody leads gangs run on") {
  World& world = Shared();
  const Run run(Lease::kHasty);
  world.MakeQueue("lease", 4);
  world.Submit("lease", {.name = "runs", .pods = 2, .run_seconds = kUntilLet});
  REQUIRE(world.Await([&] { return world.Running("lease", "runs"); }));
  int i = 0;
  std::vector<Way> ways = Ways();
  if (!Long()) {
    // The lease has no other answer to these than to the rest.
    const std::set<std::string_view> alike = {"403", "422", "503", "delay", "late-answer"};
    std::erase_if(ways, [&](const Way& way) { return alike.contains(way.name); });
  }
  for (const Way& way : ways) {
    INFO(way.name);
    REQUIRE(world.Await([&] { return World::Leads(world.muster()); }));
    const FaultProxy::RuleId rule = world.proxy().Add(LeaseUpdate(), way.fault, 0, way.count);
    world.Submit("lease", {.name = Cat("job-", i++), .pods = 1 + i % 2});
    REQUIRE(world.Await([&] { return world.proxy().Hits(rule) >= way.count; }));
    world.proxy().Remove(rule);
  }
  // For good: leadership is lost.
  const int restarts = world.restarts();
  const FaultProxy::RuleId rule = world.proxy().Add(LeaseUpdate(), Answer(503), 0, FaultProxy::kForEver);
  world.Submit("lease", {.name = "meanwhile", .pods = 2});
  REQUIRE(world.Await([&] { return world.restarts() > restarts; }));
  world.proxy().Remove(rule);
  world.LetEnd("lease", "runs");
  REQUIRE(world.AwaitEnd("lease"));
  world.CheckRecount({"lease"});
  CHECK(world.watched().Starts("lease", "runs") == 1);
  CHECK(world.watched().Starts("lease", "meanwhile") == 1);
  for (int j = 0; j < i; ++j) CHECK(world.watched().Starts("lease", Cat("job-", j)) == 1);
  CHECK(world.watched().MostGpus("lease") <= 4);
}

Match WatchOf(std::string_view plural) { return {.method = "WATCH", .target = Cat("/", plural, "\\?")}; }

TEST_CASE("Watches may be cut within a line, say 410 in both forms, or send garbage") {
  World& world = Shared();
  const Run run(Lease::kHasty);
  world.MakeQueue("watch", 4);
  REQUIRE(world.Await([&] { return World::Leads(world.muster()); }));
  constexpr std::string_view kWatched[] = {"jobs", "workloads", "clusterqueues", "localqueues"};
  const std::pair<const char*, Fault> ways[] = {{"cut-line", cluster::CutLine()},
                                                {"gone-line", cluster::GoneLine()},
                                                {"garbage-line", cluster::GarbageLine()},
                                                {"gone-answer", Answer(410)}};
  for (const auto& [name, fault] : ways) {
    INFO(name);
    std::vector<FaultProxy::RuleId> rules;
    for (const std::string_view plural : kWatched) rules.push_back(world.proxy().Add(WatchOf(plural), fault));
    // A watch that runs is told by a line; the answer to a request needs one.
    if (fault.kind == Fault::Kind::kAnswer) world.proxy().BreakConnections();
    for (int i = 0; i < 4; ++i) {
      world.Submit("watch", {.name = Cat(name, "-", i), .pods = 1 + i % 3});
    }
    const auto struck = [&world](FaultProxy::RuleId rule) { return world.proxy().Hits(rule) == 1; };
    REQUIRE(world.Await([&] { return std::all_of(rules.begin(), rules.end(), struck); }));
  }
  REQUIRE(world.AwaitEnd("watch"));
  world.CheckRecount({"watch"});
  for (const auto& [name, fault] : ways) {
    for (int i = 0; i < 4; ++i) CHECK(world.watched().Starts("watch", Cat(name, "-", i)) == 1);
  }
  CHECK(world.watched().MostGpus("watch") <= 4);
  CHECK(world.muster().HealthText("/readyz?verbose").find("watch of") == std::string::npos);
}

TEST_CASE("While the API server cannot be reached nothing is lost") {
  World& world = Shared();
  const Run run(Lease::kHasty);
  world.MakeQueue("away", 4);
  world.Submit("away", {.name = "runs", .pods = 2, .run_seconds = kUntilLet});
  REQUIRE(world.Await([&] { return world.Running("away", "runs"); }));
  world.proxy().StopListening();
  for (int i = 0; i < 4; ++i) world.Submit("away", {.name = Cat("job-", i), .pods = 2});
  world.LetEnd("away", "runs");
  REQUIRE(world.Await([&] { return world.Ended("away", "runs"); }));
  REQUIRE(world.proxy().ListenAgain().ok());
  REQUIRE(world.AwaitEnd("away"));
  world.CheckRecount({"away"});
  CHECK(world.watched().Starts("away", "runs") == 1);
  for (int i = 0; i < 4; ++i) CHECK(world.watched().Starts("away", Cat("job-", i)) == 1);
  CHECK(world.watched().MostGpus("away") <= 4);
}

}  // namespace
}  // namespace muster::campaign
