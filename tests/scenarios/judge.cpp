#include "judge.h"

#include <algorithm>

namespace muster::scenarios {
namespace {

using sim::At;
using sim::Flag;
using sim::Get;
using sim::Json;
using sim::Number;
using sim::Text;

constexpr const char* kQueueName = "kueue.x-k8s.io/queue-name";
constexpr const char* kRecord = "muster.dev/admission";
constexpr const char* kFlavorLabel = "muster.dev/flavor";

int64_t VersionOf(const Json& object) { return std::stoll(Text(At(object, "metadata", "resourceVersion"), "0")); }

int64_t Amount(const Json& quantity) { return quantity.is_string() ? std::stoll(Text(quantity)) : Number(quantity); }

bool IsOver(const Json& job) { return sim::HasCondition(job, "Complete") || sim::HasCondition(job, "Failed"); }

Json RecordOf(const Json& job) {
  return sim::ParseJson(Text(At(job, "metadata", "annotations", kRecord))).value_or(Json());
}

// Pods that the Job still needs: what has succeeded is not made again.
int64_t Needed(const Json& job) {
  const int64_t parallelism = Number(At(job, "spec", "parallelism"), 1);
  const Json& completions = At(job, "spec", "completions");
  if (completions.is_null()) return parallelism;
  return std::min(parallelism, std::max<int64_t>(0, Number(completions) - Number(At(job, "status", "succeeded"))));
}

}  // namespace

void Judge::Queue(const Json& cluster_queue) {
  Limits limits;
  limits.cohort = Text(At(cluster_queue, "spec", "cohortName"));
  for (const Json& group : At(cluster_queue, "spec", "resourceGroups")) {
    for (const Json& flavor : Get(group, "flavors")) {
      for (const Json& resource : Get(flavor, "resources")) {
        const std::string key = Text(Get(flavor, "name")) + "/" + Text(Get(resource, "name"));
        limits.nominal[key] = Amount(Get(resource, "nominalQuota"));
        if (resource.contains("borrowingLimit")) limits.borrowing[key] = Amount(resource["borrowingLimit"]);
        if (resource.contains("lendingLimit")) limits.lending[key] = Amount(resource["lendingLimit"]);
      }
    }
  }
  queues_[Text(At(cluster_queue, "metadata", "name"))][VersionOf(cluster_queue)] = std::move(limits);
}

void Judge::QueueDeleted(const std::string& name, const std::string& version) {
  queues_[name][std::stoll(version)].deleted = true;
}

std::map<std::string, Judge::Limits> Judge::LimitsAt(int64_t version) const {
  std::map<std::string, Limits> out;
  for (const auto& [name, versions] : queues_) {
    auto it = versions.upper_bound(version);
    if (it != versions.begin() && !std::prev(it)->second.deleted) out[name] = std::prev(it)->second;
  }
  return out;
}

// What a queue has too much, after something started in it.
std::string Judge::Excess(const std::map<std::string, Limits>& limits, const Usage& usage, const std::string& queue) {
  const auto own = limits.find(queue);
  if (own == limits.end()) return "started by ClusterQueue " + queue + ", which does not exist";
  const auto used = [&usage](const std::string& of, const std::string& key) -> int64_t {
    const auto entry = usage.find(of);
    if (entry == usage.end() || !entry->second.contains(key)) return 0;
    return entry->second.at(key);
  };
  const auto value = [](const std::map<std::string, int64_t>& map, const std::string& key, int64_t absent) {
    const auto it = map.find(key);
    return it == map.end() ? absent : it->second;
  };
  const Limits& mine = own->second;
  for (const auto& [key, amount] : usage.at(queue)) {
    const int64_t nominal = value(mine.nominal, key, 0);
    int64_t lent = 0;
    int64_t cohort_nominal = nominal;
    int64_t cohort_used = amount;
    for (const auto& [name, other] : limits) {
      if (name == queue || mine.cohort.empty() || other.cohort != mine.cohort) continue;
      const int64_t theirs = value(other.nominal, key, 0);
      lent += std::min(theirs, value(other.lending, key, theirs));
      cohort_nominal += theirs;
      cohort_used += used(name, key);
    }
    const int64_t most = nominal + std::min(lent, value(mine.borrowing, key, lent));
    if (amount > most) {
      return queue + " uses " + std::to_string(amount) + " of " + key + ", at most " + std::to_string(most);
    }
    if (cohort_used > cohort_nominal && amount > nominal) {
      return "cohort " + mine.cohort + " uses " + std::to_string(cohort_used) + " of " + key + ", has " +
             std::to_string(cohort_nominal);
    }
  }
  return "";
}

// One walk over the lines.
class Judge::Run {
 public:
  explicit Run(const Judge& judge) : judge_(judge) {}

