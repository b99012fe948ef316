#include "judge.h"

#include <algorithm>
#include <set>

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
constexpr const char* kElastic = "kueue.x-k8s.io/elastic-job";
constexpr const char* kFlavorLabel = "muster.dev/flavor";

int64_t VersionOf(const Json& object) { return std::stoll(Text(At(object, "metadata", "resourceVersion"), "0")); }

int64_t Amount(const Json& quantity) { return quantity.is_string() ? std::stoll(Text(quantity)) : Number(quantity); }

bool IsOver(const Json& job) { return sim::HasCondition(job, "Complete") || sim::HasCondition(job, "Failed"); }

Json RecordOf(const Json& job) {
  return sim::ParseJson(Text(At(job, "metadata", "annotations", kRecord))).value_or(Json());
}

// Pods that it admits.
int64_t CountOf(const Json& record) {
  const Json& pod_sets = At(record, "podSets");
  return pod_sets.is_array() && !pod_sets.empty() ? Number(Get(pod_sets[0], "count")) : 0;
}

// Pods at a time.
int64_t PodsOf(const Json& job) {
  const int64_t parallelism = Number(At(job, "spec", "parallelism"), 1);
  return std::min(parallelism, Number(At(job, "spec", "completions"), parallelism));
}

// Those that the Job still needs.
int64_t Needed(const Json& job) {
  const Json& completions = At(job, "spec", "completions");
  if (completions.is_null()) return PodsOf(job);
  const int64_t left = std::max<int64_t>(0, Number(completions) - Number(At(job, "status", "succeeded")));
  return std::min(PodsOf(job), left);
}

// A claim's id is "term-number": in this order they are decided.
std::pair<uint64_t, uint64_t> OrderOf(const std::string& claim) {
  const size_t dash = claim.find('-');
  if (dash == std::string::npos) return {};
  return {std::strtoull(claim.c_str(), nullptr, 10), std::strtoull(claim.c_str() + dash + 1, nullptr, 10)};
}

// The versions from which on something was different, the newest first, back to what was so at `since`.
std::vector<int64_t> PointsOf(const auto& versions_by_name, int64_t since, int64_t version) {
  std::set<int64_t, std::greater<>> points = {version};
  for (const auto& [name, versions] : versions_by_name) {
    for (auto it = versions.upper_bound(since); it != versions.end() && it->first <= version; ++it) {
      points.insert(it->first - 1);
    }
  }
  return {points.begin(), points.end()};
}

}  // namespace

void Judge::Queue(const Json& cluster_queue) {
  queues_[Text(At(cluster_queue, "metadata", "name"))][VersionOf(cluster_queue)] = QuotaTree::Read(cluster_queue);
}

void Judge::Cohort(const Json& cohort) {
  cohorts_[Text(At(cohort, "metadata", "name"))][VersionOf(cohort)] = QuotaTree::Read(cohort);
}

void Judge::QueueDeleted(const std::string& name, const std::string& version) {
  queues_[name][std::stoll(version)].deleted = true;
}

void Judge::CohortDeleted(const std::string& name, const std::string& version) {
  cohorts_[name][std::stoll(version)].deleted = true;
}

QuotaTree Judge::TreeAt(const std::map<std::string, Versions>& queues, int64_t queues_at,
                        const std::map<std::string, Versions>& cohorts, int64_t cohorts_at) {
  const auto at = [](const Versions& versions, int64_t version) -> const QuotaTree::Node* {
    const auto it = versions.upper_bound(version);
    if (it == versions.begin() || std::prev(it)->second.deleted) return nullptr;
    return &std::prev(it)->second;
  };
  QuotaTree tree;
  for (const auto& [name, versions] : queues) {
    if (const auto* node = at(versions, queues_at)) tree.AddQueue(name, *node);
  }
  for (const auto& [name, versions] : cohorts) {
    if (const auto* node = at(versions, cohorts_at)) tree.AddCohort(name, *node);
  }
  return tree;
}

