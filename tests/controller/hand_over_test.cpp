// Work changes hands while it runs: from Kueue to Muster, back, and to Muster again.
//
// data/kueue_states.jsonl: states of objects as Kueue had written them in recorded cases, one a line: {id, step, text,
// objects: queues and flavors, jobs, workloads}.
#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <functional>

#include "muster/controller/names.h"
#include "world.h"

namespace muster::controller {
namespace {

using sim::At;
using sim::Get;
using sim::Json;
using sim::Text;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr const char* kRecord = "muster.dev/admission";
constexpr const char* kKueueKeys[] = {"kueue.x-k8s.io/cluster-queue-name", "kueue.x-k8s.io/local-queue-name",
                                      "kueue.x-k8s.io/podset"};

Json StateOf(const std::string& id, int step) {
  std::ifstream file(std::string(MUSTER_SOURCE_DIR) + "/tests/controller/data/kueue_states.jsonl");
  for (std::string line; std::getline(file, line);) {
    Json state = Json::parse(line);
    if (state["id"] == id && state["step"] == step) return state;
  }
  FAIL("no state " << id << "/" << step);
  return {};
}

void ReplaceAll(std::string* text, const std::string& from, const std::string& to) {
  for (size_t at = text->find(from); at != std::string::npos; at = text->find(from, at + to.size())) {
    text->replace(at, from.size(), to);
  }
}

Json OrEmpty(const Json& map) { return map.is_object() ? map : Json::object(); }

// A cluster on which Kueue was at work until now.
class KueueCluster {
 public:
  KueueCluster(const std::string& id, int step) : ns_(id), state_(StateOf(id, step)), world_(1) {
    world_.Create({{"apiVersion", "v1"},
                   {"kind", "Namespace"},
                   {"metadata", {{"name", id}, {"labels", {{"kubernetes.io/metadata.name", id}}}}}});
    for (const Json& object : state_["objects"]) world_.Create(object);
    for (const Json& job : state_["jobs"]) Make(job);
  }

  World& world() { return world_; }
  Json Job(const std::string& name) const { return world_.Get("jobs", ns_, name); }
  Json WorkloadOf(const std::string& job) const { return world_.Get("workloads", ns_, workloads_.at(job)); }
  void PatchWorkload(const std::string& job, const Json& merge) {
    world_.Patch("workloads", ns_, workloads_.at(job), merge);
  }
  std::string Record(const std::string& job) const {
    const Json annotations = OrEmpty(At(Job(job), "metadata", "annotations"));
    return annotations.value(kRecord, "");
  }
  // What the template is without any admission, by the Workload that Kueue made of it.
  void CheckRestored(const std::string& name) const {
    const Json job = Job(name);
    const Json pods = At(WorkloadOf(name), "spec", "podSets")[0];
    INFO(job.dump());
    CHECK(OrEmpty(At(job, "spec", "template", "spec", "nodeSelector")) ==
          OrEmpty(At(pods, "template", "spec", "nodeSelector")));
    CHECK(At(job, "spec", "template", "spec", "tolerations") == At(pods, "template", "spec", "tolerations"));
    const Json labels = OrEmpty(At(job, "spec", "template", "metadata", "labels"));
    for (const char* key : kKueueKeys) CHECK_FALSE(labels.contains(key));
    CHECK(At(job, "spec", "parallelism") == pods["count"]);
  }

