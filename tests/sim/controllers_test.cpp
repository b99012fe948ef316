// What the controllers make of a Job's status, as traced with kube-controller-manager 1.36.3.
#include "muster/sim/controllers.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "store_fixture.h"

namespace muster::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using V = std::vector<std::string>;

struct ControllersFixture : StoreFixture {
  SimControllers controllers{&executor, &store, {}};

  // Every state of every Job since the start, in words: "active=2 ready=0 Suspended=False started".
  std::vector<std::string> seen;
  ControllersFixture() {
    store.Subscribe([this](const Change& change) {
      if (change.kind->plural == "jobs") seen.push_back(Words(change));
    });
  }
  static std::string Words(const Change& change) {
    if (change.type == Change::Type::kDeleted) return "gone";
    const Json& status = Get(*change.object, "status");
    std::string words = Flag(At(*change.object, "spec", "suspend")) ? "suspend" : "run";
    for (const char* key : {"active", "ready", "terminating", "succeeded", "failed"}) {
      if (Number(Get(status, key)) != 0)
        words += std::string(" ") + key + "=" + std::to_string(Number(Get(status, key)));
    }
    for (const char* list : {"succeeded", "failed"}) {
      const Json& uncounted = At(status, "uncountedTerminatedPods", list);
      if (uncounted.is_array()) words += " uncounted=" + std::to_string(uncounted.size());
    }
    if (status.contains("startTime")) words += " started";
    for (const Json& condition : Get(status, "conditions")) {
      words += " " + Text(Get(condition, "type")) + "=" + Text(Get(condition, "status"));
    }
    return words;
  }
  // `seconds` as the annotations want it; empty: absent.
  static Json PodJob(const std::string& name, int pods, Json annotations, bool suspend = false) {
    Json job = Job(name);
    job["spec"]["suspend"] = suspend;
    job["spec"]["parallelism"] = pods;
    job["spec"]["completions"] = pods;
    job["spec"]["template"]["metadata"]["annotations"] = std::move(annotations);
    return job;
  }
  void SetSuspend(const std::string& name, bool suspend) {
    REQUIRE(Merge(To("jobs", name), suspend ? R"({"spec":{"suspend":true}})" : R"({"spec":{"suspend":false}})").ok());
  }
  V TakeSeen() { return std::exchange(seen, {}); }
  PodCounts Pods(const std::string& name) {
    return controllers.PodsOf(Text(At(Now(To("jobs", name)), "metadata", "uid")));
  }
  bool Exists(const std::string& plural, const std::string& name) { return store.Read(To(plural, name)).ok(); }
};

TEST_CASE_METHOD(ControllersFixture, "a suspended Job's status is touched within milliseconds", "[controllers]") {
  Make(PodJob("j", 3, {}, true));
  executor.RunFor(milliseconds(20));
  CHECK(TakeSeen() == V{"suspend", "suspend Suspended=True"});
  const Json status = Now(To("jobs", "j"))["status"];
  CHECK(status["ready"] == 0);
  CHECK(status["terminating"] == 0);
  CHECK(status["uncountedTerminatedPods"] == Json::object());
  CHECK(FindCondition(status["conditions"], "Suspended")["reason"] == "JobSuspended");
}

TEST_CASE_METHOD(ControllersFixture, "a Job's way from the start to the end", "[controllers]") {
  Make(PodJob("j", 3, {{"muster.dev/run-seconds", "3"}}, true));
  executor.RunFor(seconds(1));
  TakeSeen();
  SetSuspend("j", false);
  executor.RunFor(seconds(10));
  CHECK(TakeSeen() == V{"run Suspended=True", "run active=3 started Suspended=False",
                        "run active=3 ready=3 started Suspended=False",
                        "run uncounted=3 started Suspended=False SuccessCriteriaMet=True",
                        "run succeeded=3 started Suspended=False SuccessCriteriaMet=True Complete=True"});
  const Json status = Now(To("jobs", "j"))["status"];
  CHECK(status["startTime"] == "2026-01-01T00:00:01Z");
  CHECK(status["completionTime"] == "2026-01-01T00:00:05Z");  // 1 + 0.2 + 3, seen up to a second later
  CHECK(FindCondition(status["conditions"], "Complete")["reason"] == "CompletionsReached");
}

TEST_CASE_METHOD(ControllersFixture, "a running Job that is suspended lets go of start time and pods",
                 "[controllers]") {
  Make(PodJob("j", 2, {{"muster.dev/run-seconds", "60"}, {"muster.dev/termination-seconds", "5"}}));
  executor.RunFor(seconds(3));
  TakeSeen();
  SetSuspend("j", true);
  const MonoTime start = executor.Mono();
  REQUIRE(executor.RunUntil([&] { return seen.size() == 2; }, seconds(1)));
  CHECK(executor.Mono() - start > milliseconds(15));
  CHECK(executor.Mono() - start < milliseconds(100));
  CHECK(Pods("j").terminating == 2);
  executor.RunFor(seconds(7));
  CHECK(TakeSeen() ==
        V{"suspend active=2 ready=2 started", "suspend terminating=2 Suspended=True", "suspend Suspended=True"});
  SetSuspend("j", false);
  executor.RunFor(seconds(1));
  CHECK(TakeSeen() == V{"run Suspended=True", "run active=2 started Suspended=False"});
}

