#include "stage.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <regex>

#include "muster/sim/json_patch.h"

namespace muster::scenarios {
namespace {

constexpr std::string_view kKueue = "/apis/kueue.x-k8s.io/v1beta2/";
constexpr const char* kRecord = "muster.dev/admission";
constexpr std::chrono::seconds kPatience{60};

std::string Dashed(std::string name) {
  std::ranges::replace(name, '_', '-');
  return name;
}

Json Object(const std::string& kind, const std::string& name) {
  return {{"apiVersion", "kueue.x-k8s.io/v1beta2"}, {"kind", kind}, {"metadata", {{"name", name}}}};
}

Json ResourceGroups(const std::vector<Quota>& quotas) {
  Json flavors = Json::array();
  Json covered = Json::array();
  for (const Quota& quota : quotas) {
    Json resource = {{"name", quota.resource}, {"nominalQuota", std::to_string(quota.nominal)}};
    if (quota.borrowing_limit >= 0) resource["borrowingLimit"] = std::to_string(quota.borrowing_limit);
    if (quota.lending_limit >= 0) resource["lendingLimit"] = std::to_string(quota.lending_limit);
    auto flavor = std::ranges::find_if(flavors, [&](const Json& f) { return f["name"] == quota.flavor; });
    if (flavor == flavors.end()) {
      flavors.push_back({{"name", quota.flavor}, {"resources", Json::array()}});
      flavor = std::prev(flavors.end());
    }
    (*flavor)["resources"].push_back(std::move(resource));
    if (std::ranges::find(covered, Json(quota.resource)) == covered.end()) covered.push_back(quota.resource);
  }
  return Json::array({{{"coveredResources", covered}, {"flavors", flavors}}});
}

// The conditions as "True/Reason: message", by type.
Json ConditionsOf(const Json& object) {
  Json out = Json::object();
  for (const Json& condition : At(object, "status", "conditions")) {
    out[Text(sim::Get(condition, "type"))] = Text(sim::Get(condition, "status")) + "/" +
                                             Text(sim::Get(condition, "reason")) + ": " +
                                             Text(sim::Get(condition, "message"));
  }
  return out;
}

Json JobFacts(const Json& job) {
  const Json& pods = At(job, "spec", "template");
  const auto without_uid = [](Json labels) {
    for (const char* key : {"controller-uid", "batch.kubernetes.io/controller-uid"}) {
      if (labels.contains(key)) labels.erase(key);
    }
    return labels;
  };
  Json annotations = At(pods, "metadata", "annotations");
  // Its name holds a hash of the Job's uid.
  if (annotations.contains("kueue.x-k8s.io/workload")) annotations["kueue.x-k8s.io/workload"] = "a name";
  Json conditions = Json::object();
  for (const Json& condition : At(job, "status", "conditions")) {
    // Those that are not true are there or not, as the job controller happened to look.
    if (Text(sim::Get(condition, "status")) != "True") continue;
    conditions[Text(sim::Get(condition, "type"))] = sim::Get(condition, "reason");
  }
  const Json record = sim::ParseJson(Text(At(job, "metadata", "annotations", kRecord))).value_or(Json());
  return {{"suspend", Flag(At(job, "spec", "suspend"))},
          {"parallelism", At(job, "spec", "parallelism")},
          {"completions", At(job, "spec", "completions")},
          {"labels", without_uid(At(job, "metadata", "labels"))},
          {"templateLabels", without_uid(At(pods, "metadata", "labels"))},
          {"templateAnnotations", annotations},
          {"nodeSelector", At(pods, "spec", "nodeSelector")},
          {"tolerations", At(pods, "spec", "tolerations")},
          {"record", sim::Get(record, "state")},
          {"recordQueues", Text(sim::Get(record, "clusterQueue")) + " " + Text(sim::Get(record, "localQueue"))},
          {"conditions", conditions},
          {"active", Number(At(job, "status", "active"))},
          {"ready", Number(At(job, "status", "ready"))},
          {"succeeded", Number(At(job, "status", "succeeded"))},
          {"failed", Number(At(job, "status", "failed"))}};
}

Json WorkloadFacts(const Json& workload) {
  Json conditions = ConditionsOf(workload);
  // Its name holds a hash of the Job's uid.
  const std::string name = Text(At(workload, "metadata", "name"));
  for (Json& condition : conditions) {
    std::string text = Text(condition);
    if (const size_t at = text.find(name); at != std::string::npos) condition = text.replace(at, name.size(), "NAME");
  }
  // Whether the last of its pods were seen ready before they ended is chance.
  if (conditions.contains("Finished")) conditions.erase("PodsReady");
  // Whether anybody saw that pods were missing, for a moment, is chance too.
  if (conditions.contains("PodsReady") && Text(conditions["PodsReady"]).starts_with("True/")) {
    conditions["PodsReady"] = "True";
  }
  return {{"conditions", conditions},
          {"admission", At(workload, "status", "admission")},
          {"evictions", At(workload, "status", "schedulingStats", "evictions")},
          {"requeues", Number(At(workload, "status", "requeueState", "count"))},
          {"queueName", At(workload, "spec", "queueName")},
          {"priority", Number(At(workload, "spec", "priority"))},
          {"active", Flag(At(workload, "spec", "active"), true)},
          {"record", At(workload, "metadata", "labels", "muster.dev/record")}};
}

Json QueueFacts(const Json& queue) {
  const Json& status = sim::Get(queue, "status");
  Json out = {{"conditions", ConditionsOf(queue)}};
  for (const char* key : {"pendingWorkloads", "reservingWorkloads", "admittedWorkloads"}) {
    out[key] = sim::Get(status, key);
  }
  for (const char* key : {"flavorsReservation", "flavorsUsage"}) out[key] = sim::Get(status, key);
  return out;
}

}  // namespace

Stage::Stage(World* world, std::string name, const std::vector<Checkpoint>* expected)
    : world_(world), name_(Dashed(std::move(name))), expected_(expected) {
  Post("/api/v1/namespaces", {{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", {{"name", name_}}}});
  const std::string version = Text(At(Get(JobsPath()), "metadata", "resourceVersion"));
  jobs_ = world_->Watch(JobsPath() + "?resourceVersion=" + version);
}

void Stage::Configure(const std::string& yaml) {
  configured_ = !yaml.empty();
  world_->KillMuster();
  world_->Configure(yaml);
  world_->StartMuster();
}

std::string Stage::ClusterQueue(const std::string& queue) const {
  return std::string(kKueue) + "clusterqueues/" + name_ + "-" + queue;
}
std::string Stage::LocalQueue(const std::string& queue) const {
  return std::string(kKueue) + "namespaces/" + name_ + "/localqueues/" + queue;
}
std::string Stage::Cohort(const std::string& cohort) const {
  return std::string(kKueue) + "cohorts/" + CohortName(cohort);
}
std::string Stage::JobsPath() const { return "/apis/batch/v1/namespaces/" + name_ + "/jobs"; }
std::string Stage::JobPath(const std::string& job) const { return JobsPath() + "/" + job; }

// ---- requests -----------------------------------------------------------------------------------

Json Stage::Post(const std::string& path, const Json& object) {
  // A kind, or a namespace, that is new can be unknown to the admission policies for a moment.
  Response response;
  world_->Await([&] { return (response = world_->Call("POST", path, object.dump())).code != 503; }, kPatience);
  INFO(path << " " << object << "\n" << response.code << " " << response.body);
  REQUIRE(response.ok());
  return response.body;
}

Json Stage::Patch(const std::string& path, const Json& merge) {
  const Response response = world_->Call("PATCH", path, merge.dump(), kMergePatch);
  INFO(path << " " << merge << "\n" << response.code << " " << response.body);
  REQUIRE(response.ok());
  return response.body;
}

void Stage::Delete(const std::string& path, const std::string& propagation) {
  const Response response = world_->Call("DELETE", path + "?propagationPolicy=" + propagation);
  INFO(path << "\n" << response.code << " " << response.body);
  REQUIRE(response.ok());
}

Json Stage::Get(const std::string& path) {
  Response response = world_->Call("GET", path);
  if (response.code == 404) return {};
  if (!response.ok()) FAIL("GET " << path << ": " << response.code << " " << response.body);
  return std::move(response.body);
}

std::vector<Json> Stage::List(const std::string& path) {
  const Json list = Get(path);
  return list["items"].get<std::vector<Json>>();
}

void Stage::MakeClusterQueue(const QueueSpec& spec) {
  Json queue = Object("ClusterQueue", name_ + "-" + spec.name);
  queue["spec"] = {{"namespaceSelector", spec.namespace_selector},
                   {"queueingStrategy", spec.strategy},
                   {"stopPolicy", "None"},
                   {"resourceGroups", ResourceGroups(spec.quotas)}};
  if (!spec.preemption.empty()) {
    queue["spec"]["preemption"] = spec.preemption;
    preempts_ = true;
  }
  if (!spec.cohort.empty()) queue["spec"]["cohortName"] = CohortName(spec.cohort);
  judge_.Queue(Post(std::string(kKueue) + "clusterqueues", queue));
  AwaitKnown(ClusterQueue(spec.name));
}

void Stage::MakeLocalQueue(const std::string& name, const std::string& cluster_queue) {
  Json queue = Object("LocalQueue", name);
  queue["spec"] = {{"clusterQueue", name_ + "-" + cluster_queue}, {"stopPolicy", "None"}};
  Post(std::string(kKueue) + "namespaces/" + name_ + "/localqueues", queue);
  AwaitKnown(LocalQueue(name));
}

void Stage::MakeQueue(const QueueSpec& spec) {
  MakeClusterQueue(spec);
  if (!spec.local_queue.empty()) MakeLocalQueue(spec.local_queue, spec.name);
}

void Stage::EditClusterQueue(const std::string& queue, const Json& spec) {
  judge_.Queue(Patch(ClusterQueue(queue), {{"spec", spec}}));
  AwaitKnown(ClusterQueue(queue));
}

void Stage::EditLocalQueue(const std::string& queue, const Json& spec) {
  Patch(LocalQueue(queue), {{"spec", spec}});
  AwaitKnown(LocalQueue(queue));
}

void Stage::DeleteClusterQueue(const std::string& queue) {
  Delete(ClusterQueue(queue));
  const Json left = Get(std::string(kKueue) + "clusterqueues");
  judge_.QueueDeleted(name_ + "-" + queue, Text(At(left, "metadata", "resourceVersion")));
}

void Stage::MakeCohort(const std::string& cohort, const std::string& parent, const std::vector<Quota>& quotas) {
  Json object = Object("Cohort", CohortName(cohort));
  object["spec"] = Json::object();
  if (!parent.empty()) object["spec"]["parentName"] = CohortName(parent);
  if (!quotas.empty()) object["spec"]["resourceGroups"] = ResourceGroups(quotas);
  judge_.Cohort(Post(std::string(kKueue) + "cohorts", object));
}

void Stage::DeleteCohort(const std::string& cohort) {
  Delete(Cohort(cohort));
  const Json left = Get(std::string(kKueue) + "cohorts");
  judge_.CohortDeleted(CohortName(cohort), Text(At(left, "metadata", "resourceVersion")));
}

void Stage::SetQuota(const std::string& queue, const std::vector<Quota>& quotas) {
  EditClusterQueue(queue, {{"resourceGroups", ResourceGroups(quotas)}});
}

Json Stage::JobObject(const JobSpec& spec) {
  const Json container = {
      {"name", "main"}, {"image", "train:1"}, {"resources", {{"requests", {{"cpu", std::to_string(spec.cpu)}}}}}};
  const Json pods = {{"metadata",
                      {{"labels", {{"app", spec.name}}},
                       {"annotations",
                        {{"muster.dev/start-seconds", spec.start},
                         {"muster.dev/run-seconds", spec.seconds},
                         {"muster.dev/termination-seconds", spec.dying},
                         {"muster.dev/exit-code", spec.exit_code}}}}},
                     {"spec",
                      {{"restartPolicy", "Never"},
                       {"terminationGracePeriodSeconds", spec.dying == "0" ? 0 : 30},
                       {"containers", Json::array({container})}}}};
  Json job = {
      {"apiVersion", "batch/v1"},
      {"kind", "Job"},
      {"metadata", {{"name", spec.name}, {"labels", spec.labels}, {"annotations", spec.annotations}}},
      {"spec", {{"parallelism", spec.pods}, {"completions", spec.pods}, {"backoffLimit", 0}, {"template", pods}}}};
  if (!spec.queue.empty()) job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = spec.queue;
  sim::ApplyMergePatch(spec.spec, &job["spec"]);
  return job;
}

void Stage::MakeClass(const std::string& name, int value) {
  Json object = Object("WorkloadPriorityClass", ClassName(name));
  object["value"] = value;
  Post(std::string(kKueue) + "workloadpriorityclasses", object);
}
std::string Stage::Class(const std::string& name) const {
  return std::string(kKueue) + "workloadpriorityclasses/" + ClassName(name);
}

Json Stage::Submit(JobSpec spec) {
  if (!spec.priority.empty()) spec.labels["kueue.x-k8s.io/priority-class"] = ClassName(spec.priority);
  return Post(JobsPath(), JobObject(spec));
}

Json Stage::Probe(const JobSpec& spec) {
  probed_ = true;
  Json job = Submit(spec);
  Delete(JobPath(spec.name));
  return job;
}

// ---- looks --------------------------------------------------------------------------------------

Json Stage::Workload(const std::string& job) {
  const std::string uid = Text(At(Job(job), "metadata", "uid"));
  for (Json& workload : List(std::string(kKueue) + "namespaces/" + name_ + "/workloads")) {
    for (const Json& owner : At(workload, "metadata", "ownerReferences")) {
      if (uid.empty() || Text(sim::Get(owner, "uid")) != uid) continue;
      const Json& finished = sim::FindCondition(At(workload, "status", "conditions"), "Finished");
      if (Text(sim::Get(finished, "reason")) != "WorkloadSliceReplaced") return std::move(workload);
    }
  }
  return {};
}

std::string Stage::Condition(const std::string& job, const std::string& type) {
  const Json workload = Workload(job);
  const Json& condition = sim::FindCondition(At(workload, "status", "conditions"), type);
  if (condition.is_null()) return "";
  return Text(sim::Get(condition, "status")) + "/" + Text(sim::Get(condition, "reason"));
}

std::string Stage::Message(const std::string& job, const std::string& type) {
  const Json workload = Workload(job);
  return Text(sim::Get(sim::FindCondition(At(workload, "status", "conditions"), type), "message"));
}

std::string Stage::FlavorOf(const std::string& job) {
  return Text(At(Job(job), "spec", "template", "spec", "nodeSelector", "muster.dev/flavor"));
}

// Muster reports under the names that Kueue's controllers have.
std::set<std::string> Stage::Events() {
  std::set<std::string> events;
  for (const Json& event : List("/apis/events.k8s.io/v1/namespaces/" + name_ + "/events")) {
    if (Text(sim::Get(event, "reportingController")).find("kueue") == std::string::npos) continue;
    const Json& regarding = sim::Get(event, "regarding");
    const std::string kind = Text(sim::Get(regarding, "kind"));
    const std::string name = kind == "Workload" ? std::string("of a Job") : Text(sim::Get(regarding, "name"));
    events.insert(Text(sim::Get(event, "type")) + " " + kind + "/" + name + " " + Text(sim::Get(event, "reason")));
  }
  return events;
}

// A watch lags a little: all that the API server has now must have come.
void Stage::AwaitSeen() {
  const auto key = [](const Json& job) {
    return Text(At(job, "metadata", "uid")) + " " + Text(At(job, "metadata", "resourceVersion"));
  };
  std::vector<std::string> wanted;
  for (const Json& job : List(JobsPath())) wanted.push_back(key(job));
  Await("the watch has caught up", [&] {
    std::vector<std::string> seen;
    for (const Json& line : jobs_->Lines()) seen.push_back(key(sim::Get(line, "object")));
    return std::ranges::all_of(wanted, [&](const std::string& w) { return std::ranges::find(seen, w) != seen.end(); });
  });
}

int Stage::Starts(const std::string& job) {
  AwaitSeen();
  return StartsOf(jobs_->Lines())[job];
}

int Stage::Evictions(const std::string& job) {
  int sum = 0;
  const Json workload = Workload(job);
  for (const Json& count : At(workload, "status", "schedulingStats", "evictions")) {
    sum += static_cast<int>(Number(sim::Get(count, "count")));
  }
  return sum;
}

int Stage::Told(const std::string& reason) {
  int sum = 0;
  for (const Json& event : List("/apis/events.k8s.io/v1/namespaces/" + name_ + "/events")) {
    if (Text(sim::Get(event, "reason")) != reason) continue;
    sum += static_cast<int>(Number(At(event, "series", "count"), 1));
  }
  return sum;
}

// ---- waits --------------------------------------------------------------------------------------

void Stage::Await(const std::string& what, const std::function<bool()>& holds) {
  if (world_->Await(holds, kPatience)) return;
  FAIL("never: " << what << "\n" << Facts().dump(1) << "\n" << world_->Diagnostics());
}

void Stage::AwaitRunning(const std::string& job) {
  Await(job + " runs", [&] {
    const Json now = Job(job);
    return !now.is_null() && !Flag(At(now, "spec", "suspend")) &&
           Number(At(now, "status", "active")) == Number(At(now, "spec", "parallelism")) &&
           Condition(job, "Admitted") == "True/Admitted";
  });
}

void Stage::AwaitPods(const std::string& job, int open, int held) {
  const std::string path = "/api/v1/namespaces/" + name_ + "/pods";
  Await(job + " has " + std::to_string(open) + " pods, and " + std::to_string(held) + " are held", [&] {
    std::map<bool, int> counts;
    for (const Json& pod : List(path)) {
      const Json& owners = At(pod, "metadata", "ownerReferences");
      if (owners.empty() || Text(sim::Get(owners[0], "name")) != job) continue;
      if (!At(pod, "metadata", "deletionTimestamp").is_null()) continue;
      ++counts[At(pod, "spec", "schedulingGates").empty()];
    }
    return counts[true] == open && counts[false] == held;
  });
}

void Stage::AwaitWaiting(const std::string& job, const std::string& reason) {
  Await(job + " waits: " + reason, [&] {
    if (!reason.empty()) return Condition(job, "QuotaReserved") == "False/" + reason;
    return !Workload(job).is_null() && Condition(job, "QuotaReserved").empty();
  });
}

void Stage::AwaitFinished(const std::string& job, const std::string& reason) {
  Await(job + " is finished", [&] { return Condition(job, "Finished") == "True/" + reason; });
}

void Stage::AwaitStopped(const std::string& job) {
  Await(job + " is stopped", [&] {
    const Json now = Job(job);
    return Flag(At(now, "spec", "suspend")) && Number(At(now, "status", "active")) == 0 &&
           !At(now, "metadata", "annotations").contains(kRecord) &&
           Text(At(now, "spec", "template", "spec", "nodeSelector", "muster.dev/flavor")).empty();
  });
}

// Its Active condition is about the object as it is.
void Stage::AwaitKnown(const std::string& queue) {
  Await("Muster knows " + queue, [&] {
    const Json now = Get(queue);
    const Json& active = sim::FindCondition(At(now, "status", "conditions"), "Active");
    return Number(sim::Get(active, "observedGeneration")) == Number(At(now, "metadata", "generation"), -1);
  });
}

void Stage::AwaitGone(const std::string& path) {
  Await(path + " is gone", [&] { return Get(path).is_null(); });
}

void Stage::AwaitTold(const std::string& reason, int times) {
  Await(reason + " is told", [&] { return Told(reason) >= times; });
}

void Stage::AwaitUsage(const std::string& queue, int total, int borrowed, const std::string& flavor,
                       const std::string& resource) {
  const std::string wanted = std::to_string(total) + " " + std::to_string(borrowed);
  Await(queue + " uses " + wanted + " of " + flavor + "/" + resource, [&] {
    const Json queue_now = Get(ClusterQueue(queue));
    for (const Json& of : At(queue_now, "status", "flavorsUsage")) {
      if (Text(sim::Get(of, "name")) != flavor) continue;
      for (const Json& used : sim::Get(of, "resources")) {
        if (Text(sim::Get(used, "name")) != resource) continue;
        return Text(sim::Get(used, "total")) + " " + Text(sim::Get(used, "borrowed"), "0") == wanted;
      }
    }
    return false;
  });
}

void Stage::Crash(const std::function<void()>& meanwhile) {
  world_->KillMuster();
  crashed_ = true;
  meanwhile();
  world_->StartMuster();
}

// ---- judging ------------------------------------------------------------------------------------

Json Stage::Facts() {
  Json facts = {{"jobs", Json::object()}, {"workloads", Json::object()}, {"queues", Json::object()}};
  for (const Json& job : List(JobsPath())) facts["jobs"][Text(At(job, "metadata", "name"))] = JobFacts(job);
  for (const Json& workload : List(std::string(kKueue) + "namespaces/" + name_ + "/workloads")) {
    const Json& owners = At(workload, "metadata", "ownerReferences");
    const std::string owner = owners.empty() ? std::string("nobody") : Text(sim::Get(owners[0], "name"));
    Json of_workload = WorkloadFacts(workload);
    if (preempts_) of_workload["conditions"].erase("muster.dev/Waiting");
    if (deletes_while_evicting_ && owners.empty()) {
      of_workload = {{"finished", sim::Get(of_workload["conditions"], "Finished")}};
    }
    facts["workloads"][owner].push_back(std::move(of_workload));
  }
  // Their names end in a hash of the uid.
  for (auto& [owner, workloads] : facts["workloads"].items()) std::sort(workloads.begin(), workloads.end());
  for (const Json& queue : List(std::string(kKueue) + "clusterqueues")) {
    const std::string name = Text(At(queue, "metadata", "name"));
    if (name.starts_with(name_ + "-")) facts["queues"]["ClusterQueue " + name] = QueueFacts(queue);
  }
  for (const Json& queue : List(std::string(kKueue) + "namespaces/" + name_ + "/localqueues")) {
    facts["queues"]["LocalQueue " + Text(At(queue, "metadata", "name"))] = QueueFacts(queue);
  }
  // What was not told yet at a crash is lost: Events are aggregated, and may be dropped.
  if (!crashed_ && !probed_) {
    std::set<std::string> events = Events();
    std::erase_if(
        events, [&](const std::string& event) { return told_by_chance_.contains(event.substr(event.rfind(' ') + 1)); });
    facts["events"] = events;
  }
  return Comparable(facts);
}

Json Stage::Comparable(const Json& facts) const {
  std::string text = facts.dump();
  for (const Json& line : jobs_->Lines()) {
    const Json& meta = At(sim::Get(line, "object"), "metadata");
    const std::string uid = Text(sim::Get(meta, "uid"));
    const std::string name = "<uid of " + Text(sim::Get(meta, "name")) + ">";
    for (size_t at = text.find(uid); !uid.empty() && at != std::string::npos; at = text.find(uid, at + name.size())) {
      text.replace(at, uid.size(), name);
    }
  }
  // The Workload of a preemptor may or may not have been there when it was named.
  static const std::regex workload_uid(R"(\(UID: [^,)]*, JobUID)");
  static const std::regex time("until [0-9T:-]+Z");
  text = std::regex_replace(text, workload_uid, "(UID: <some>, JobUID");
  return Json::parse(std::regex_replace(text, time, "until <time>"));
}

void Stage::Check(const std::string& title) {
  if (expected_ == nullptr) {
    world_->Pass(std::chrono::seconds(10));
    checkpoints_.push_back({title, Facts()});
    return;
  }
  REQUIRE(checkpoints_.size() < expected_->size());
  const Json& expected = (*expected_)[checkpoints_.size()].facts;
  Json facts;
  const bool agrees = world_->Await([&] { return (facts = Facts()) == expected; }, kPatience);
  checkpoints_.push_back({title, facts});
  INFO("at \"" << title << "\", what to change in the first world's facts to get this one's:\n"
               << Json::diff(expected, facts).dump(1) << "\n"
               << (agrees ? "" : world_->Diagnostics()));
  CHECK(agrees);
}

void Stage::CheckInvariants() {
  AwaitSeen();
  std::string text;
  for (const std::string& finding : judge_.Findings(jobs_->Lines())) text += finding + "\n";
  INFO(text);
  CHECK(text.empty());
}

void Stage::Close() {
  if (configured_) Configure("");
  world_->Call("DELETE", JobsPath() + "?propagationPolicy=Background");
  for (const Json& queue : List(std::string(kKueue) + "clusterqueues")) {
    const std::string name = Text(At(queue, "metadata", "name"));
    if (name.starts_with(name_ + "-")) world_->Call("DELETE", std::string(kKueue) + "clusterqueues/" + name);
  }
  for (const Json& cohort : List(std::string(kKueue) + "cohorts")) {
    const std::string name = Text(At(cohort, "metadata", "name"));
    if (name.starts_with(name_ + "-")) world_->Call("DELETE", std::string(kKueue) + "cohorts/" + name);
  }
}

}  // namespace muster::scenarios