 private:
  // As Kueue did it: the Job waits, its Workload is made and admitted, one patch starts it, another stops it.
  void Make(const Json& recorded) {
    const std::string name = Text(At(recorded, "metadata", "name"));
    const std::string recorded_uid = Text(At(recorded, "metadata", "uid"));
    const Json* workload = nullptr;
    for (const Json& candidate : state_["workloads"]) {
      if (Text(At(candidate, "metadata", "labels", "kueue.x-k8s.io/job-uid")) == recorded_uid) workload = &candidate;
    }
    REQUIRE(workload != nullptr);
    const Json& pods = At(*workload, "spec", "podSets")[0];
    Json job = recorded;
    for (const char* key : {"uid", "generation", "creationTimestamp"}) job["metadata"].erase(key);
    for (const char* key : {"selector", "manualSelector"}) job["spec"].erase(key);
    Json& metadata = job["spec"]["template"]["metadata"];
    for (const char* key : {"batch.kubernetes.io/controller-uid", "controller-uid", "batch.kubernetes.io/job-name",
                            "job-name", kKueueKeys[0], kKueueKeys[1], kKueueKeys[2]}) {
      metadata["labels"].erase(key);
    }
    const bool injected = OrEmpty(Get(metadata, "annotations")).contains("kueue.x-k8s.io/workload");
    metadata["annotations"] = {{"muster.dev/run-seconds", "100000"}};
    for (const char* key : {"nodeSelector", "tolerations"}) {
      const Json& original = At(pods, "template", "spec", key);
      original.is_null() ? void(job["spec"]["template"]["spec"].erase(key))
                         : void(job["spec"]["template"]["spec"][key] = original);
    }
    job["spec"]["suspend"] = true;
    job["spec"]["parallelism"] = pods["count"];
    const std::string uid = Text(At(world_.Create(job), "metadata", "uid"));

    const std::string workload_name = WorkloadName("Job", "batch", name, uid);
    workloads_[name] = workload_name;
    std::string text = workload->dump();
    ReplaceAll(&text, recorded_uid, uid);
    ReplaceAll(&text, Text(At(*workload, "metadata", "name")), workload_name);
    ReplaceAll(&text, "<time>", FormatTime(world_.executor.Now()));
    Json made = Json::parse(text);
    for (const char* key : {"generation", "creationTimestamp"}) made["metadata"].erase(key);
    const Json status = made["status"];
    made.erase("status");
    world_.Create(made);
    if (injected) Start(recorded, name, workload_name);
    world_.Patch("workloads", ns_, workload_name, {{"status", status}}, "status");
    if (injected && recorded["spec"]["suspend"] == true) {
      world_.Patch("jobs", ns_, name, {{"spec", {{"suspend", true}}}});
    }
  }

  void Start(const Json& recorded, const std::string& name, const std::string& workload_name) {
    const Json& from = recorded["spec"]["template"];
    Json labels;
    for (const char* key : kKueueKeys) labels[key] = from["metadata"]["labels"][key];
    Json spec = {{"nodeSelector", Get(from["spec"], "nodeSelector")}};
    if (from["spec"].contains("tolerations")) spec["tolerations"] = from["spec"]["tolerations"];
    world_.Patch("jobs", ns_, name,
                 {{"spec",
                   {{"suspend", false},
                    {"parallelism", recorded["spec"]["parallelism"]},
                    {"template",
                     {{"metadata", {{"labels", labels}, {"annotations", {{"kueue.x-k8s.io/workload", workload_name}}}}},
                      {"spec", spec}}}}}});
    REQUIRE(world_.RunUntil([&] { return sim::Number(At(Job(name), "status", "active")) > 0; }));
  }

