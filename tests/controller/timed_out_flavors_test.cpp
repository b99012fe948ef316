// Gangs whose pods do not get ready with a flavor: which one they are started with next, what their Workloads tell of
// it, and what the next process knows of it. What is right is user_pains I6 and docs/configuration.md.
#include "muster/controller/timed_out_flavors.h"

#include <catch2/catch.hpp>

#include "each_write.h"
#include "muster/core/time.h"
#include "world.h"

namespace muster::controller {
namespace {

using sim::At;
using sim::Json;
using sim::Number;
using sim::Text;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr int64_t kSecond = 1'000'000'000;

Options PassingOver(Duration time, std::optional<int32_t> limit = std::nullopt) {
  Options options = World::DefaultOptions();
  options.wait_for_pods_ready.emplace();
  options.wait_for_pods_ready->timeout = seconds(60);
  options.wait_for_pods_ready->backoff_base = seconds(30);
  options.wait_for_pods_ready->backoff_max = seconds(30);
  options.wait_for_pods_ready->backoff_limit_count = limit;
  options.pass_over_timed_out = time;
  return options;
}

// The ClusterQueue "cq" has 2 cpu of each of these, in that order.
void MakeStock(World& world) {
  world.MakeQueues("2");
  Json flavors = Json::array();
  for (const char* name : {"reserved", "on-demand", "spot"}) {
    Json flavor = Json::parse(R"({"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"ResourceFlavor","metadata":{}})");
    flavor["metadata"]["name"] = name;
    flavor["spec"]["nodeLabels"]["tier"] = name;
    world.Create(std::move(flavor));
    Json quotas = Json::parse(R"({"resources":[{"name":"cpu","nominalQuota":"2"}]})");
    quotas["name"] = name;
    flavors.push_back(std::move(quotas));
  }
  Json groups = Json::array();
  groups.push_back({{"coveredResources", {"cpu"}}, {"flavors", std::move(flavors)}});
  world.Patch("clusterqueues", "", "cq", {{"spec", {{"resourceGroups", std::move(groups)}}}});
  world.AwaitActive("clusterqueues", "", "cq");
}

// Its pods never get ready. `prebuilt`: its Workload is there before it, and holds the record of its admission.
void SubmitStuck(World& world, const std::string& name, bool prebuilt = false) {
  Json merge = Json::object();
  merge["spec"]["template"]["metadata"]["annotations"]["muster.dev/start-seconds"] = "1000000";
  if (prebuilt) {
    Json workload = Json::parse(R"({"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"Workload",
      "metadata":{"namespace":"team","name":"own"},"spec":{"active":true,"queueName":"lq","podSets":[{"name":"main",
      "count":2,"template":{"spec":{"restartPolicy":"Never","containers":[
        {"name":"main","image":"work:1","resources":{"requests":{"cpu":"1"}}}]}}}]}})");
    world.Create(std::move(workload));
    merge["metadata"]["annotations"]["kueue.x-k8s.io/prebuilt-workload-name"] = "own";
  }
  world.MakeJob(name, 2, 36000, "lq", merge);
}

void AwaitSuspended(World& world, const std::string& job, bool suspended) {
  REQUIRE(world.RunUntil([&] { return Suspended(world, job) == suspended; }, minutes(30)));
}
// The flavor whose nodes its pods may go to, as it runs.
std::string FlavorOf(World& world, const std::string& job) {
  AwaitSuspended(world, job, false);
  return Text(At(world.Get("jobs", "team", job), "spec", "template", "spec", "nodeSelector", "tier"));
}
// Of all attempts, until one is not stopped within so many.
std::vector<std::string> FlavorsOf(World& world, const std::string& job, int attempts) {
  std::vector<std::string> out;
  for (int i = 0; i < attempts; ++i) {
    out.push_back(FlavorOf(world, job));
    AwaitSuspended(world, job, true);
  }
  return out;
}
Json Condition(const World& world, const std::string& job, const std::string& type) {
  const Json workload = world.WorkloadOf(job);
  return sim::FindCondition(At(workload, "status", "conditions"), type);
}
TimedOutFlavors Told(const World& world, const std::string& job) {
  return ReadTimedOutMessage(Text(sim::Get(Condition(world, job, "muster.dev/FlavorsTimedOut"), "message")));
}
std::vector<std::pair<std::string, int32_t>> CountsOf(const TimedOutFlavors& told) {
  std::vector<std::pair<std::string, int32_t>> out;
  for (const TimedOutFlavor& entry : told.flavors) out.emplace_back(entry.flavor, entry.count);
  return out;
}
using Counts = std::vector<std::pair<std::string, int32_t>>;

