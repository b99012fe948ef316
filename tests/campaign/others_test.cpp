// Others' hands: users who relabel or suspend Jobs, a former leader that wakes up late, an administrator who took the
// policies away.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>

#include "fixture/text.h"
#include "world.h"

namespace muster::campaign {
namespace {

using cluster::Cat;
using cluster::FaultProxy;
using std::chrono::seconds;
using std::chrono::steady_clock;

std::string JobPath(const std::string& ns, const std::string& name) {
  return Cat("/apis/batch/v1/namespaces/", ns, "/jobs/", name);
}

TEST_CASE("A Job that is relabelled between decision and write starts in the queue it was moved to") {
  World& world = Shared();
  const Run run(Lease::kHasty);
  world.MakeQueue("relabel", 4);
  world.MakeLocalQueue("relabel", "other");
  REQUIRE(world.Await([&] { return World::Leads(world.muster()); }));
  const FaultProxy::RuleId rule = world.proxy().Add(StartPatch("relabel", "it"), cluster::Hold());
  world.Submit("relabel", {.name = "it", .pods = 2, .run_seconds = kUntilLet});
  REQUIRE(world.Await([&] { return world.proxy().Hits(rule) == 1; }));
  REQUIRE(
      world.user()
          .MergePatch(JobPath("relabel", "it"), R"({"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "other"}}})")
          .ok());
  world.proxy().Release(rule);
  REQUIRE(world.Await([&] { return world.Running("relabel", "it"); }));
  const auto record =
      cluster::Json::Parse(world.Job("relabel", "it").At("metadata/annotations")["muster.dev/admission"].Str());
  REQUIRE(record.ok());
  CHECK((*record)["localQueue"].Str() == "other");
  world.LetEnd("relabel", "it");
  REQUIRE(world.AwaitEnd("relabel"));
  CHECK(world.watched().Starts("relabel", "it") == 1);
  CHECK(world.Workload("relabel", "it").At("spec/queueName").Str() == "other");
  REQUIRE(world.Await([&] { return world.Condition("relabel", "it", "Finished")["status"].Str() == "True"; }));
  // Of the held write, one other that was refused, and one that started it at most.
  const std::map<std::string, int> writes = world.Writes("relabel");
  CHECK(writes.at("patch jobs it") == 1);
}

bool Suspend(World& world, const std::string& ns, const std::string& name) {
  return world.user().MergePatch(JobPath(ns, name), R"({"spec": {"suspend": true}})").ok();
}

// Three times it is started again, which keeps its quota; the fourth time it is taken out, with its own reason.
TEST_CASE("A user who suspends a running gang gets it started again, a bounded number of times") {
  World& world = Shared();
  const Run run(Lease::kHasty);
  world.MakeQueue("suspend", 2);
  world.Submit("suspend", {.name = "it", .pods = 2, .run_seconds = kUntilLet});
  REQUIRE(world.Await([&] { return world.Running("suspend", "it"); }));
  world.Submit("suspend", {.name = "next", .pods = 2});
  for (int i = 1; i <= 4; ++i) {
    INFO("start " << i);
    REQUIRE(world.Await([&] { return world.Running("suspend", "it"); }));
    CHECK(world.watched().Starts("suspend", "it") == i);
    CHECK(world.Waiting("suspend", "next"));
    CHECK(world.Condition("suspend", "it", "Evicted").IsNull());
    REQUIRE(Suspend(world, "suspend", "it"));
  }
  REQUIRE(world.Await([&] { return world.Condition("suspend", "it", "Evicted")["status"].Str() == "True"; }));
  CHECK(world.Condition("suspend", "it", "Evicted")["reason"].Str() == "JobSuspended");
  // What it held goes to the next.
  REQUIRE(world.AwaitEnd("suspend", {"it"}));
  CHECK(world.watched().Starts("suspend", "it") == 4);
  CHECK(World::Evictions(world.Workload("suspend", "it")) == 1);
  CHECK(world.watched().MostGpus("suspend") == 2);
  world.CheckRecount({"suspend"});
  REQUIRE(world.user().Delete(Cat(JobPath("suspend", "it"), "?propagationPolicy=Background")).ok());
  REQUIRE(world.Await([&] { return world.Workload("suspend", "it").IsNull(); }));
  world.CheckRecount({"suspend"});
}

