// Gangs whose pods do not get ready, or do not recover.
// What is right is kueue_semantics 7.1, and docs/kueue-compatibility.md where Muster differs.
#include <catch2/catch.hpp>

#include "stage.h"

namespace muster::scenarios {
namespace {

constexpr const char* kNever = "36000";  // seconds until a pod is ready

SCENARIO_ON_WORLDS(pods_never_ready,
                   "A gang whose pods do not get ready makes way, is tried again after a pause, and then no more, "
                   "whoever leads") {
  stage.Configure(
      "waitForPodsReady: {timeout: 3s, requeuingStrategy: {backoffBaseSeconds: 2, backoffLimitCount: 1}}\n");
  stage.MakeQueue({.quotas = {{.nominal = 1}}});
  stage.Submit({.name = "stuck", .start = kNever});
  stage.AwaitRunning("stuck");
  stage.NextSecond();
  stage.Submit({.name = "next"});
  stage.AwaitRunning("next");
  CHECK(stage.Suspended("stuck"));
  stage.Crash();
  stage.Await("its pause is over", [&] { return stage.Condition("stuck", "Requeued") == "True/BackoffFinished"; });
  CHECK(stage.Condition("stuck", "Evicted") == "True/PodsReadyTimeout");
  CHECK(stage.Starts("stuck") == 1);
  stage.Delete(stage.JobPath("next"));
  stage.AwaitRunning("stuck");
  CHECK(Number(At(stage.Workload("stuck"), "status", "requeueState", "count")) == 1);
  stage.Crash();
  stage.Await("it is deactivated", [&] { return stage.Condition("stuck", "QuotaReserved") == "False/Deactivated"; });
  stage.AwaitStopped("stuck");
  CHECK(stage.Condition("stuck", "Evicted") == "True/DeactivatedDueToRequeuingLimitExceeded");
  CHECK(stage.Starts("stuck") == 2);
}

// user_pains H2
SCENARIO_ON_WORLDS(pods_not_recovered, "A gang that loses pods and does not recover in its time gives its quota back") {
  stage.Configure(
      "waitForPodsReady: {timeout: 10m, recoveryTimeout: 2s, requeuingStrategy: {backoffBaseSeconds: 3600}}\n");
  stage.MakeQueue({.quotas = {{.nominal = 1}}});
  // The next pod is made ten seconds after the first has failed.
  stage.Submit({.name = "train", .seconds = "3", .spec = {{"backoffLimit", 6}}, .exit_code = "1"});
  stage.Await("its pods were ready", [&] { return stage.Condition("train", "PodsReady") == "True/Started"; });
  stage.AwaitStopped("train");
  stage.Await("its Workload tells", [&] { return stage.Condition("train", "Requeued") == "False/PodsReadyTimeout"; });
  CHECK(stage.Condition("train", "PodsReady") == "False/WaitForStart");
  stage.Submit({.name = "next"});
  stage.AwaitRunning("next");
}

SCENARIO_ON_WORLDS(pods_block_admission,
                   "Gangs that are admitted one after the other wait for the pods of those before, and no longer than "
                   "these may take; what never fits is told so meanwhile") {
  stage.Configure(
      "waitForPodsReady: {timeout: 4s, blockAdmission: true, requeuingStrategy: {backoffBaseSeconds: 3600}}\n");
  stage.MakeQueue({.quotas = {{.nominal = 4}}});
  stage.Submit({.name = "stuck", .start = kNever});
  stage.AwaitRunning("stuck");
  stage.NextSecond();
  stage.Submit({.name = "next"});
  stage.Submit({.name = "huge", .pods = 9});
  stage.AwaitWaiting("huge", "ExceedsMaxQuota");
  stage.AwaitRunning("next");
  stage.Await("the other makes way", [&] { return stage.Condition("stuck", "Evicted") == "True/PodsReadyTimeout"; });
  stage.Submit({.name = "last"});
  stage.AwaitRunning("last");
}

}  // namespace
}  // namespace muster::scenarios
