#include "scenario.h"

#include <absl/strings/str_cat.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "muster/core/quantity.h"

namespace muster::bench {
namespace {

// One map of the file. The first error is kept; what was asked for and is not there is an error too, and so is what
// nobody asked for.
class Fields {
 public:
  Fields(const YAML::Node& node, std::string where, std::string* error)
      : node_(node), where_(std::move(where)), error_(error) {
    if (!node_.IsMap()) Fail(node_, "is not a map");
  }

  YAML::Node Required(const std::string& key) {
    YAML::Node value = Optional(key);
    if (!value.IsDefined()) Fail(node_, absl::StrCat("has no field ", key));
    return value;
  }
  YAML::Node Optional(const std::string& key) {
    asked_.insert(key);
    return node_.IsMap() ? node_[key] : YAML::Node(YAML::NodeType::Undefined);
  }
  int64_t Int(const std::string& key, int64_t least) {
    const YAML::Node value = Required(key);
    int64_t number = 0;
    if (!value.IsDefined()) return 0;
    if (!YAML::convert<int64_t>::decode(value, number) || number < least || number > 1'000'000'000) {
      FailValue(value, key, absl::StrCat("is no whole number from ", least, " to 1000000000"));
    }
    return number;
  }
  Amount Cpu(const std::string& key) {
    const YAML::Node value = Required(key);
    if (!value.IsDefined()) return {};
    const auto quantity = Quantity::Parse(value.IsScalar() ? value.Scalar() : "");
    if (!quantity.ok() || quantity->IsNegative()) {
      FailValue(value, key, "is no amount of cpu");
      return {};
    }
    return quantity->ToAmount("cpu");
  }
  void Refuse(const std::string& key, const std::string& why) {
    if (const YAML::Node value = Optional(key); value.IsDefined()) Fail(value, absl::StrCat(key, ": ", why));
  }
  void NothingElse() {
    if (!node_.IsMap()) return;
    for (const auto& entry : node_) {
      const std::string key = entry.first.Scalar();
      if (!asked_.contains(key)) Fail(entry.first, absl::StrCat(key, ": unknown field"));
    }
  }
  void FailValue(const YAML::Node& value, const std::string& key, const std::string& what) {
    Fail(value, absl::StrCat(key, ": ", value.IsScalar() ? value.Scalar() : "what is given", " ", what));
  }

 private:
  void Fail(const YAML::Node& at, const std::string& what) {
    if (error_->empty()) *error_ = absl::StrCat("line ", at.Mark().line + 1, ": ", where_, ": ", what);
  }

  const YAML::Node node_;
  std::string where_;
  std::string* error_;
  std::set<std::string> asked_;
};

engine::PreemptionPolicy ReadPolicy(Fields* queue, const std::string& key,
                                    const std::map<std::string, engine::PreemptionPolicy>& known) {
  const YAML::Node value = queue->Optional(key);
  if (!value.IsDefined()) return engine::PreemptionPolicy::kNever;
  const auto it = known.find(value.IsScalar() ? value.Scalar() : "");
  if (it != known.end()) return it->second;
  queue->FailValue(value, key, "is no policy that this field can have");
  return engine::PreemptionPolicy::kNever;
}

void ReadQueue(const YAML::Node& node, Scenario* scenario, std::string* error) {
  using engine::PreemptionPolicy;
  Fields queue(node, "queue", error);
  scenario->queue.nominal = queue.Cpu("nominal_cpu");
  if (queue.Optional("borrowing_limit_cpu").IsDefined()) scenario->queue.borrowing_limit = queue.Cpu("borrowing_limit_cpu");
  scenario->queue.reclaim_within_cohort =
      ReadPolicy(&queue, "reclaim_within_cohort",
                 {{"Never", PreemptionPolicy::kNever},
                  {"LowerPriority", PreemptionPolicy::kLowerPriority},
                  {"Any", PreemptionPolicy::kAny}});
  scenario->queue.within_cluster_queue =
      ReadPolicy(&queue, "within_cluster_queue",
                 {{"Never", PreemptionPolicy::kNever},
                  {"LowerPriority", PreemptionPolicy::kLowerPriority},
                  {"LowerOrNewerEqualPriority", PreemptionPolicy::kLowerOrNewerEqualPriority}});
  queue.NothingElse();
}

ScenarioClass ReadClass(const YAML::Node& node, std::string* error) {
  Fields fields(node, "classes", error);
  ScenarioClass cls;
  const YAML::Node name = fields.Required("name");
  if (name.IsDefined() && name.IsScalar()) cls.name = name.Scalar();
  cls.count = static_cast<int>(fields.Int("count", 0));
  cls.every = std::chrono::milliseconds(fields.Int("every_ms", 0));
  cls.run = std::chrono::milliseconds(fields.Int("run_ms", 0));
  cls.priority = static_cast<int32_t>(fields.Int("priority", -1'000'000'000));
  fields.Refuse("constraint", "placement on machines is not supported");
  fields.Refuse("slice_pods", "placement on machines is not supported");
  if (fields.Optional("pods").IsDefined()) {
    cls.pods = static_cast<int32_t>(fields.Int("pods", 1));
    cls.cpu_per_pod = fields.Cpu("cpu_per_pod");
  } else {
    cls.cpu_per_pod = fields.Cpu("cpu");
  }
  fields.NothingElse();
  return cls;
}

}  // namespace

Duration Scenario::BestPossible() const {
  double work = 0;  // milli-cpu × nanoseconds, of one queue
  Duration last{0};
  for (const ScenarioClass& cls : classes) {
    if (cls.count == 0) continue;
    work += static_cast<double>(cls.cpu_per_pod.value) * cls.pods * cls.count * static_cast<double>(cls.run.count());
    last = std::max(last, cls.every * (cls.count - 1) + cls.run);
  }
  return std::max(last, Duration(static_cast<int64_t>(work / static_cast<double>(queue.nominal.value))));
}

double Scenario::Capacity() const { return static_cast<double>(queue.nominal.value) * cohorts * queues_per_cohort; }

absl::StatusOr<Scenario> ReadScenario(const std::string& path) {
  Scenario scenario;
  std::string error;
  try {
    Fields file(YAML::LoadFile(path), "the file", &error);
    file.Refuse("machines", "machines are not supported");
    scenario.cohorts = static_cast<int>(file.Int("cohorts", 1));
    scenario.queues_per_cohort = static_cast<int>(file.Int("queues_per_cohort", 1));
    if (const YAML::Node queue = file.Required("queue"); queue.IsDefined()) ReadQueue(queue, &scenario, &error);
    const YAML::Node classes = file.Required("classes");
    if (classes.IsDefined() && !classes.IsSequence()) file.FailValue(classes, "classes", "is no list");
    for (const YAML::Node& node : classes) scenario.classes.push_back(ReadClass(node, &error));
    file.NothingElse();
  } catch (const YAML::Exception& problem) {
    error = problem.what();
  }
  if (error.empty() && scenario.queue.nominal <= Amount{0}) error = "queue: nominal_cpu: must be greater than zero";
  if (!error.empty()) return absl::InvalidArgumentError(absl::StrCat(path, ": ", error));
  return scenario;
}

}  // namespace muster::bench
