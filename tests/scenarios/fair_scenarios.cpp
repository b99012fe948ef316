// Fair sharing: who borrows most gives way to who would borrow less, and nothing goes round. What is right is
// kueue_semantics 5.8 and 6.3; the numbers of user_pains stand at each.
#include <catch2/catch.hpp>

#include "stage.h"

namespace muster::scenarios {
namespace {

const Json kReclaim = {{"reclaimWithinCohort", "Any"}};

// Four Jobs of two each in "p1", one a second, fill the eight that the cohort has; no queue has quota of its own.
void FillByFirst(Stage& stage) {
  stage.MakeCohort("all", "", {{.nominal = 8}});
  for (const char* name : {"p1", "p2"}) {
    stage.MakeQueue(
        {.name = name, .quotas = {{.nominal = 0}}, .cohort = "all", .local_queue = name, .preemption = kReclaim});
  }
  for (const char* name : {"a1", "a2", "a3", "a4"}) {
    stage.Submit({.name = name, .pods = 2, .queue = "p1", .dying = "1"});
    stage.AwaitRunning(name);
    stage.NextSecond();
  }
}

int EvictionsOfFirst(Stage& stage) {
  int sum = 0;
  for (const char* name : {"a1", "a2", "a3", "a4"}) sum += stage.Evictions(name);
  return sum;
}

// B3: with 6 or 5 of 8 "p2" would have more than what is left to "p1"; with 4 both have the same.
SCENARIO_ON_WORLDS(equal_shares, "Two queues of equal weight end with equal shares, and neither evicts back") {
  stage.Configure("fairSharing: {preemptionStrategies: [LessThanOrEqualToFinalShare]}\n");
  FillByFirst(stage);
  stage.Submit({.name = "six", .pods = 6, .queue = "p2"});
  stage.AwaitWaiting("six");
  stage.NextSecond();
  stage.Submit({.name = "five", .pods = 5, .queue = "p2"});
  stage.AwaitWaiting("five");
  stage.NextSecond();
  stage.Submit({.name = "four", .pods = 4, .queue = "p2"});
  stage.AwaitRunning("four");
  stage.NextSecond();
  stage.Submit({.name = "three", .pods = 3, .queue = "p2"});
  stage.AwaitWaiting("three");
  for (const char* name : {"a3", "a4"}) {
    CHECK(stage.Condition(name, "Preempted") == "True/InCohortFairSharing");
  }
  stage.world().Pass(std::chrono::seconds(3));
  stage.AwaitUsage("p1", 4, 4);
  stage.AwaitUsage("p2", 4, 4);
  CHECK(EvictionsOfFirst(stage) == 2);
  CHECK(stage.Evictions("four") == 0);
}

// B11: "a" owns the gpus, which "b" uses, and has borrowed four times as many cpus as it has itself.
SCENARIO_ON_WORLDS(owned_gpus, "What a queue owns is claimed back whatever else it borrows") {
  stage.Configure("fairSharing: {preemptionStrategies: [LessThanOrEqualToFinalShare]}\n");
  const std::string gpu = "nvidia.com/gpu";
  const auto make = [&](const std::string& name, int cpus, int gpus) {
    stage.MakeQueue({.name = name,
                     .quotas = {{.nominal = cpus}, {.nominal = gpus, .resource = gpu}},
                     .cohort = "all",
                     .local_queue = name,
                     .preemption = kReclaim});
  };
  make("a", 1, 2);
  make("b", 7, 0);
  const auto submit = [&](const JobSpec& spec) {
    Json job = Stage::JobObject(spec);
    Json& resources = job["spec"]["template"]["spec"]["containers"][0]["resources"];
    resources["requests"][gpu] = resources["limits"][gpu] = "1";
    stage.Post(stage.JobsPath(), job);
    stage.AwaitRunning(spec.name);
  };
  stage.Submit({.name = "borrows-cpus", .pods = 4, .queue = "a"});
  stage.AwaitRunning("borrows-cpus");
  submit({.name = "borrows-gpus", .pods = 2, .queue = "b", .dying = "1"});
  stage.AwaitUsage("b", 2, 2, "a", gpu);
  submit({.name = "owner", .pods = 2, .queue = "a"});
  CHECK(stage.Condition("borrows-gpus", "Preempted") == "True/InCohortReclamation");
  CHECK(stage.Evictions("borrows-gpus") == 1);
  CHECK(stage.Evictions("borrows-cpus") == 0);
  stage.AwaitUsage("a", 2, 0, "a", gpu);
}

// "p2" weighs three times as much: 6 of 8 are to it what 2 are to "p1".
SCENARIO_ON_WORLDS(weighted_shares, "A queue of three times the weight gets three times as much") {
  stage.Configure("fairSharing: {preemptionStrategies: [LessThanOrEqualToFinalShare]}\n");
  FillByFirst(stage);
  stage.EditClusterQueue("p2", {{"fairSharing", {{"weight", "3"}}}});
  for (const char* name : {"b1", "b2", "b3"}) {
    stage.Submit({.name = name, .pods = 2, .queue = "p2"});
    stage.AwaitRunning(name);
    stage.NextSecond();
  }
  stage.Submit({.name = "b4", .pods = 2, .queue = "p2"});
  stage.AwaitWaiting("b4");
  stage.world().Pass(std::chrono::seconds(3));
  stage.AwaitUsage("p1", 2, 2);
  stage.AwaitUsage("p2", 6, 6);
  CHECK(stage.Evictions("a1") == 0);
  CHECK(EvictionsOfFirst(stage) == 3);
}

}  // namespace
}  // namespace muster::scenarios