TEST_CASE_METHOD(ControllersFixture, "suspended and resumed before the controller could write: other pods run",
                 "[controllers]") {
  int overlaps = 0;
  for (int i = 0; i < 10; ++i) {
    const std::string name = "j" + std::to_string(i);
    Make(PodJob(name, 2, {{"muster.dev/run-seconds", "60"}, {"muster.dev/termination-seconds", "5"}}));
    executor.RunFor(seconds(3));
    SetSuspend(name, true);
    executor.RunFor(milliseconds(12));  // seen, but its write takes 15 ms at least
    SetSuspend(name, false);
    executor.RunFor(milliseconds(200));
    const PodCounts pods = Pods(name);
    CHECK(pods.active == 2);
    overlaps += pods.terminating == 2 ? 1 : 0;
  }
  CHECK(overlaps == 10);
}

TEST_CASE_METHOD(ControllersFixture, "pods that fail: retried after a back-off, then the Job fails", "[controllers]") {
  Json job = PodJob("j", 1, {{"muster.dev/exit-code", "1"}, {"muster.dev/run-seconds", "3"}});
  job["spec"]["backoffLimit"] = 1;
  Make(job);
  executor.RunFor(seconds(8));
  CHECK(TakeSeen() == V{"run", "run active=1 started", "run active=1 ready=1 started", "run uncounted=1 started",
                        "run failed=1 started"});
  executor.RunFor(minutes(1));
  const V rest = TakeSeen();
  REQUIRE(rest.size() >= 3);
  CHECK(rest[0] == "run active=1 failed=1 started");
  CHECK(rest.back() == "run failed=2 started FailureTarget=True Failed=True");
  CHECK(FindCondition(Now(To("jobs", "j"))["status"]["conditions"], "Failed")["reason"] == "BackoffLimitExceeded");
}

TEST_CASE_METHOD(ControllersFixture, "an active deadline ends the Job", "[controllers]") {
  Json job = PodJob("j", 2, {{"muster.dev/run-seconds", "60"}});
  job["spec"]["activeDeadlineSeconds"] = 5;
  Make(job);
  executor.RunFor(seconds(10));
  CHECK(HasCondition(Now(To("jobs", "j")), "Failed"));
  CHECK(FindCondition(Now(To("jobs", "j"))["status"]["conditions"], "Failed")["reason"] == "DeadlineExceeded");
  CHECK(Pods("j").active == 0);
}

TEST_CASE_METHOD(ControllersFixture, "more completions than parallelism; indexes; scaling", "[controllers]") {
  Json job = PodJob("j", 2, {{"muster.dev/run-seconds", "2"}});
  job["spec"].update({{"completions", 5}, {"completionMode", "Indexed"}});
  Make(job);
  int64_t most = 0;
  for (int i = 0; i < 200; ++i) {
    executor.RunFor(milliseconds(100));
    most = std::max(most, Pods("j").active);
  }
  CHECK(most == 2);
  const Json status = Now(To("jobs", "j"))["status"];
  CHECK(status["succeeded"] == 5);
  CHECK(status["completedIndexes"] == "0-4");
  CHECK(HasCondition(Now(To("jobs", "j")), "Complete"));

  Make(PodJob("scaled", 3, {{"muster.dev/run-seconds", "60"}}));
  executor.RunFor(seconds(1));
  REQUIRE(Merge(To("jobs", "scaled"), R"({"spec":{"parallelism":1}})").ok());
  executor.RunFor(seconds(3));
  CHECK(Pods("scaled").active == 1);
  CHECK(Now(To("jobs", "scaled"))["status"]["active"] == 1);
}

TEST_CASE_METHOD(ControllersFixture, "a work queue ends once one pod has succeeded and none is left", "[controllers]") {
  Json job = PodJob("j", 3, {});
  job["spec"].erase("completions");
  Make(job);
  executor.RunFor(seconds(10));
  CHECK(HasCondition(Now(To("jobs", "j")), "Complete"));
  CHECK(Now(To("jobs", "j"))["status"]["succeeded"] == 3);
}

TEST_CASE_METHOD(ControllersFixture, "a finished Job goes after its time to live, in the foreground", "[controllers]") {
  Json job = PodJob("j", 1, {});
  job["spec"]["ttlSecondsAfterFinished"] = 0;
  Make(job);
  executor.RunFor(seconds(8));
  CHECK(TakeSeen().back() == "gone");
  CHECK_FALSE(Exists("jobs", "j"));
}