engine::Admission Admitted(const std::string& pod_set,
                           const std::vector<std::pair<std::string, std::string>>& flavors) {
  return {"cq", {{pod_set, 2, flavors, {}}}};
}

}  // namespace

// ---- the rules ------------------------------------------------------------------------------------

TEST_CASE("Each flavor of an admission is counted once, and what is forgotten is not") {
  const WallTime t{1'000 * kSecond + 5};
  TimedOutFlavors known =
      AddTimeOut({}, Admitted("main", {{"cpu", "a"}, {"gpu", "g"}, {"memory", "a"}}), t, t, {2'000 * kSecond + 7});
  const WallTime second{1'000 * kSecond};
  CHECK(known == TimedOutFlavors{{{"main", "a", 1, second}, {"main", "g", 1, second}}, {2'000 * kSecond}});
  known = AddTimeOut(known, Admitted("main", {{"cpu", "b"}, {"gpu", "g"}}), {1'999 * kSecond}, {2'500 * kSecond},
                     {3'000 * kSecond});
  const WallTime later{2'500 * kSecond};
  CHECK(known == TimedOutFlavors{{{"main", "a", 1, second}, {"main", "b", 1, later}, {"main", "g", 2, later}},
                                 {3'000 * kSecond}});
  CHECK(Remembered(known, {3'000 * kSecond - 1}) ==
        std::vector<engine::FlavorTimeOuts>{{"main", "a", 1}, {"main", "b", 1}, {"main", "g", 2}});
  CHECK(Remembered(known, {3'000 * kSecond}).empty());
  known = AddTimeOut(known, Admitted("main", {{"cpu", "b"}}), {3'000 * kSecond}, {3'500 * kSecond}, {4'000 * kSecond});
  CHECK(known == TimedOutFlavors{{{"main", "b", 1, {3'500 * kSecond}}}, {4'000 * kSecond}});
}

TEST_CASE("What is told of flavors is read again, and nothing else is taken for it") {
  const TimedOutFlavors known{{{"main", "on-demand", 1, {1'000 * kSecond}}, {"main", "reserved", 12, {500 * kSecond}}},
                              {2'000 * kSecond}};
  const std::string message = TimedOutMessage(known);
  CHECK(message ==
        "main on on-demand: 1 time(s), last at 1970-01-01T00:16:40Z; main on reserved: 12 time(s), last at "
        "1970-01-01T00:08:20Z; other flavors go first until 1970-01-01T00:33:20Z");
  CHECK(ReadTimedOutMessage(message) == known);
  for (const std::string& other :
       {std::string(), std::string("; "), std::string("other flavors go first until tomorrow"), message.substr(1, 90),
        message + "x", "x; " + message,
        std::string("main on a: 0 time(s), last at 1970-01-01T00:16:40Z; other flavors go first until "
                    "1970-01-01T00:33:20Z"),
        std::string("main on a: 99999999999 time(s), last at 1970-01-01T00:16:40Z; other flavors go first until "
                    "1970-01-01T00:33:20Z")}) {
    INFO(other);
    CHECK(ReadTimedOutMessage(other) == TimedOutFlavors());
  }
}

// ---- what comes of it -----------------------------------------------------------------------------

TEST_CASE("A gang is started with one flavor after the other, and then with the first again") {
  World world;
  // Also one that is over before the pods have had their time: what counts is when it was started.
  const Duration time = GENERATE(Duration(minutes(10)), Duration(seconds(20)), Duration(0));
  const bool on = time > Duration(0);
  const bool prebuilt = GENERATE(false, true);
  world.Start("", PassingOver(time));
  MakeStock(world);
  SubmitStuck(world, "stuck", prebuilt);
  using Flavors = std::vector<std::string>;
  if (!on) {
    // As in the reference.
    CHECK(FlavorsOf(world, "stuck", 3) == Flavors{"reserved", "reserved", "reserved"});
    CHECK(Condition(world, "stuck", "muster.dev/FlavorsTimedOut").is_null());
    return;
  }
  CHECK(FlavorsOf(world, "stuck", 5) == Flavors{"reserved", "on-demand", "spot", "reserved", "on-demand"});
  world.RunFor(seconds(10));
  const Json condition = Condition(world, "stuck", "muster.dev/FlavorsTimedOut");
  CHECK(Text(sim::Get(condition, "status")) == "True");
  CHECK(Text(sim::Get(condition, "reason")) == "PodsReadyTimeout");
  const TimedOutFlavors told = Told(world, "stuck");
  CHECK(CountsOf(told) == Counts{{"on-demand", 2}, {"reserved", 2}, {"spot", 1}});
  // So long after the pause.
  const auto again = ParseTime(Text(At(world.WorkloadOf("stuck"), "status", "requeueState", "requeueAt")));
  REQUIRE(again.ok());
  CHECK(told.until - *again == time);
  CHECK(told.flavors[0].last > told.flavors[1].last);
  CHECK(told.flavors[1].last > told.flavors[2].last);
}

// 15 s are left of the pause when the process dies.
TEST_CASE("Which flavors those were outlives the process, wherever it is written") {
  World world;
  const Options options = PassingOver(minutes(10));
  Process& first = world.Start("", options);
  MakeStock(world);
  SubmitStuck(world, "stuck");
  REQUIRE(FlavorOf(world, "stuck") == "reserved");
  AwaitSuspended(world, "stuck", true);
  const bool at_once = GENERATE(true, false);  // the Job's record alone tells of it
  if (!at_once) world.RunFor(seconds(15));
  world.Kill(first);
  REQUIRE(At(world.Get("jobs", "team", "stuck"), "metadata", "annotations").contains("muster.dev/admission") ==
          at_once);
  Process& second = world.Start("", options);
  CHECK(FlavorOf(world, "stuck") == "on-demand");
  world.RunFor(seconds(10));
  CHECK(CountsOf(Told(world, "stuck")) == Counts{{"reserved", 1}});
  // And while it runs.
  world.Kill(second);
  world.Start("", options);
  AwaitSuspended(world, "stuck", true);
  CHECK(FlavorOf(world, "stuck") == "spot");
  CHECK(CountsOf(Told(world, "stuck")) == Counts{{"on-demand", 1}, {"reserved", 1}});
}

TEST_CASE("While the others are in use it waits for them, and says so, until its time-outs are forgotten") {
  World world;
  const Options options = PassingOver(minutes(5));
  Process& first = world.Start("", options);
  MakeStock(world);
  SubmitStuck(world, "stuck");
  REQUIRE(FlavorOf(world, "stuck") == "reserved");
  for (const char* name : {"on-demand", "spot"}) {
    world.MakeJob(name, 2, 36000);
    REQUIRE(FlavorOf(world, name) == name);
  }
  AwaitSuspended(world, "stuck", true);
  world.RunFor(seconds(90));
  const WallTime until = Told(world, "stuck").until;
  CHECK(Suspended(world, "stuck"));
  CHECK(Text(sim::Get(Condition(world, "stuck", "QuotaReserved"), "message")) ==
        "couldn't assign flavors to pod set main: flavor reserved is passed over since its pods were not ready in time "
        "there (once), insufficient unused quota for cpu in flavor on-demand, 2 more needed, insufficient unused quota "
        "for cpu in flavor spot, 2 more needed");
  CHECK(Text(sim::Get(Condition(world, "stuck", "muster.dev/Waiting"), "reason")) == "QuotaInUse");
  const size_t before = world.server.writes().size();
  if (GENERATE(false, true)) {
    world.Kill(first);
    world.Start("", options);
  }
  world.RunFor(minutes(3));
  CHECK(world.Writes(before).empty());
  CHECK(FlavorOf(world, "stuck") == "reserved");
  CHECK(world.executor.Now() - until >= Duration(0));
  CHECK(world.executor.Now() - until < Duration(seconds(5)));
  // What is forgotten does not count when it is out of time once more.
  AwaitSuspended(world, "stuck", true);
  world.RunFor(seconds(10));
  CHECK(CountsOf(Told(world, "stuck")) == Counts{{"reserved", 1}});
}

TEST_CASE("Another eviction does not make it forget, and a deactivation does, but tells of it") {
  World world;
  world.Start("", PassingOver(minutes(30), 1));
  MakeStock(world);
  SubmitStuck(world, "stuck");
  REQUIRE(FlavorsOf(world, "stuck", 1) == std::vector<std::string>{"reserved"});
  REQUIRE(FlavorOf(world, "stuck") == "on-demand");
  world.RunFor(seconds(5));
  world.Patch("clusterqueues", "", "cq", {{"spec", {{"stopPolicy", "HoldAndDrain"}}}});
  AwaitSuspended(world, "stuck", true);
  world.RunFor(seconds(10));
  CHECK(Text(sim::Get(Condition(world, "stuck", "Evicted"), "reason")) == "ClusterQueueStopped");
  CHECK(CountsOf(Told(world, "stuck")) == Counts{{"reserved", 1}});
  world.Patch("clusterqueues", "", "cq", {{"spec", {{"stopPolicy", "None"}}}});
  CHECK(FlavorOf(world, "stuck") == "on-demand");
  // The second time is one too many.
  AwaitSuspended(world, "stuck", true);
  world.RunFor(seconds(10));
  const Json workload = world.WorkloadOf("stuck");
  REQUIRE_FALSE(sim::Flag(At(workload, "spec", "active"), true));
  CHECK(CountsOf(Told(world, "stuck")) == Counts{{"on-demand", 1}, {"reserved", 1}});
  world.Patch("workloads", "team", Text(At(workload, "metadata", "name")), {{"spec", {{"active", true}}}});
  CHECK(FlavorOf(world, "stuck") == "reserved");
  AwaitSuspended(world, "stuck", true);
  world.RunFor(seconds(10));
  CHECK(CountsOf(Told(world, "stuck")) == Counts{{"reserved", 1}});
}

// Killed before or after each write that it makes on the way; the next process finds everything.
TEST_CASE("The process may be killed at any write on the way from one flavor to the next") {
  const auto play = [](int point, sim::SimServer::Phase phase) {
    // They outlive the world that tells them.
    std::vector<std::string> flavors;
    bool suspended = true;
    World world(static_cast<uint64_t>(point) + 1);
    const Options options = PassingOver(minutes(10));
    Process& first = world.Start("", options);
    MakeStock(world);
    const WriteCounter writes(&world, phase);
    world.store.Subscribe([&](const sim::Change& change) {
      if (change.kind->plural != "jobs" || change.type == sim::Change::Type::kDeleted) return;
      const bool now = sim::Flag(At(*change.object, "spec", "suspend"));
      if (suspended && !now) {
        flavors.push_back(Text(At(*change.object, "spec", "template", "spec", "nodeSelector", "tier")));
      }
      suspended = now;
    });
    SubmitStuck(world, "stuck");
    world.RunUntil([&] { return writes.seen() > point || flavors.size() == 4; }, minutes(10));
    if (writes.seen() <= point) return false;
    world.Kill(first);
    world.RunFor(seconds(6));
    Process& second = world.Start("", options);
    CHECK(world.RunUntil([&] { return flavors.size() == 4; }, minutes(20)));
    world.RunFor(seconds(20));
    second.controller->engine()->Validate();
    CHECK(flavors == std::vector<std::string>{"reserved", "on-demand", "spot", "reserved"});
    return true;
  };
  const int points = PlayEachWrite(play);
  // Four starts, three stops and restorations, and what the Workload tells of each.
  CHECK(points >= 20);
}

}  // namespace muster::controller
