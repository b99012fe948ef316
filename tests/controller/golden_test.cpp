// What users see of Jobs, Workloads, queues and events equals what the reference showed: recorded cases are played
// again, step by step, against the simulated API server. The Job controller is played by the recording, as it was
// then.
//
// data/golden_jobs.jsonl: one case a line, {id, title, steps: [{do: {text, ops}, then: {...}}]}; in `then`, objects by
// name, reduced to what is compared, "same" where nothing changed since the step before.
#include <catch2/catch.hpp>
#include <fstream>
#include <regex>

#include "muster/controller/names.h"
#include "world.h"

namespace muster::controller {
namespace {

using sim::At;
using sim::Get;
using sim::Json;
using sim::Text;

// Where Muster differs on purpose; the compatibility page tells users.
struct Difference {
  const char* path;  // a regular expression of "case/step/kind/name/field"
  const char* why;
};
const Difference kDifferences[] = {
    {".*/events/.*\\|UpdatedWorkload\\|.*", "told on the same occasions, but named by what changed"},
    {"taint-mismatch/.*", "a taint is written as key=value:effect, not as a Go struct"},
    {"(affinity-terms|flavor-fallback|two-resource-groups)/[01]/events/.*Quota reserved in ClusterQueue.*",
     "flavors that were passed over are told by explain, not here"},
    {"((labels-annotations|inject-and-restore|two-resource-groups)/2|max-exec-time/1)/(clusterQueues|localQueues)/.*",
     "quota of a deactivated gang is free once its pods are inactive, not before"},
    {"localqueue-deleted-pending/1/clusterQueues/.*/pendingWorkloads",
     "what has lost its LocalQueue waits in no ClusterQueue"},
    {"strict-fifo/1/localQueues/.*/pendingWorkloads", "the workload that is being looked at waits, too"},
};

bool Allowed(const std::string& path) {
  for (const Difference& difference : kDifferences) {
    if (std::regex_match(path, std::regex(difference.path))) return true;
  }
  return false;
}

std::vector<Json> Cases() {
  std::ifstream file(std::string(MUSTER_SOURCE_DIR) + "/tests/controller/data/golden_jobs.jsonl");
  std::vector<Json> out;
  for (std::string line; std::getline(file, line);) out.push_back(Json::parse(line));
  return out;
}

Json Conditions(const Json& object) {
  std::map<std::string, Json> by_type;
  for (const Json& c : At(object, "status", "conditions")) {
    by_type[Text(Get(c, "type"))] = {{"type", Get(c, "type")},
                                     {"status", Get(c, "status")},
                                     {"reason", Get(c, "reason")},
                                     {"message", Get(c, "message")}};
  }
  Json out = Json::array();
  for (auto& [type, condition] : by_type) out.push_back(condition);
  return out;
}

Json MapOf(const Json& value) { return value.is_object() ? value : Json::object(); }
Json ListOf(const Json& value) { return value.is_array() ? value : Json::array(); }

// Fields that the API server defaults in pod specs are not compared.
void DropDefaults(Json* value) {
  if (value->is_array()) {
    for (Json& item : *value) DropDefaults(&item);
  } else if (value->is_object()) {
    for (const char* key : {"imagePullPolicy", "terminationMessagePath", "terminationMessagePolicy", "dnsPolicy",
                            "schedulerName", "securityContext", "terminationGracePeriodSeconds"}) {
      value->erase(key);
    }
    for (auto& [key, item] : value->items()) DropDefaults(&item);
  }
}

Json JobAsCompared(const Json& job) {
  const Json& spec = At(job, "spec");
  Json labels = MapOf(At(spec, "template", "metadata", "labels"));
  for (const char* key : {"controller-uid", "batch.kubernetes.io/controller-uid"}) labels.erase(key);
  return {{"uid", At(job, "metadata", "uid")},
          {"suspend", Get(spec, "suspend")},
          {"parallelism", Get(spec, "parallelism")},
          {"completions", Get(spec, "completions")},
          {"templateLabels", labels},
          {"templateAnnotations", MapOf(At(spec, "template", "metadata", "annotations"))},
          {"nodeSelector", MapOf(At(spec, "template", "spec", "nodeSelector"))},
          {"tolerations", ListOf(At(spec, "template", "spec", "tolerations"))}};
}

Json WorkloadAsCompared(const Json& workload) {
  Json labels = MapOf(At(workload, "metadata", "labels"));
  CHECK(labels.value("muster.dev/record", "") == "job");
  labels.erase("muster.dev/record");
  Json annotations = MapOf(At(workload, "metadata", "annotations"));
  annotations.erase("muster.dev/claim");
  Json status = MapOf(At(workload, "status"));
  status.erase("conditions");
  if (status.contains("accumulatedPastExexcutionTimeSeconds")) status.erase("accumulatedPastExexcutionTimeSeconds");
  if (status.contains("accumulatedPastExecutionTimeSeconds")) {
    status["accumulatedPastExecutionTimeSeconds"] = "<seconds>";
  }
  Json spec = At(workload, "spec");
  DropDefaults(&spec);
  Json owners = ListOf(At(workload, "metadata", "ownerReferences"));
  return {{"labels", labels}, {"annotations", annotations}, {"owner", owners},
          {"spec", spec},     {"status", status},           {"conditions", Conditions(workload)}};
}

Json QueueAsCompared(const Json& queue) {
  Json out = MapOf(At(queue, "status"));
  out.erase("flavorUsage");
  out["conditions"] = Conditions(queue);
  return out;
}

class Replay {
 public:
  explicit Replay(const Json& golden) : golden_(golden), id_(Text(Get(golden, "id"))), world_(1, false) {
    world_.Create({{"apiVersion", "v1"},
                   {"kind", "Namespace"},
                   {"metadata", {{"name", id_}, {"labels", {{"kubernetes.io/metadata.name", id_}}}}}});
    world_.Start();
  }