TEST_CASE_METHOD(ControllersFixture, "deletion of a running Job: background, foreground, orphan", "[controllers]") {
  const auto run = [&](const std::string& name) {
    Make(PodJob(name, 2, {{"muster.dev/run-seconds", "60"}, {"muster.dev/termination-seconds", "10"}}));
    executor.RunFor(seconds(2));
    return Text(At(Now(To("jobs", name)), "metadata", "uid"));
  };
  const auto remove = [&](const std::string& name, const char* propagation) {
    DeleteOptions options;
    options.propagation = propagation;
    REQUIRE(Delete(To("jobs", name), options).ok());
    executor.RunFor(seconds(1));
  };
  const std::string background = run("background");
  remove("background", "Background");
  CHECK_FALSE(Exists("jobs", "background"));
  CHECK(controllers.PodsOf(background).terminating == 2);
  executor.RunFor(seconds(10));
  CHECK(controllers.PodsOf(background).terminating == 0);

  const std::string foreground = run("foreground");
  remove("foreground", "Foreground");
  CHECK(Exists("jobs", "foreground"));  // until its pods are gone
  CHECK(controllers.PodsOf(foreground).terminating == 2);
  executor.RunFor(seconds(11));
  CHECK_FALSE(Exists("jobs", "foreground"));

  const std::string orphan = run("orphan");
  remove("orphan", "Orphan");
  CHECK_FALSE(Exists("jobs", "orphan"));
  CHECK(controllers.PodsOf(orphan).active == 2);  // they run on
  executor.RunFor(minutes(2));
  CHECK(controllers.PodsOf(orphan).active == 0);
}

TEST_CASE_METHOD(ControllersFixture, "what a Job owns goes with it, or is set free", "[controllers]") {
  const auto own = [&](const std::string& job, const std::string& workload) {
    const Json owner = Make(PodJob(job, 1, {}, true));
    Json w = Workload(workload);
    w["metadata"]["ownerReferences"] = {{{"apiVersion", "batch/v1"},
                                         {"kind", "Job"},
                                         {"name", job},
                                         {"uid", At(owner, "metadata", "uid")},
                                         {"controller", true},
                                         {"blockOwnerDeletion", true}}};
    Make(w);
    executor.RunFor(seconds(1));
    CHECK(Exists("workloads", workload));
  };
  DeleteOptions options;
  own("a", "wa");
  options.propagation = "Background";
  REQUIRE(Delete(To("jobs", "a"), options).ok());
  executor.RunFor(seconds(1));
  CHECK_FALSE(Exists("workloads", "wa"));

  own("b", "wb");
  options.propagation = "Foreground";
  REQUIRE(Delete(To("jobs", "b"), options).ok());
  CHECK(Exists("jobs", "b"));
  executor.RunFor(seconds(2));
  CHECK_FALSE(Exists("workloads", "wb"));
  CHECK_FALSE(Exists("jobs", "b"));

  own("c", "wc");
  options.propagation = "Orphan";
  REQUIRE(Delete(To("jobs", "c"), options).ok());
  executor.RunFor(seconds(1));
  CHECK_FALSE(Exists("jobs", "c"));
  CHECK(At(Now(To("workloads", "wc")), "metadata", "ownerReferences").is_null());

  Json dangling = Workload("wd");
  dangling["metadata"]["ownerReferences"] = {
      {{"apiVersion", "batch/v1"}, {"kind", "Job"}, {"name", "never"}, {"uid", "never"}}};
  Make(dangling);
  executor.RunFor(seconds(1));
  CHECK_FALSE(Exists("workloads", "wd"));
}

TEST_CASE_METHOD(ControllersFixture, "a namespace goes with all that is in it", "[controllers]") {
  Make(PodJob("j", 2, {{"muster.dev/run-seconds", "60"}}));
  Json held = Workload("held");
  held["metadata"]["finalizers"] = {"a.b/c"};
  Make(held);
  executor.RunFor(seconds(1));
  REQUIRE(Delete(To("namespaces", "p")).ok());
  executor.RunFor(seconds(5));
  CHECK_FALSE(Exists("jobs", "j"));
  CHECK(Exists("namespaces", "p"));
  REQUIRE(Merge(To("workloads", "held"), R"({"metadata":{"finalizers":null}})").ok());
  executor.RunFor(seconds(2));
  CHECK_FALSE(Exists("namespaces", "p"));
}

TEST_CASE_METHOD(ControllersFixture, "paused controllers catch up", "[controllers]") {
  controllers.SetPaused(true);
  Make(PodJob("j", 1, {}));
  executor.RunFor(seconds(30));
  CHECK(TakeSeen() == V{"run"});
  controllers.SetPaused(false);
  executor.RunFor(seconds(10));
  CHECK(HasCondition(Now(To("jobs", "j")), "Complete"));
}

}  // namespace
}  // namespace muster::sim