  const std::string ns_;
  Json state_;
  mutable World world_;
  std::map<std::string, std::string> workloads_;  // by Job
};

Process& Lead(World& world, const std::string& identity, bool release = false) {
  Options options = World::DefaultOptions();
  options.release = release;
  Process& muster = world.Start(identity, options);
  REQUIRE(world.RunUntil([&] { return muster.controller->health().leading; }, minutes(2)));
  return muster;
}

void StopInOrder(World& world, Process& muster) {
  bool stopped = false;
  muster.controller->Stop([&stopped] { stopped = true; });
  REQUIRE(world.RunUntil([&] { return stopped; }));
  world.Kill(muster);
}

// All but what the job controller counts.
Json SpecOf(const Json& job) { return job["spec"]; }

struct Running {
  const char* id;
  int step;
  const char* job;
};
const Running kRunning[] = {{"simple-run-complete", 2, "train"},
                            {"partial-admission", 1, "pa"},
                            {"inject-and-restore", 1, "mix"},
                            {"two-resource-groups", 1, "gpu"},
                            {"insufficient-quota", 1, "one"}};

TEST_CASE("A gang that Kueue admitted runs on under Muster, and Kueue's finalizer goes") {
  for (const Running& c : kRunning) {
    INFO(c.id);
    KueueCluster cluster(c.id, c.step);
    const Json job = cluster.Job(c.job);
    const Json workload = cluster.WorkloadOf(c.job);
    REQUIRE(At(workload, "metadata", "finalizers") == Json{"kueue.x-k8s.io/resource-in-use"});
    Process& muster = Lead(cluster.world(), "a");
    REQUIRE(cluster.world().RunUntil([&] { return !cluster.Record(c.job).empty(); }));
    cluster.world().RunFor(minutes(1));
    CHECK(SpecOf(cluster.Job(c.job)) == SpecOf(job));  // neither stopped nor restarted
    CHECK(At(cluster.Job(c.job), "status", "startTime") == At(job, "status", "startTime"));
    const Json now = cluster.WorkloadOf(c.job);
    CHECK(At(now, "metadata", "uid") == At(workload, "metadata", "uid"));
    CHECK(now["status"] == workload["status"]);
    CHECK(OrEmpty(now["metadata"]).value("finalizers", Json::array()).empty());
    const Json record = Json::parse(cluster.Record(c.job));
    CHECK(record["state"] == "started");
    CHECK(muster.controller->engine()->ViewWorkload(Text(At(job, "metadata", "uid")))->claim.IsSet());
    muster.controller->engine()->Validate();
    CHECK(muster.controller->health().problems.empty());
  }
}

TEST_CASE("What is evicted under Muster gets back the template and counts that Kueue had changed") {
  for (const Running& c : kRunning) {
    INFO(c.id);
    KueueCluster cluster(c.id, c.step);
    Lead(cluster.world(), "a");
    REQUIRE(cluster.world().RunUntil([&] { return !cluster.Record(c.job).empty(); }));
    cluster.PatchWorkload(c.job, {{"spec", {{"active", false}}}});
    REQUIRE(cluster.world().RunUntil(
        [&] { return sim::Flag(At(cluster.Job(c.job), "spec", "suspend")) && cluster.Record(c.job).empty(); },
        minutes(2)));
    cluster.CheckRestored(c.job);
    const Json workload = cluster.WorkloadOf(c.job);
    CHECK_FALSE(sim::HasCondition(workload, "QuotaReserved"));
    CHECK(sim::HasCondition(workload, "Evicted"));
    CHECK(At(workload, "status", "schedulingStats", "evictions")[0]["count"] == 1);
  }
}

// Kueue had begun to stop it: its pods hold quota until they are gone.
TEST_CASE("A gang that Kueue was stopping keeps its quota until its pods are gone, then its Job is as it was") {
  const Running kLeaving[] = {{"inject-and-restore", 2, "mix"}, {"clusterqueue-holdanddrain", 3, "h"}};
  for (const Running& c : kLeaving) {
    INFO(c.id);
    KueueCluster cluster(c.id, c.step);
    cluster.world().controllers->SetPaused(true);
    REQUIRE(sim::Number(At(cluster.Job(c.job), "status", "active")) > 0);
    // Kueue's mark of a stop that is under way (kueue_semantics 2.7).
    cluster.world().Patch("jobs", c.id, c.job,
                          {{"metadata", {{"annotations", {{"kueue.x-k8s.io/stopping", "true"}}}}}});
    Process& muster = Lead(cluster.world(), "a");
    cluster.world().RunFor(seconds(20));
    const std::string uid = Text(At(cluster.Job(c.job), "metadata", "uid"));
    CHECK(muster.controller->engine()->ViewWorkload(uid)->claim.IsSet());
    CHECK(sim::HasCondition(cluster.WorkloadOf(c.job), "QuotaReserved"));
    cluster.world().controllers->SetPaused(false);
    REQUIRE(cluster.world().RunUntil(
        [&] { return !sim::HasCondition(cluster.WorkloadOf(c.job), "QuotaReserved") && cluster.Record(c.job).empty(); },
        minutes(2)));
    cluster.CheckRestored(c.job);
    // Counted by Kueue already.
    CHECK(At(cluster.WorkloadOf(c.job), "status", "schedulingStats", "evictions")[0]["count"] == 1);
    CHECK(sim::Flag(At(cluster.Job(c.job), "spec", "suspend")));
    CHECK_FALSE(At(cluster.Job(c.job), "metadata", "annotations").contains("kueue.x-k8s.io/stopping"));
  }
}

// Kueue had restored the template, and was about to take its mark away; or had suspended what ran without leave.
TEST_CASE("The mark of a stop that Kueue left on a Job is gone once the Job has started") {
  World world;
  world.MakeQueues("4");
  world.MakeJob("train", 2, 30);
  world.Patch("jobs", "team", "train", {{"metadata", {{"annotations", {{"kueue.x-k8s.io/stopping", "true"}}}}}});
  Lead(world, "a");
  REQUIRE(world.RunUntil([&] { return !sim::Flag(At(world.Get("jobs", "team", "train"), "spec", "suspend")); }));
  CHECK_FALSE(At(world.Get("jobs", "team", "train"), "metadata", "annotations").contains("kueue.x-k8s.io/stopping"));
}

// Kueue would start it again, too. Queued again, it would carry what Kueue put into its template.
TEST_CASE("A gang that somebody suspended while Kueue was leaving is started again, and its template is known") {
  KueueCluster cluster("inject-and-restore", 1);
  World& world = cluster.world();
  world.Patch("jobs", "inject-and-restore", "mix", {{"spec", {{"suspend", true}}}});
  REQUIRE(world.RunUntil([&] { return sim::Number(At(cluster.Job("mix"), "status", "active")) == 0; }));
  Lead(world, "a");
  REQUIRE(world.RunUntil([&] { return !sim::Flag(At(cluster.Job("mix"), "spec", "suspend")); }, minutes(2)));
  CHECK(At(cluster.Job("mix"), "spec", "template", "spec", "nodeSelector")["example.com/pool"] == "blue");
  CHECK(sim::HasCondition(cluster.WorkloadOf("mix"), "Admitted"));
  cluster.PatchWorkload("mix", {{"spec", {{"active", false}}}});
  REQUIRE(world.RunUntil(
      [&] { return sim::Flag(At(cluster.Job("mix"), "spec", "suspend")) && cluster.Record("mix").empty(); },
      minutes(2)));
  cluster.CheckRestored("mix");
}

TEST_CASE("What waited under Kueue waits on under Muster, with its reason, and starts when it can") {
  KueueCluster cluster("insufficient-quota", 1);
  const Json before = cluster.WorkloadOf("two");
  Lead(cluster.world(), "a");
  cluster.world().RunFor(minutes(1));
  CHECK(sim::Flag(At(cluster.Job("two"), "spec", "suspend")));
  const auto reserved = [](const Json& workload) {
    return Json(sim::FindCondition(At(workload, "status", "conditions"), "QuotaReserved"));
  };
  CHECK(reserved(cluster.WorkloadOf("two"))["reason"] == reserved(before)["reason"]);
  CHECK(reserved(cluster.WorkloadOf("two"))["message"] == reserved(before)["message"]);
  CHECK(reserved(cluster.WorkloadOf("two"))["lastTransitionTime"] == reserved(before)["lastTransitionTime"]);
  cluster.world().Delete("jobs", "insufficient-quota", "one");
  CHECK(cluster.world().RunUntil([&] { return !sim::Flag(At(cluster.Job("two"), "spec", "suspend")); }, minutes(2)));
}

TEST_CASE("What was deactivated under Kueue stays so") {
  KueueCluster cluster("active-false-pending", 1);
  const Json before = cluster.WorkloadOf("d")["status"];
  Lead(cluster.world(), "a");
  cluster.world().RunFor(minutes(1));
  CHECK(sim::Flag(At(cluster.Job("d"), "spec", "suspend")));
  CHECK(cluster.WorkloadOf("d")["status"] == before);
}

// ---- and back -----------------------------------------------------------------------------------

TEST_CASE("Released Jobs carry no record, their Workloads show what runs, and nothing starts or stops") {
  for (const Running& c : kRunning) {
    INFO(c.id);
    KueueCluster cluster(c.id, c.step);
    World& world = cluster.world();
    StopInOrder(world, Lead(world, "a"));
    const Json job = cluster.Job(c.job);
    Process& releasing = Lead(world, "b", /*release=*/true);
    REQUIRE(world.RunUntil([&] { return releasing.controller->health().release_left == size_t{0}; }, minutes(2)));
    CHECK(cluster.Record(c.job).empty());
    world.RunFor(minutes(1));
    CHECK(cluster.Record(c.job).empty());  // and it stays away
    CHECK(SpecOf(cluster.Job(c.job)) == SpecOf(job));
    const Json workload = cluster.WorkloadOf(c.job);
    CHECK(sim::HasCondition(workload, "Admitted"));
    CHECK(At(workload, "status", "admission", "podSetAssignments").size() == 1);
    StopInOrder(world, releasing);

    // Muster again, as if Kueue had done nothing in between.
    Process& again = Lead(world, "c");
    REQUIRE(world.RunUntil([&] { return !cluster.Record(c.job).empty(); }));
    CHECK(SpecOf(cluster.Job(c.job)) == SpecOf(job));
    again.controller->engine()->Validate();
  }
}

TEST_CASE("Gangs that Muster started itself are released: what runs, what leaves, what waits and what has ended") {
  World world;
  Process& muster = world.Start("a");
  world.MakeQueues("4");
  world.MakeJob("ended", 1, 5);
  REQUIRE(world.RunUntil([&] { return world.Finished("ended"); }, minutes(2)));
  world.MakeJob("runs", 2, 100'000);
  world.MakeJob("leaves", 2, 100'000);
  const auto suspended = [&](const char* name) {
    return sim::Flag(At(world.Get("jobs", "team", name), "spec", "suspend"));
  };
  REQUIRE(world.RunUntil([&] { return !suspended("runs") && !suspended("leaves"); }));
  world.MakeJob("waits", 2, 5);
  world.RunFor(seconds(10));
  // Stopped, its pods not gone yet, nothing of it shown: Muster dies in that moment.
  world.Patch("workloads", "team", Text(At(world.WorkloadOf("leaves"), "metadata", "name")),
              {{"spec", {{"active", false}}}});
  REQUIRE(world.RunUntil([&] { return suspended("leaves"); }));
  world.Kill(muster);
  const auto record = [&](const char* name) {
    return OrEmpty(At(world.Get("jobs", "team", name), "metadata", "annotations")).value(kRecord, "");
  };
  for (const char* name : {"ended", "runs", "leaves"}) REQUIRE_FALSE(record(name).empty());

  Process& releasing = Lead(world, "b", /*release=*/true);
  REQUIRE(world.RunUntil([&] { return releasing.controller->health().release_left == size_t{0}; }, minutes(5)));
  for (const char* name : {"ended", "runs", "leaves", "waits"}) {
    INFO(name);
    CHECK(record(name).empty());
  }
  CHECK_FALSE(suspended("runs"));
  CHECK(sim::HasCondition(world.WorkloadOf("runs"), "Admitted"));
  CHECK(suspended("leaves"));
  CHECK_FALSE(sim::HasCondition(world.WorkloadOf("leaves"), "QuotaReserved"));
  CHECK(sim::HasCondition(world.WorkloadOf("leaves"), "Evicted"));
  CHECK_FALSE(At(world.Get("jobs", "team", "leaves"), "spec", "template", "spec").contains("nodeSelector"));
  CHECK(sim::HasCondition(world.WorkloadOf("ended"), "Finished"));
  // The room that has come free is Kueue's to give away.
  world.RunFor(minutes(1));
  CHECK(suspended("waits"));
}

// It has no record on the Job yet: its Workload holds it, which Kueue reads.
TEST_CASE("A Job whose prebuilt Workload is reserved is released unstarted, and stays so") {
  World world;
  Process& muster = Lead(world, "a");
  world.MakeQueues("4");
  sim::FaultRule rule;
  rule.user = World::kMuster;
  rule.verbs = {"patch"};
  rule.resource = "jobs";
  rule.times = -1;
  rule.fault.kind = sim::Fault::Kind::kLoseRequest;
  const auto id = world.server.faults().Add(rule);
  world.Create(Json::parse(R"({"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"Workload",
    "metadata":{"namespace":"team","name":"own"},"spec":{"active":true,"queueName":"lq","podSets":[{"name":"main",
    "count":2,"template":{"spec":{"restartPolicy":"Never","containers":[
      {"name":"main","image":"work:1","resources":{"requests":{"cpu":"1"}}}]}}}]}})"));
  Json job = Json::parse(R"({"apiVersion":"batch/v1","kind":"Job","metadata":{"namespace":"team","name":"train",
    "labels":{"kueue.x-k8s.io/queue-name":"lq"},"annotations":{"kueue.x-k8s.io/prebuilt-workload-name":"own"}},
    "spec":{"suspend":true,"parallelism":2,"completions":2,"template":{"metadata":{"annotations":{}},
    "spec":{"restartPolicy":"Never","containers":[
      {"name":"main","image":"work:1","resources":{"requests":{"cpu":"1"}}}]}}}})");
  world.Create(job);
  const auto own = [&] { return world.Get("workloads", "team", "own"); };
  REQUIRE(world.RunUntil(
      [&] { return sim::HasCondition(own(), "Admitted") && !At(own(), "metadata", "ownerReferences").empty(); }));
  world.Kill(muster);
  world.server.faults().Remove(id);
  const Json status = own()["status"];
  Process& releasing = Lead(world, "b", /*release=*/true);
  REQUIRE(world.RunUntil([&] { return releasing.controller->health().release_left == size_t{0}; }, minutes(2)));
  world.RunFor(minutes(1));
  CHECK(releasing.controller->health().release_left == size_t{0});
  CHECK(sim::Flag(At(world.Get("jobs", "team", "train"), "spec", "suspend")));
  CHECK(own()["status"] == status);
  StopInOrder(world, releasing);
  Process& again = Lead(world, "c");
  REQUIRE(world.RunUntil([&] { return !sim::Flag(At(world.Get("jobs", "team", "train"), "spec", "suspend")); }));
  again.controller->engine()->Validate();
}

// A ResourceQuota on Workloads, say.
TEST_CASE("A release that waits for a Workload that is refused says for which, and why") {
  World world;
  sim::FaultRule rule;
  rule.user = World::kMuster;
  rule.verbs = {"create"};
  rule.resource = "workloads";
  rule.times = -1;
  rule.fault.kind = sim::Fault::Kind::kAnswer;
  rule.fault.status = 403;
  const auto id = world.server.faults().Add(rule);
  Process& muster = Lead(world, "a");
  world.MakeQueues("4");
  world.MakeJob("train", 2, 100'000);
  REQUIRE(world.RunUntil([&] { return !sim::Flag(At(world.Get("jobs", "team", "train"), "spec", "suspend")); }));
  world.RunFor(seconds(5));
  world.Kill(muster);
  Process& releasing = Lead(world, "b", /*release=*/true);
  world.RunFor(minutes(1));
  const Health health = releasing.controller->health();
  CHECK(health.release_left == size_t{1});
  const auto told = [](const std::string& problem) {
    return problem.find("Job team/train") != std::string::npos && problem.find("refused") != std::string::npos;
  };
  CHECK(std::count_if(health.problems.begin(), health.problems.end(), told) == 1);
  world.server.faults().Remove(id);
  REQUIRE(world.RunUntil([&] { return releasing.controller->health().release_left == size_t{0}; }, minutes(5)));
  CHECK(releasing.controller->health().problems.empty());
}

}  // namespace
}  // namespace muster::controller
