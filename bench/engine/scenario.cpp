#include "scenario.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "muster/core/quantity.h"
#include "yaml_document.h"

namespace muster::bench {
namespace {

using cli::YamlNode;

// One map of the file. The first error is kept; what was asked for and is not there is an error too, and so is what
// nobody asked for.
class Fields {
 public:
  Fields(const YamlNode& node, std::string where, std::string* error)
      : node_(node), where_(std::move(where)), error_(error) {
    if (node_.kind != YamlNode::Kind::kMap) Fail(node_, "is not a map");
    std::set<std::string> seen;
    for (const YamlNode::Entry& entry : node_.entries) {
      if (!seen.insert(entry.key).second) Fail(entry.value, absl::StrCat(entry.key, ": stands here twice"));
    }
  }

  // Null where it is not there.
  const YamlNode* Required(const std::string& key) {
    const YamlNode* value = Optional(key);
    if (value == nullptr) Fail(node_, absl::StrCat("has no field ", key));
    return value;
  }
  const YamlNode* Optional(const std::string& key) {
    asked_.insert(key);
    const auto it = std::find_if(node_.entries.begin(), node_.entries.end(),
                                 [&key](const YamlNode::Entry& entry) { return entry.key == key; });
    return it == node_.entries.end() ? nullptr : &it->value;
  }
  int64_t Int(const std::string& key, int64_t least) {
    const YamlNode* value = Required(key);
    int64_t number = 0;
    if (value == nullptr) return 0;
    if (!absl::SimpleAtoi(value->text, &number) || number < least || number > 1'000'000'000) {
      FailValue(*value, key, absl::StrCat("is no whole number from ", least, " to 1000000000"));
    }
    return number;
  }
  Amount Cpu(const std::string& key) {
    const YamlNode* value = Required(key);
    if (value == nullptr) return {};
    const auto quantity = Quantity::Parse(value->text);
    if (!quantity.ok() || quantity->IsNegative()) {
      FailValue(*value, key, "is no amount of cpu");
      return {};
    }
    return quantity->ToAmount("cpu");
  }
  void NothingElse() {
    for (const YamlNode::Entry& entry : node_.entries) {
      if (!asked_.contains(entry.key)) Fail(entry.value, absl::StrCat(entry.key, ": unknown field"));
    }
  }
  void FailValue(const YamlNode& value, const std::string& key, const std::string& what) {
    const bool scalar = value.kind == YamlNode::Kind::kScalar;
    Fail(value, absl::StrCat(key, ": ", scalar ? value.text : std::string("what is given"), " ", what));
  }

 private:
  void Fail(const YamlNode& at, const std::string& what) {
    if (error_->empty()) *error_ = absl::StrCat("line ", at.line, ": ", where_, ": ", what);
  }

  const YamlNode& node_;
  std::string where_;
  std::string* error_;
  std::set<std::string> asked_;
};

engine::PreemptionPolicy ReadPolicy(Fields* queue, const std::string& key,
                                    const std::map<std::string, engine::PreemptionPolicy>& known) {
  const YamlNode* value = queue->Optional(key);
  if (value == nullptr) return engine::PreemptionPolicy::kNever;
  const auto it = known.find(value->text);
  if (it != known.end()) return it->second;
  queue->FailValue(*value, key, "is no policy that this field can have");
  return engine::PreemptionPolicy::kNever;
}

void ReadQueue(const YamlNode& node, Scenario* scenario, std::string* error) {
  using engine::PreemptionPolicy;
  Fields queue(node, "queue", error);
  scenario->queue.nominal = queue.Cpu("nominal_cpu");
  if (queue.Optional("borrowing_limit_cpu") != nullptr)
    scenario->queue.borrowing_limit = queue.Cpu("borrowing_limit_cpu");
  scenario->queue.reclaim_within_cohort = ReadPolicy(&queue, "reclaim_within_cohort",
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

// The level is always the rack; what is balanced is so in slices, each on one node.
void ReadConstraint(Fields* fields, ScenarioClass* cls) {
  const YamlNode* constraint = fields->Optional("constraint");
  if (constraint == nullptr) return;
  if (constraint->text == "required") {
    cls->topology.required = kRackLabel;
  } else if (constraint->text == "preferred") {
    cls->topology.preferred = kRackLabel;
  } else if (constraint->text == "balanced") {
    cls->topology.preferred = kRackLabel;
    cls->topology.slices = {{std::string(gang::kHostnameLabel), static_cast<int32_t>(fields->Int("slice_pods", 1))}};
  } else {
    fields->FailValue(*constraint, "constraint", "is none of required, preferred and balanced");
  }
}

std::optional<MachineOptions> ReadMachines(const YamlNode& node, std::string* error) {
  Fields fields(node, "machines", error);
  MachineOptions machines;
  machines.blocks = static_cast<int>(fields.Int("blocks", 1));
  machines.racks_per_block = static_cast<int>(fields.Int("racks_per_block", 1));
  machines.nodes_per_rack = static_cast<int>(fields.Int("nodes_per_rack", 1));
  machines.cpu = fields.Cpu("cpu");
  (void)fields.Required("memory");  // nobody asks for any
  fields.NothingElse();
  return machines;
}

ScenarioClass ReadClass(const YamlNode& node, bool on_machines, std::string* error) {
  Fields fields(node, "classes", error);
  ScenarioClass cls;
  if (const YamlNode* name = fields.Required("name")) cls.name = name->text;
  cls.count = static_cast<int>(fields.Int("count", 0));
  cls.every = std::chrono::milliseconds(fields.Int("every_ms", 0));
  cls.run = std::chrono::milliseconds(fields.Int("run_ms", 0));
  cls.priority = static_cast<int32_t>(fields.Int("priority", -1'000'000'000));
  if (on_machines) ReadConstraint(&fields, &cls);
  if (fields.Optional("pods") != nullptr) {
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
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  if (!in) return absl::InvalidArgumentError(absl::StrCat(path, ": cannot be read"));
  const auto parsed = cli::ParseYaml(text.str());
  if (const auto* problem = std::get_if<cli::YamlProblem>(&parsed)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": line ", problem->line, ": ", problem->message));
  }
  Scenario scenario;
  std::string error;
  Fields file(std::get<YamlNode>(parsed), "the file", &error);
  if (const YamlNode* machines = file.Optional("machines")) scenario.machines = ReadMachines(*machines, &error);
  scenario.cohorts = static_cast<int>(file.Int("cohorts", 1));
  scenario.queues_per_cohort = static_cast<int>(file.Int("queues_per_cohort", 1));
  if (const YamlNode* queue = file.Required("queue")) ReadQueue(*queue, &scenario, &error);
  if (const YamlNode* classes = file.Required("classes")) {
    if (classes->kind != YamlNode::Kind::kSequence) file.FailValue(*classes, "classes", "is no list");
    for (const YamlNode& node : classes->items) {
      scenario.classes.push_back(ReadClass(node, scenario.machines.has_value(), &error));
    }
  }
  file.NothingElse();
  if (error.empty() && scenario.queue.nominal <= Amount{0}) error = "queue: nominal_cpu: must be greater than zero";
  if (!error.empty()) return absl::InvalidArgumentError(absl::StrCat(path, ": ", error));
  return scenario;
}

}  // namespace muster::bench