  void Take(const Json& line) {
    const Json& job = Get(line, "object");
    const std::string uid = Text(At(job, "metadata", "uid"));
    if (Text(Get(line, "type")) == "DELETED") {
      jobs_.erase(uid);
      return;
    }
    name_ = Text(At(job, "metadata", "name"));
    State& state = jobs_[uid];
    const bool suspended = Flag(At(job, "spec", "suspend"));
    const bool queued = !Text(At(job, "metadata", "labels", kQueueName)).empty();
    const int64_t active = Number(At(job, "status", "active"));
    const Json record = RecordOf(job);
    if (active > Number(At(job, "spec", "parallelism"))) Report("has more pods than the gang");
    if (queued && active > 0 && state.claims.empty()) Report("has pods and was never started");
    if (suspended && Text(Get(record, "state")) == "started") state.suspended_by_others = true;
    const bool starts = queued && state.seen && state.suspended && !suspended;
    if (queued && !state.seen && !suspended) Report("was created running");
    if (IsOver(job) || (suspended && active == 0)) state.each.clear();
    state.pods = std::min(state.pods, Needed(job));
    state.seen = true;
    state.suspended = suspended;
    if (starts) Start(job, record, &state);
  }

  std::vector<std::string> findings;

 private:
  struct State {
    bool seen = false;
    bool suspended = false;
    bool suspended_by_others = false;
    std::map<std::string, int> claims;  // starts by claim
    std::string queue;
    std::map<std::string, int64_t> each;  // of what it holds, what is one pod's
    int64_t pods = 0;
  };

  void Report(const std::string& what) { findings.push_back("Job " + name_ + ": " + what); }

  void Start(const Json& job, const Json& record, State* state) {
    const int64_t pods = Needed(job);
    const Json& pod_set = At(record, "podSets").is_array() && !record["podSets"].empty() ? record["podSets"][0] : kNull;
    if (Text(Get(record, "state")) != "started" || Text(Get(record, "uid")) != Text(At(job, "metadata", "uid"))) {
      return Report("was started without a record of its own: " + record.dump());
    }
    if (Number(Get(pod_set, "count")) != pods) Report("was started with another count than recorded");
    int& starts = state->claims[Text(Get(record, "claim"))];
    if (++starts > 1 && !state->suspended_by_others) Report("was started twice by one claim");
    state->suspended_by_others = false;
    state->queue = Text(Get(record, "clusterQueue"));
    state->each.clear();
    state->pods = pods;
    const Json& pod = At(job, "spec", "template", "spec");
    const std::string label = Text(At(pod, "nodeSelector", kFlavorLabel));
    if (label.empty()) Report("runs without its flavor's label");
    for (const auto& [resource, flavor] : Get(pod_set, "flavors").items()) {
      const std::string name = Text(flavor);
      if ((name == "a" || name == "b" || name == "tainted") && name != label) Report("runs on another flavor");
      int64_t each = 0;
      for (const Json& container : Get(pod, "containers"))
        each += Amount(At(container, "resources", "requests", resource));
      state->each[name + "/" + resource] += each;
    }
    Usage usage;
    for (const auto& [uid, other] : jobs_) {
      for (const auto& [key, amount] : other.each) usage[other.queue][key] += amount * other.pods;
    }
    const std::string excess = Excess(judge_.LimitsAt(VersionOf(job)), usage, state->queue);
    if (!excess.empty()) Report(excess);
  }

  static inline const Json kNull;
  const Judge& judge_;
  std::string name_;
  std::map<std::string, State> jobs_;  // by uid
};

std::vector<std::string> Judge::Findings(const std::vector<Json>& lines) const {
  Run run(*this);
  for (const Json& line : lines) run.Take(line);
  return std::move(run.findings);
}

std::map<std::string, int> StartsOf(const std::vector<Json>& lines) {
  std::map<std::string, int> starts;
  std::map<std::string, bool> suspended;  // by uid
  for (const Json& line : lines) {
    const Json& job = Get(line, "object");
    const std::string uid = Text(At(job, "metadata", "uid"));
    const bool now = Flag(At(job, "spec", "suspend"));
    const auto before = suspended.find(uid);
    if (before != suspended.end() && before->second && !now) ++starts[Text(At(job, "metadata", "name"))];
    suspended[uid] = now;
  }
  return starts;
}

}  // namespace muster::scenarios
