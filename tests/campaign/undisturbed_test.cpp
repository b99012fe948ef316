// What Muster does to the API while nothing goes wrong: few writes, each seen in the audit log, and Kueue's words.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdio>
#include <thread>

#include "fixture/text.h"
#include "world.h"

namespace muster::campaign {
namespace {

using cluster::AuditEvent;
using cluster::Cat;
using std::chrono::milliseconds;
using std::chrono::seconds;

int Sum(const std::map<std::string, int>& writes, std::string_view prefix) {
  int sum = 0;
  for (const auto& [key, count] : writes) sum += key.starts_with(prefix) ? count : 0;
  return sum;
}

std::string Print(const std::map<std::string, int>& writes) {
  std::string text;
  for (const auto& [key, count] : writes) text += Cat(count, " ", key, "\n");
  return text;
}

TEST_CASE("A Job that fits is started by one write, and its whole life takes five") {
  World& world = Shared();
  const Run run(Lease::kHasty);
  world.MakeQueue("calm", 4);
  // Of several pods one may end before the others: what it gives back takes one more.
  world.Submit("calm", {.name = "fits", .pods = 1, .run_seconds = kUntilLet});
  REQUIRE(world.Await([&] { return world.Condition("calm", "fits", "Admitted")["status"].Str() == "True"; }));
  CHECK(world.Condition("calm", "fits", "QuotaReserved")["reason"].Str() == "QuotaReserved");
  CHECK(world.Condition("calm", "fits", "Admitted")["reason"].Str() == "Admitted");
  REQUIRE(world.Await([&] { return world.Condition("calm", "fits", "PodsReady")["status"].Str() == "True"; }));
  world.LetEnd("calm", "fits");
  REQUIRE(world.AwaitEnd("calm"));
  REQUIRE(world.Await([&] { return world.Condition("calm", "fits", "Finished")["status"].Str() == "True"; }));
  CHECK(world.Condition("calm", "fits", "Finished")["reason"].Str() == "Succeeded");
  world.CheckRecount({"calm"});

  CHECK(world.watched().Starts("calm", "fits") == 1);
  const std::map<std::string, int> writes = world.Writes("calm");
  INFO(Print(writes));
  CHECK(writes.at("patch jobs fits") == 1);
  CHECK(Sum(writes, "create workloads") == 1);
  // Admitted, its pods ready, finished.
  CHECK(Sum(writes, "patch workloads/status") == 3);
  CHECK(Sum(writes, "") - Sum(writes, "patch localqueues/status") == 5);
}

TEST_CASE("With room for one Job the second waits, is told why, and starts when the first has ended") {
  World& world = Shared();
  const Run run(Lease::kHasty);
  world.MakeQueue("pair", 4);
  world.Submit("pair", {.name = "first", .pods = 3, .run_seconds = kUntilLet});
  REQUIRE(world.Await([&] { return world.Running("pair", "first"); }));
  world.Submit("pair", {.name = "second", .pods = 2});
  REQUIRE(world.Await([&] { return !world.Condition("pair", "second", "QuotaReserved").IsNull(); }));
  const Json waits = world.Condition("pair", "second", "QuotaReserved");
  CHECK(waits["status"].Str() == "False");
  CHECK(waits["reason"].Str() == "WaitingForQuota");
  // 4 - 3 = 1 is free, 2 are needed: one more is missing.
  CHECK_THAT(waits["message"].Str(), Catch::Contains("insufficient unused quota for nvidia.com/gpu in flavor h100, "
                                                     "1 more needed"));
  CHECK(world.Waiting("pair", "second"));
  world.LetEnd("pair", "first");
  REQUIRE(world.AwaitEnd("pair"));
  CHECK(world.watched().Starts("pair", "first") == 1);
  CHECK(world.watched().Starts("pair", "second") == 1);
  CHECK(world.watched().MostGpus("pair") == 3);
  world.CheckRecount({"pair"});
}

// When each Job, and when its Workload, was first seen started and ended, on two watches of the administrator's.
class Lags {
 public:
  Lags(World& world, const std::string& ns) {
    jobs_ =
        world.admin().StartWatch(Cat("/apis/batch/v1/namespaces/", ns, "/jobs?watch=true"), [this](const Json& line) {
          const Json job = line["object"];
          const std::string name = job.At("metadata/name").Str();
          if (!job.At("spec/suspend").Bool()) Note(&job_started_, name);
          if (job.At("status/conditions").Find("type", "Complete")["status"].Str() == "True") Note(&job_ended_, name);
        });
    workloads_ = world.admin().StartWatch(
        Cat("/apis/kueue.x-k8s.io/v1beta2/namespaces/", ns, "/workloads?watch=true"), [this](const Json& line) {
          const Json workload = line["object"];
          const std::string job = workload.At("metadata/ownerReferences/0/name").Str();
          const Json conditions = workload.At("status/conditions");
          if (conditions.Find("type", "Admitted")["status"].Str() == "True") Note(&shown_started_, job);
          if (conditions.Find("type", "Finished")["status"].Str() == "True") Note(&shown_ended_, job);
        });
  }

  bool AllShown(size_t jobs) const {
    const std::lock_guard lock(mutex_);
    return job_ended_.size() == jobs && shown_ended_.size() == jobs && shown_started_.size() == jobs;
  }
  // How long a Workload was behind its Job, at most.
  milliseconds Longest() const {
    const std::lock_guard lock(mutex_);
    return std::max(Behind(job_started_, shown_started_), Behind(job_ended_, shown_ended_));
  }
  // How long after the end of the last Job all Workloads were true.
  milliseconds AfterTheLast() const {
    const std::lock_guard lock(mutex_);
    return std::chrono::duration_cast<milliseconds>(Last(shown_ended_) - Last(job_ended_));
  }