// Whatever the paused process had on its way, and whatever it would like to do, comes to nothing.
// user_pains H12
TEST_CASE("A paused leader that wakes after the takeover writes nothing") {
  World& world = Shared();
  const Run run(Lease::kHasty);
  world.MakeQueue("paused", 4);
  REQUIRE(world.Await([&] { return World::Leads(world.muster()); }));
  world.Submit("paused", {.name = "runs", .pods = 2, .run_seconds = kUntilLet});
  REQUIRE(world.Await([&] { return world.Running("paused", "runs"); }));
  const auto standby = world.StartAnother(Lease::kHasty);
  REQUIRE(standby->AwaitReady());
  // A start that left and never arrived: it comes through much later, and would pass every test but one.
  const FaultProxy::RuleId rule = world.proxy().Add(StartPatch("paused", "late"), cluster::Hold());
  world.Submit("paused", {.name = "late", .pods = 2, .run_seconds = kUntilLet});
  REQUIRE(world.proxy().AwaitHits(rule));
  CHECK_FALSE(World::Leads(*standby));

  world.muster().process().Pause();
  REQUIRE(cluster::Eventually([&] { return World::Leads(*standby); }, seconds(120)));
  for (int i = 0; i < 4; ++i) world.Submit("paused", {.name = Cat("job-", i), .pods = 1 + i % 2});
  REQUIRE(cluster::Eventually([&] { return world.Running("paused", "late"); }, seconds(120)));
  world.proxy().Release(rule);
  const auto woken = steady_clock::now();
  world.muster().process().Resume();
  // It finds that it does not lead, and ends.
  REQUIRE(world.muster().process().Wait(seconds(60)).has_value());
  for (const FaultProxy::Seen& seen : world.proxy().Log()) {
    if (seen.rule == rule) CHECK(seen.status == 422);
    if (seen.when < woken || seen.method == "GET" || seen.method == "WATCH") continue;
    // A renewal that was on its way names a version that is gone.
    INFO(seen.method << " " << seen.target << ": " << seen.status);
    CHECK(seen.target.find("/leases/") != std::string::npos);
    CHECK(seen.status != 200);
  }
  CHECK(World::Leads(*standby));
  for (const char* job : {"runs", "late"}) world.LetEnd("paused", job);
  for (const char* job : {"runs", "late", "job-0", "job-1", "job-2", "job-3"}) {
    INFO(job);
    CHECK(cluster::Eventually([&] { return world.Ended("paused", job); }, seconds(120)));
    CHECK(world.watched().Starts("paused", job) == 1);
  }
  CHECK(world.watched().MostGpus("paused") <= 4);
  standby->process().Terminate();
  REQUIRE(world.Await([&] { return World::Leads(world.muster()); }));
  world.CheckRecount({"paused"});
}

constexpr std::string_view kPolicies = "/apis/admissionregistration.k8s.io/v1/";

TEST_CASE("Without its policies Muster says so, and Jobs that run without leave are put in line") {
  World& world = Shared();
  for (const char* binding : {"mutatingadmissionpolicybindings", "validatingadmissionpolicybindings"}) {
    REQUIRE(world.admin().Delete(Cat(kPolicies, binding, "/muster-jobs")).ok());
  }
  REQUIRE(world.Await([&] { return !world.cluster().SuspendsQueuedJobs(); }));
  {
    const Run run(Lease::kHasty);
    world.MakeQueue("policies", 2);
    REQUIRE(world.Await([&] { return World::Leads(world.muster()); }));
    const auto says = [&](std::string_view text) {
      return world.muster().HealthText("/readyz?verbose").find(text) != std::string::npos;
    };
    REQUIRE(world.Await([&] { return says("MutatingAdmissionPolicyBinding muster-jobs is missing"); }));
    CHECK(says("ValidatingAdmissionPolicyBinding muster-jobs is missing"));
    CHECK(world.muster().Health("/readyz") == 200);  // the rest of its work goes on
    CHECK(world.muster().Metric("muster_standing_problems") >= 2);
    // Nobody suspends these before their pods begin, and the second has no room.
    world.Submit("policies", {.name = "first", .pods = 2, .run_seconds = kUntilLet, .suspend = false});
    REQUIRE(world.Await([&] { return world.watched().Starts("policies", "first") == 1; }));
    world.Submit("policies", {.name = "second", .pods = 2, .suspend = false});
    REQUIRE(world.Await([&] { return world.Waiting("policies", "second"); }));
    // A user who starts it by hand does not get far either.
    REQUIRE(world.user().MergePatch(JobPath("policies", "second"), R"({"spec": {"suspend": false}})").ok());
    REQUIRE(world.Await([&] { return world.Waiting("policies", "second"); }));
    REQUIRE(world.Await([&] { return world.Running("policies", "first"); }));
    world.LetEnd("policies", "first");
    REQUIRE(world.AwaitEnd("policies"));
    world.CheckRecount({"policies"});
    CHECK(world.watched().Starts("policies", "first") == 1);
  }
  const absl::Status installed = world.cluster().InstallMuster();
  INFO(installed);
  REQUIRE(installed.ok());
  REQUIRE(world.Await([&] { return world.cluster().SuspendsQueuedJobs(); }));
  const Run run(Lease::kHasty);
  REQUIRE(world.Await([&] { return World::Leads(world.muster()); }));
  CHECK(cluster::Eventually(
      [&] { return world.muster().HealthText("/readyz?verbose").find("is missing") == std::string::npos; }));
}

}  // namespace
}  // namespace muster::campaign
