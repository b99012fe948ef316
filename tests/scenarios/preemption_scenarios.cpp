// Preemption, with pods that take time to end: who has to go, who gets the room, and that nothing goes round. What is
// right is kueue_semantics section 6; the numbers of user_pains stand at each.
#include <catch2/catch.hpp>

#include "muster/core/time.h"
#include "stage.h"

namespace muster::scenarios {
namespace {

const Json kWithin = {{"withinClusterQueue", "LowerPriority"}};
const Json kReclaim = {{"reclaimWithinCohort", "Any"}};

void MakeClasses(Stage& stage) {
  stage.MakeClass("low", 1);
  stage.MakeClass("middle", 5);
  stage.MakeClass("high", 9);
}

// One of a row of Jobs; the later ones are younger.
std::string Numbered(const std::string& name, int i) { return name + "-" + std::to_string(i); }

// 3 of 4 are used: 1 is missing.
SCENARIO_ON_WORLDS(in_queue,
                   "A higher priority takes the room of a lower one, once its pods have ended, and gives it back") {
  MakeClasses(stage);
  stage.MakeQueue({.quotas = {{.nominal = 4}}, .preemption = kWithin});
  stage.Submit({.name = "victim", .pods = 3, .dying = "2", .priority = "low"});
  stage.AwaitRunning("victim");
  stage.Submit({.name = "urgent", .pods = 2, .priority = "high"});
  stage.AwaitTold("WaitingForPreemptedWorkloads");
  stage.AwaitRunning("urgent");
  stage.AwaitStopped("victim");
  stage.AwaitWaiting("victim");
  CHECK(stage.Condition("victim", "Preempted") == "True/InClusterQueue");
  CHECK(stage.Condition("victim", "Requeued") == "True/Preempted");
  stage.Check("the victim waits");
  stage.Delete(stage.JobPath("urgent"));
  stage.AwaitRunning("victim");
  CHECK(stage.Condition("victim", "Evicted") == "False/QuotaReserved");
  CHECK(stage.Evictions("victim") == 1);
}

// The Workload is given its gate while the queue is stopped, before it could preempt anybody.
SCENARIO_ON_WORLDS(preemption_gated,
                   "Whose preemption gate is closed evicts nobody, and says so, until somebody opens it") {
  MakeClasses(stage);
  stage.MakeQueue({.quotas = {{.nominal = 4}}, .preemption = kWithin});
  stage.Submit({.name = "victim", .pods = 3, .dying = "1", .priority = "low"});
  stage.AwaitRunning("victim");
  stage.EditClusterQueue("cq", {{"stopPolicy", "Hold"}});
  stage.Submit({.name = "urgent", .pods = 2, .priority = "high"});
  stage.AwaitWaiting("urgent", "Suspended");
  const std::string path = "/apis/kueue.x-k8s.io/v1beta2/namespaces/" + stage.ns() + "/workloads/" +
                           Text(At(stage.Workload("urgent"), "metadata", "name"));
  Json gate = {{"name", "example.com/gate"}};
  stage.Patch(path, {{"spec", {{"preemptionGates", Json::array({gate})}}}});
  stage.world().Pass(std::chrono::seconds(3));  // nothing tells that the gate is known
  stage.EditClusterQueue("cq", {{"stopPolicy", "None"}});
  stage.AwaitWaiting("urgent", "AdmissionGated");
  CHECK(stage.Condition("urgent", "BlockedOnPreemptionGates") == "True/PreemptionGated");
  CHECK(stage.Condition("urgent", "muster.dev/Waiting") == "True/PreemptionGated");
  stage.world().Pass(std::chrono::seconds(3));
  CHECK(stage.Evictions("victim") == 0);
  gate["position"] = "Open";
  gate["lastTransitionTime"] = FormatTime(stage.world().Now());
  stage.Patch(path + "/status", {{"status", {{"preemptionGates", Json::array({gate})}}}});
  stage.AwaitRunning("urgent");
  CHECK(stage.Evictions("victim") == 1);
  CHECK(stage.Condition("urgent", "BlockedOnPreemptionGates").starts_with("False/"));
}

// B16: 4 x 1 go for one that needs 1; 3 are free for others, and the gang comes back whole.
SCENARIO_ON_WORLDS(gang_goes, "A gang goes as a whole, and comes back as a whole") {
  MakeClasses(stage);
  stage.MakeQueue({.quotas = {{.nominal = 4}}, .preemption = kWithin});
  stage.Submit({.name = "gang", .pods = 4, .dying = "1", .priority = "low"});
  stage.AwaitRunning("gang");
  stage.Submit({.name = "urgent", .priority = "high"});
  stage.AwaitRunning("urgent");
  stage.AwaitUsage("cq", 1);
  stage.Submit({.name = "small", .pods = 3, .priority = "low"});
  stage.AwaitRunning("small");
  for (const char* name : {"urgent", "small"}) stage.Delete(stage.JobPath(name));
  stage.AwaitRunning("gang");
  stage.AwaitUsage("cq", 4);
  CHECK(stage.Evictions("gang") == 1);
  CHECK(stage.Starts("gang") == 2);
}

// B6, B19, B20: "a" and "b" own 2 each, and "c" runs 4 of theirs. What is too large for "a" came first; "b" gets its
// own back from the two of "c" that came last.
SCENARIO_ON_WORLDS(reclaims, "An owner gets its own back from who borrowed last, whoever else waits in vain") {
  const auto make = [&](const std::string& name, int nominal) {
    stage.MakeQueue(
        {.name = name, .quotas = {{.nominal = nominal}}, .cohort = "all", .local_queue = name, .preemption = kReclaim});
  };
  make("a", 2);
  make("b", 2);
  make("c", 0);
  for (int i = 1; i <= 4; ++i) {
    stage.Submit({.name = Numbered("borrower", i), .queue = "c", .dying = "1"});
    stage.AwaitRunning(Numbered("borrower", i));
    stage.NextSecond();
  }
  stage.Submit({.name = "unfit", .pods = 8, .queue = "a"});
  stage.AwaitWaiting("unfit", "ExceedsMaxQuota");
  stage.Submit({.name = "owner", .pods = 2, .queue = "b"});
  stage.AwaitRunning("owner");
  for (int i = 1; i <= 4; ++i) {
    INFO(i);
    CHECK(stage.Starts(Numbered("borrower", i)) == 1);
    CHECK(stage.Evictions(Numbered("borrower", i)) == (i > 2 ? 1 : 0));
  }
  CHECK(stage.Condition("borrower-4", "Preempted") == "True/InCohortReclamation");
}

// B7, B9, B13: each of four makes room for one of four, who come one after the other; the pods of the first to go never
// end. For a fifth there is nobody left.
SCENARIO_ON_WORLDS(slow_victims, "Victims go side by side, once each; one that never goes holds up one Job") {
  MakeClasses(stage);
  constexpr int kJobs = 4;
  stage.MakeQueue({.quotas = {{.nominal = kJobs}}, .preemption = kWithin});
  for (int i = 1; i <= kJobs; ++i) {
    stage.Submit({.name = Numbered("victim", i), .dying = i == kJobs ? "100000" : "2", .priority = "low"});
    stage.AwaitRunning(Numbered("victim", i));
    stage.NextSecond();
  }
  for (int i = 1; i <= kJobs + 1; ++i) {
    stage.Submit({.name = Numbered("urgent", i), .priority = "high"});
    stage.NextSecond();
  }
  const auto running = [&] {
    int count = 0;
    for (int i = 1; i <= kJobs + 1; ++i) count += stage.Suspended(Numbered("urgent", i)) ? 0 : 1;
    return count;
  };
  stage.Await("all but one of those who have a victim run", [&] { return running() == kJobs - 1; });
  stage.Await("each victim is told of once", [&] { return stage.Told("Preempted") == kJobs; });
  CHECK(stage.Told("PreemptedWorkload") == kJobs);
  for (int i = 1; i <= kJobs; ++i) {
    CHECK(stage.Suspended(Numbered("victim", i)));
    CHECK(stage.Evictions(Numbered("victim", i)) == 1);
  }
  stage.AwaitWaiting(Numbered("urgent", kJobs + 1));
  stage.AwaitUsage("cq", kJobs);
}

// B14: while 2 end, 1 is free that the small one would fit into; in both kinds of queues.
SCENARIO_ON_WORLDS(room_is_kept, "What a preemptor waits for is given to nobody who is behind it") {
  MakeClasses(stage);
  for (const std::string strategy : {"StrictFIFO", "BestEffortFIFO"}) {
    const std::string queue = strategy == "StrictFIFO" ? "strict" : "best";
    stage.MakeQueue(
        {.name = queue, .quotas = {{.nominal = 3}}, .strategy = strategy, .local_queue = queue, .preemption = kWithin});
    stage.Submit({.name = queue + "-victim", .pods = 2, .queue = queue, .dying = "3", .priority = "low"});
    stage.AwaitRunning(queue + "-victim");
    stage.Submit({.name = queue + "-urgent", .pods = 3, .queue = queue, .priority = "high"});
    stage.AwaitTold("WaitingForPreemptedWorkloads", queue == "strict" ? 1 : 2);
    stage.Submit({.name = queue + "-small", .queue = queue, .priority = "middle"});
  }
  for (const std::string queue : {"strict", "best"}) {
    stage.AwaitRunning(queue + "-urgent");
    CHECK(stage.Starts(queue + "-small") == 0);
    CHECK(stage.Evictions(queue + "-victim") == 1);
  }
}

// Two want the room of the same two; it is enough for the one or the other.
SCENARIO_ON_WORLDS(same_victims, "Of two that would preempt the same, one waits, and nobody goes for it twice") {
  MakeClasses(stage);
  stage.MakeQueue({.quotas = {{.nominal = 4}}, .preemption = kWithin});
  for (const char* name : {"victim-1", "victim-2"}) {
    stage.Submit({.name = name, .pods = 2, .dying = "2", .priority = "low"});
    stage.AwaitRunning(name);
  }
  stage.Submit({.name = "first", .pods = 3, .priority = "high"});
  stage.NextSecond();
  stage.Submit({.name = "second", .pods = 3, .priority = "middle"});
  stage.AwaitRunning("first");
  stage.AwaitWaiting("second");
  CHECK(stage.Evictions("victim-1") + stage.Evictions("victim-2") == 2);
  stage.Delete(stage.JobPath("first"));
  stage.AwaitRunning("second");
  CHECK(stage.Evictions("victim-1") + stage.Evictions("victim-2") == 2);
}

// B4: "high" is above its nominal quota already, "low" within its own; nobody may take it from there.
SCENARIO_ON_WORLDS(above_nominal, "Who borrows takes nothing from who does not, and nothing goes round") {
  MakeClasses(stage);
  const Json preemption = {{"reclaimWithinCohort", "LowerPriority"},
                           {"withinClusterQueue", "LowerPriority"},
                           {"borrowWithinCohort", {{"policy", "LowerPriority"}, {"maxPriorityThreshold", 5}}}};
  for (const char* name : {"above", "within"}) {
    stage.MakeQueue(
        {.name = name, .quotas = {{.nominal = 2}}, .cohort = "all", .local_queue = name, .preemption = preemption});
  }
  stage.Submit({.name = "low", .queue = "within", .priority = "low"});
  stage.AwaitRunning("low");
  stage.Submit({.name = "high-1", .pods = 3, .queue = "above", .priority = "high"});
  stage.AwaitRunning("high-1");
  stage.Submit({.name = "high-2", .queue = "above", .priority = "high"});
  stage.AwaitWaiting("high-2");
  CHECK(stage.Evictions("low") == 0);
  CHECK(stage.Starts("high-2") == 0);
  // The owner of what is borrowed comes for it.
  stage.Submit({.name = "owner", .queue = "within", .priority = "low"});
  stage.AwaitWaiting("owner");
  stage.Delete(stage.JobPath("high-1"));
  stage.AwaitRunning("owner");
  stage.AwaitRunning("high-2");
  CHECK(stage.Evictions("low") == 0);
}

// B18: 4 are in use when the quota becomes 2. What then comes with a higher priority makes as much room as it needs.
SCENARIO_ON_WORLDS(lowered_quota, "A quota below what is in use evicts nobody; who preempts then makes up for it") {
  MakeClasses(stage);
  stage.MakeQueue({.quotas = {{.nominal = 4}}, .preemption = kWithin});
  for (int i = 1; i <= 4; ++i) {
    stage.Submit({.name = Numbered("low", i), .dying = "1", .priority = "low"});
    stage.AwaitRunning(Numbered("low", i));
    stage.NextSecond();
  }
  stage.SetQuota("cq", {{.nominal = 2}});
  stage.world().Pass(std::chrono::seconds(2));
  for (int i = 1; i <= 4; ++i) CHECK_FALSE(stage.Suspended(Numbered("low", i)));
  stage.AwaitUsage("cq", 4);
  // 4 + 1 of 2: the three that came last.
  stage.Submit({.name = "urgent", .priority = "high"});
  stage.AwaitRunning("urgent");
  stage.AwaitUsage("cq", 2);
  for (int i = 1; i <= 4; ++i) {
    INFO(i);
    CHECK(stage.Evictions(Numbered("low", i)) == (i > 1 ? 1 : 0));
  }
}

// The queue is drained while a victim still ends, and opened again; Muster dies in between.
SCENARIO_ON_WORLDS(drained_meanwhile,
                   "A queue that is drained while its victims leave starts its preemptor when it is opened") {
  MakeClasses(stage);
  stage.MakeQueue({.quotas = {{.nominal = 2}}, .preemption = kWithin});
  stage.Submit({.name = "victim", .pods = 2, .dying = "5", .priority = "low"});
  stage.AwaitRunning("victim");
  stage.Submit({.name = "urgent", .pods = 2, .priority = "high"});
  stage.AwaitTold("WaitingForPreemptedWorkloads");
  stage.EditClusterQueue("cq", {{"stopPolicy", "HoldAndDrain"}});
  stage.Crash();
  stage.AwaitStopped("victim");
  stage.AwaitUsage("cq", 0);
  CHECK(stage.Starts("urgent") == 0);
  stage.EditClusterQueue("cq", {{"stopPolicy", "None"}});
  stage.AwaitRunning("urgent");
  CHECK(stage.Condition("victim", "Evicted") == "True/Preempted");
  CHECK(stage.Evictions("victim") == 1);
}

}  // namespace
}  // namespace muster::scenarios