 private:
  using Times = std::map<std::string, std::chrono::steady_clock::time_point>;
  void Note(Times* times, const std::string& job) {
    const std::lock_guard lock(mutex_);
    times->emplace(job, std::chrono::steady_clock::now());
  }
  static milliseconds Behind(const Times& jobs, const Times& shown) {
    milliseconds most{};
    for (const auto& [job, when] : jobs) {
      if (!shown.contains(job)) continue;
      most = std::max(most, std::chrono::duration_cast<milliseconds>(shown.at(job) - when));
    }
    return most;
  }
  static std::chrono::steady_clock::time_point Last(const Times& times) {
    std::chrono::steady_clock::time_point last;
    for (const auto& [job, when] : times) last = std::max(last, when);
    return last;
  }

  mutable std::mutex mutex_;
  Times job_started_, job_ended_, shown_started_, shown_ended_;
  std::unique_ptr<cluster::ApiClient::Watch> jobs_, workloads_;
};

// The aim is a second on a machine that has nothing else to do; the bounds leave room for one that has.
TEST_CASE("A Workload shows its Job's true state soon, at low load and after a burst") {
  World& world = Shared();
  const Run run(Lease::kHasty);
  REQUIRE(world.Await([&] { return World::Leads(world.muster()); }));
  world.MakeQueue("low", 4);
  {
    const Lags lags(world, "low");
    for (int i = 0; i < 4; ++i) {
      world.Submit("low", {.name = Cat("job-", i), .pods = 2});
      REQUIRE(world.Await([&] { return lags.AllShown(static_cast<size_t>(i) + 1); }));
    }
    std::printf("low load: Workloads were %d ms behind at most\n", static_cast<int>(lags.Longest().count()));
    CHECK(lags.Longest() < seconds(10));
  }
  world.MakeQueue("burst", 120);
  const Lags lags(world, "burst");
  for (int i = 0; i < 60; ++i) world.Submit("burst", {.name = Cat("job-", i), .pods = 2});
  REQUIRE(world.Await([&] { return lags.AllShown(60); }));
  std::printf("burst: all Workloads were true %d ms after the last Job had ended\n",
              static_cast<int>(lags.AfterTheLast().count()));
  CHECK(lags.AfterTheLast() < seconds(10));
  world.CheckRecount({"low", "burst"});
}

// A stop adds two writes to the Job, and the start that follows is one more.
TEST_CASE("A stop takes two writes of the Job") {
  World& world = Shared();
  const Run run(Lease::kHasty);
  world.MakeQueue("stop", 2);
  // Of several pods one may end before the others: what it gives back takes one more.
  world.Submit("stop", {.name = "it", .pods = 1, .run_seconds = kUntilLet});
  REQUIRE(world.Await([&] { return world.Running("stop", "it"); }));
  world.Drain("stop");
  REQUIRE(world.Await([&] { return world.Restored("stop", "it"); }));
  CHECK(world.Writes("stop").at("patch jobs it") == 3);  // start, stop, restoration
  const Json evicted = world.Condition("stop", "it", "Evicted");
  CHECK(evicted["status"].Str() == "True");
  CHECK(evicted["reason"].Str() == "ClusterQueueStopped");
  world.Reopen("stop");
  REQUIRE(world.Await([&] { return world.Running("stop", "it"); }));
  world.LetEnd("stop", "it");
  REQUIRE(world.AwaitEnd("stop"));
  world.CheckRecount({"stop"});
  const std::map<std::string, int> writes = world.Writes("stop");
  INFO(Print(writes));
  CHECK(writes.at("patch jobs it") == 4);
  CHECK(Sum(writes, "create workloads") == 1);
  // Admitted; evicted; waiting again; queued again; admitted; finished.
  CHECK(Sum(writes, "patch workloads/status") <= 6);
  CHECK(world.watched().Starts("stop", "it") == 2);
}

TEST_CASE("While 500 Jobs wait and nothing happens, only the lease is written") {
  constexpr int kJobs = 500;
  World& world = Shared();
  const Run run;
  world.MakeQueue("quiet", 1);
  for (int i = 0; i < kJobs; ++i) world.Submit("quiet", {.name = Cat("big-", i), .pods = 2});
  world.CheckRecount({"quiet"});
  const auto told = [](const Json& workload) {
    return workload.At("status/conditions").Find("type", "QuotaReserved")["status"].Str() == "False";
  };
  REQUIRE(world.Await([&] {
    const Snapshot seen = world.Look();
    const std::vector<Json>& workloads = seen.workloads.at("quiet");
    return workloads.size() == kJobs && std::all_of(workloads.begin(), workloads.end(), told);
  }));
  cluster::AuditLog audit = world.cluster().Audit();
  const auto writes = [&] {
    std::map<std::string, int> found;
    for (const AuditEvent& event : audit.Next()) {
      if (event.user == kMusterUser && event.IsWrite()) ++found[WriteKey(event)];
    }
    return found;
  };
  // Events and the status of queues come a little later: the last of them is awaited.
  std::map<std::string, int> last = writes();
  REQUIRE(world.Await([&] {
    std::this_thread::sleep_for(seconds(3));
    last = writes();
    UNSCOPED_INFO(Print(last));
    return Sum(last, "") == Sum(last, "update leases");
  }));
  std::this_thread::sleep_for(seconds(60));
  const std::map<std::string, int> late = writes();
  INFO(Print(late));
  CHECK(Sum(late, "update leases") > 0);
  CHECK(Sum(late, "") == Sum(late, "update leases"));
}

}  // namespace
}  // namespace muster::campaign