// What a queue has too much of after something started in it; empty if that was right at some time since then. The
// two kinds of objects come by two watches, and one may lag behind the other.
std::string Judge::Excess(int64_t version, int64_t since, const std::string& queue, const QuotaTree::Amounts& started,
                          const QuotaTree::Usage& usage) const {
  std::string newest;
  for (const int64_t queues_at : PointsOf(queues_, since, version)) {
    for (const int64_t cohorts_at : PointsOf(cohorts_, since, version)) {
      QuotaTree tree = TreeAt(queues_, queues_at, cohorts_, cohorts_at);
      tree.SetUsage(&usage);
      std::string excess;
      if (!tree.HasQueue(queue)) {
        excess = "started by ClusterQueue " + queue + ", which does not exist";
      } else if (tree.OnCycle(queue)) {
        excess = "started by ClusterQueue " + queue + ", whose cohort is above itself";
      } else {
        for (const auto& [key, amount] : started) {
          if (excess.empty() && amount > 0) excess = tree.Excess(queue, key);
        }
      }
      if (excess.empty()) return "";
      if (newest.empty()) newest = excess;
    }
  }
  return newest;
}

// One walk over the lines.
class Judge::Run {
 public:
  Run(const Judge& judge, const Since& since) : judge_(judge), since_(since) {}

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
    // After it was scaled down there are too many for a while.
    if (active > std::max(Number(At(job, "spec", "parallelism")), state.active)) Report("has more pods than the gang");
    state.active = active;
    if (queued && active > 0 && state.claims.empty()) Report("has pods and was never started");
    if (suspended && Text(Get(record, "state")) == "started") state.suspended_by_others = true;
    const bool starts = queued && state.seen && state.suspended && !suspended;
    if (queued && !state.seen && !suspended) Report("was created running");
    if (IsOver(job) || (suspended && active == 0)) state.each.clear();
    // What is given back is not taken again by the same admission.
    state.pods = std::min(state.pods, Needed(job));
    state.seen = true;
    state.suspended = suspended;
    if (starts) {
      Start(job, record, &state);
    } else if (CountOf(record) > state.recorded && !state.each.empty()) {
      // More pods of an elastic Job were admitted.
      state.pods = std::min(CountOf(record), Needed(job));
      JudgeQuota(VersionOf(job), state);
    }
    state.recorded = CountOf(record);
  }

  std::vector<std::string> findings;

 private:
  struct State {
    bool seen = false;
    bool suspended = false;
    bool suspended_by_others = false;
    int64_t active = 0;
    std::map<std::string, int> claims;  // starts by claim
    std::string queue;
    std::string claim;
    int64_t pods = 0;
    int64_t recorded = 0;     // by the record
    QuotaTree::Amounts each;  // of one pod; empty: holds nothing
  };

  void Report(const std::string& what) { findings.push_back("Job " + name_ + ": " + what); }

  void Start(const Json& job, const Json& record, State* state) {
    const Json& pod_set = At(record, "podSets").is_array() && !record["podSets"].empty() ? record["podSets"][0] : kNull;
    if (Text(Get(record, "state")) != "started" || Text(Get(record, "uid")) != Text(At(job, "metadata", "uid"))) {
      return Report("was started without a record of its own: " + record.dump());
    }
    state->claim = Text(Get(record, "claim"));
    int& starts = state->claims[state->claim];
    // All of them, or those that it still needs; of an elastic one that was resized while others had suspended it those
    // that were admitted, the further ones are held by their gates.
    const int64_t count = Number(Get(pod_set, "count"));
    const bool resized = starts > 0 && At(job, "metadata", "annotations").contains(kElastic);
    if (count != PodsOf(job) && count != Needed(job) && !resized)
      Report("was started with another count than recorded");
    if (++starts > 1 && !state->suspended_by_others) Report("was started twice by one claim");
    state->suspended_by_others = false;
    state->queue = Text(Get(record, "clusterQueue"));
    state->pods = resized ? std::min(count, Needed(job)) : Needed(job);
    state->each.clear();
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
    if (starts == 1) JudgeQuota(VersionOf(job), *state);  // who was suspended by others kept its quota
  }

  void JudgeQuota(int64_t version, const State& started) {
    QuotaTree::Usage usage;
    for (const auto& [uid, other] : jobs_) {
      if (since_ && OrderOf(other.claim) > OrderOf(started.claim)) continue;
      for (const auto& [key, each] : other.each) usage[other.queue][key] += each * other.pods;
    }
    const int64_t since = since_ ? since_(version) : version;
    const std::string excess = judge_.Excess(version, since, started.queue, started.each, usage);
    if (!excess.empty()) Report(excess);
  }

  static inline const Json kNull;
  const Judge& judge_;
  const Since& since_;
  std::string name_;
  std::map<std::string, State> jobs_;  // by uid
};

std::vector<std::string> Judge::Findings(const std::vector<Json>& lines, const Since& since) const {
  Run run(*this, since);
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