  void Run() {
    int n = 0;
    for (const Json& step : Get(golden_, "steps")) {
      for (const Json& op : At(step, "do", "ops")) {
        Do(op);
        world_.RunFor(std::chrono::seconds(1));  // by hand, one after the other
      }
      world_.RunFor(Settled(n));
      INFO(id_ << " step " << n << ": " << Text(At(step, "do", "text")));
      Compare(n++, Get(step, "then"));
    }
    world_.processes[0]->controller->engine()->Validate();
  }

 private:
  // How long after its operations a step was looked at.
  Duration Settled(int step) const {
    // Before the four seconds are over that the Job may run.
    if (id_ == "max-exec-time" && step == 0) return std::chrono::seconds(2);
    return std::chrono::seconds(20);
  }

  static std::string PluralOf(const std::string& kind) {
    static const std::map<std::string, std::string> plurals = {{"Job", "jobs"},
                                                               {"Workload", "workloads"},
                                                               {"ClusterQueue", "clusterqueues"},
                                                               {"LocalQueue", "localqueues"},
                                                               {"Namespace", "namespaces"},
                                                               {"ResourceFlavor", "resourceflavors"}};
    return plurals.at(kind);
  }

  // Times are now; names of Workloads are those of this run.
  Json Translate(Json value) {
    std::string text = value.dump();
    const auto replace = [&text](const std::string& from, const std::string& to) {
      for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
        text.replace(at, from.size(), to);
      }
    };
    for (const auto& [from, to] : names_) replace(from, to);
    return Json::parse(text);
  }

  void Do(const Json& op) {
    const std::string verb = Text(Get(op, "op"));
    if (op.contains("error")) return;  // what the API server's own rules refuse
    if (verb == "create") {
      world_.Create(Get(op, "object"));
      return;
    }
    const std::string kind = Text(Get(op, "kind"));
    const std::string ns = kind == "Job" || kind == "Workload" || kind == "LocalQueue" ? id_ : std::string();
    const std::string name = Text(Translate(Get(op, "name")));
    if (verb == "delete") {
      world_.Delete(PluralOf(kind), ns, name, Text(Get(op, "propagationPolicy"), "Background"));
      if (kind == "Job") CollectGarbage(name, Text(Get(op, "propagationPolicy")));
      return;
    }
    std::string patch = Get(op, "patch").dump();
    const std::string now = FormatTime(world_.executor.Now());
    for (size_t at = patch.find("<time>"); at != std::string::npos; at = patch.find("<time>")) {
      patch.replace(at, 6, now);
    }
    Json merge = Json::parse(patch);
    // The recording says only that there is a start time; once set it stays while the Job runs.
    if (const Json started = At(world_.Get(PluralOf(kind), ns, name), "status", "startTime");
        started.is_string() && At(merge, "status", "startTime").is_string()) {
      merge["status"]["startTime"] = started;
    }
    world_.Patch(PluralOf(kind), ns, name, merge, verb == "patchStatus" ? "status" : "");
  }

  // As the garbage collector would have done by the end of the step.
  void CollectGarbage(const std::string& job, const std::string& propagation) {
    if (!world_.Get("jobs", id_, job).is_null()) {
      world_.Patch("jobs", id_, job, {{"metadata", {{"finalizers", nullptr}}}});
    }
    for (const Json& workload : world_.List("workloads", id_)) {
      const Json& owner = At(workload, "metadata", "ownerReferences")[0];
      if (!world_.Get("jobs", id_, Text(Get(owner, "name"))).is_null()) continue;
      if (propagation == "Orphan") {
        world_.Patch("workloads", id_, Text(At(workload, "metadata", "name")),
                     {{"metadata", {{"ownerReferences", nullptr}}}});
      } else {
        world_.Delete("workloads", id_, Text(At(workload, "metadata", "name")));
      }
    }
  }

  void LearnNames(const Json& expected) {
    for (const auto& [name, job] : Get(expected, "jobs").items()) {
      if (!job.is_object()) continue;
      const Json actual = world_.Get("jobs", id_, name);
      if (actual.is_null()) continue;
      const std::string then = Text(Get(job, "uid"));
      const std::string now = Text(At(actual, "metadata", "uid"));
      names_[then] = now;
      names_[WorkloadName("Job", "batch", name, then)] = WorkloadName("Job", "batch", name, now);
    }
  }

  void Compare(int step, const Json& expected) {
    LearnNames(expected);
    CompareObjects(step, expected, "jobs", "jobs", JobAsCompared);
    CompareObjects(step, expected, "workloads", "workloads", WorkloadAsCompared);
    CompareObjects(step, expected, "clusterQueues", "clusterqueues", QueueAsCompared);
    CompareObjects(step, expected, "localQueues", "localqueues", QueueAsCompared);
    CompareEvents(step, Get(expected, "events"));
  }

  void CompareObjects(int step, const Json& expected, const std::string& key, const std::string& plural,
                      Json (*as_compared)(const Json&)) {
    std::map<std::string, Json> wanted;
    for (const auto& [name, object] : Get(expected, key).items()) {
      if (object.is_object()) last_[key + "/" + name] = object;
      wanted[Text(Translate(name))] = Translate(last_.at(key + "/" + name));
    }
    std::map<std::string, Json> found;
    for (const Json& object : world_.List(plural, plural == "clusterqueues" ? "" : id_)) {
      found[Text(At(object, "metadata", "name"))] = as_compared(object);
    }
    for (auto& [name, object] : wanted) {
      const std::string path = id_ + "/" + std::to_string(step) + "/" + key + "/" + name;
      if (!found.contains(name)) {
        if (!Allowed(path)) FAIL_CHECK(path << " is missing");
        continue;
      }
      for (const auto& [field, value] : object.items()) CompareField(path + "/" + field, value, found[name][field]);
      for (const auto& [field, value] : found[name].items()) {
        if (!object.contains(field)) CompareField(path + "/" + field, nullptr, value);
      }
      found.erase(name);
    }
    for (const auto& [name, object] : found) {
      const std::string path = id_ + "/" + std::to_string(step) + "/" + key + "/" + name;
      if (!Allowed(path)) FAIL_CHECK(path << " is too many");
    }
  }

  static void CompareField(const std::string& path, const Json& wanted, const Json& found) {
    if (wanted == found || Allowed(path)) return;
    FAIL_CHECK(path << "\n  wanted " << wanted.dump() << "\n  found  " << found.dump());
  }

  void CompareEvents(int step, const Json& expected) {
    std::set<std::string> found;
    static const std::regex seconds("was [0-9]+s");
    for (const Json& event : world_.List("events", id_)) {
      const std::string uid = Text(At(event, "metadata", "uid")) + Get(event, "series").dump();
      if (!events_seen_.insert(uid).second) continue;
      const std::string note = std::regex_replace(Text(Get(event, "note")), seconds, "was <n>s");
      found.insert(Text(At(event, "regarding", "kind")) + "|" + Text(At(event, "regarding", "name")) + "|" +
                   Text(Get(event, "type")) + "|" + Text(Get(event, "reason")) + "|" + note + "|" +
                   Text(Get(event, "reportingController")));
    }
    const std::string path = id_ + "/" + std::to_string(step) + "/events/";
    for (const Json& event : expected) {
      const std::string text = Text(Translate(event));
      // Repeated in the same words, it is no news and may be left to the series.
      const bool repeated = !ever_.insert(text).second;
      if (found.erase(text) == 0 && !repeated && !Allowed(path + text)) FAIL_CHECK(path << text << " is missing");
    }
    for (const std::string& text : found) {
      if (ever_.insert(text).second && !Allowed(path + text)) FAIL_CHECK(path << text << " is too many");
    }
  }

  const Json& golden_;
  std::string id_;
  World world_;
  std::map<std::string, std::string> names_;
  std::map<std::string, Json> last_;
  std::set<std::string> events_seen_;
  std::set<std::string> ever_;
};

TEST_CASE("What users see equals the reference's recordings") {
  const std::vector<Json> cases = Cases();
  REQUIRE(cases.size() >= 40);
  for (const Json& golden : cases) {
    DYNAMIC_SECTION(Text(Get(golden, "id"))) { Replay(golden).Run(); }
  }
}

}  // namespace
}  // namespace muster::controller
