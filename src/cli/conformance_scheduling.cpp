// Cases with steps: who is admitted where, who is evicted for whom, what is in use.
//
// A case is played twice. As the engine decides where no room is kept for preemptors it must decide as recorded; as it
// decides by default it may differ from that where kept room mattered, and there alone. Where a case cannot be compared
// any more, from some step on, what must hold of any decisions is checked at the end of each: as for cases that are no
// target at all (RunPropertyCase). The rules by which that happens are those of docs/kueue-compatibility.md.
#include <algorithm>
#include <utility>

#include "conformance.h"
#include "conformance_driver.h"
#include "muster/controller/decode.h"

namespace muster::cli {

using k8s::JsonValue;

namespace {

void Compare(const std::string& what, const Lines& expected, const Lines& got, std::vector<std::string>* differences) {
  std::vector<std::string> missing;
  std::vector<std::string> extra;
  std::set_difference(expected.begin(), expected.end(), got.begin(), got.end(), std::back_inserter(missing));
  std::set_difference(got.begin(), got.end(), expected.begin(), expected.end(), std::back_inserter(extra));
  for (const std::string& line : missing) differences->push_back(what + ": expected, not found: " + line);
  for (const std::string& line : extra) differences->push_back(what + ": found, not expected: " + line);
}

// As the record has it, not as the API does.
gang::TopologyAssignment ExpectedTopology(JsonValue value) {
  gang::TopologyAssignment assignment;
  value["levels"].ForEach([&](JsonValue level) { assignment.levels.push_back(level.String()); });
  value["domains"].ForEach([&](JsonValue item) {
    gang::TopologyDomain domain;
    item["values"].ForEach([&](JsonValue part) { domain.values.push_back(part.String()); });
    domain.count = item["count"].Count();
    assignment.domains.push_back(std::move(domain));
  });
  return assignment;
}

using Admissions = std::map<std::string, engine::Admission>;  // by name of the workload

Admissions RecordedAdmissions(JsonValue admitted) {
  Admissions recorded;
  admitted.ForEachField([&](std::string_view name, JsonValue value) {
    engine::Admission admission;
    admission.cluster_queue = value["clusterQueue"].String();
    value["podSets"].ForEach([&](JsonValue item) {
      engine::PodSetAssignment pod_set;
      pod_set.name = item["name"].String();
      pod_set.count = item["count"].Count();
      for (const auto& [resource, flavor] : item["flavors"].Map()) pod_set.flavors.emplace_back(resource, flavor);
      if (const JsonValue topology = item["topologyAssignment"]; topology.present()) {
        pod_set.topology = ExpectedTopology(topology);
      }
      admission.pod_sets.push_back(std::move(pod_set));
    });
    recorded.emplace(name, std::move(admission));
  });
  return recorded;
}

Lines ExpectedUsage(JsonValue usage) {
  Lines lines;
  usage.ForEachField([&](std::string_view queue, JsonValue flavors) {
    flavors.ForEachField([&](std::string_view flavor, JsonValue resources) {
      resources.ForEachField([&](std::string_view resource, JsonValue quantity) {
        lines.insert(UsageLine(queue, flavor, resource, controller::DecodeAmount(quantity, resource)));
      });
    });
  });
  return lines;
}

engine::EngineOptions DecodeOptions(JsonValue config, ConformanceMode mode) {
  engine::EngineOptions options;
  options.machines = mode.machines;
  const JsonValue fair = config["fairSharing"];
  if (!fair.present()) return options;
  engine::FairSharing& sharing = options.fair_sharing.emplace();
  if (!fair["preemptionStrategies"].present()) return options;
  sharing.preemption_strategies.clear();
  fair["preemptionStrategies"].ForEach([&](JsonValue item) {
    const std::string name = item.String();
    if (name == "LessThanOrEqualToFinalShare") {
      sharing.preemption_strategies.push_back(engine::PreemptionStrategy::kLessThanOrEqualToFinalShare);
    } else if (name == "LessThanInitialShare") {
      sharing.preemption_strategies.push_back(engine::PreemptionStrategy::kLessThanInitialShare);
    } else {
      item.Fail("is not a known strategy");
    }
  });
  return options;
}

Outcome ExpectedOutcome(JsonValue step) {
  Outcome expected;
  for (const auto& [name, admission] : RecordedAdmissions(step["admitted"])) {
    expected.admitted.insert(AdmissionLine(name, admission));
  }
  expected.usage = ExpectedUsage(step["usage"]);
  step["evicted"].ForEach([&](JsonValue item) {
    expected.evicted.insert(
        EvictionLine(item["workload"].String(), item["reason"].String(), item["preemptor"].String()));
  });
  return expected;
}

// Those leave too, other than recorded.
void StopDrained(const std::set<std::string>& names, const Outcome& got, Outcome* expected) {
  for (const std::string& name : names) {
    const std::string line = EvictionLine(name, "ClusterQueueStopped", "");
    if (!got.evicted.contains(line)) continue;
    expected->evicted.insert(line);
    std::erase_if(expected->admitted, [&name](const std::string& text) { return text.starts_with(name + " in "); });
  }
}

// The rule of places that is broken at the end of the step, or after some of its passes. `known`: what was admitted
// before it. Of those who come and go within the step nobody knows where they were.
std::optional<std::string> RecordedFault(JsonValue step, Admissions known, ConformanceDriver* driver) {
  const Admissions last = RecordedAdmissions(step["admitted"]);
  std::optional<std::string> fault = driver->FaultOf(last);
  step["trace"].ForEach([&](JsonValue pass) {
    pass["evicted"].ForEach([&](JsonValue item) { known.erase(item["workload"].String()); });
    pass["admitted"].ForEach([&](JsonValue name) {
      const auto admitted = last.find(name.String());
      if (admitted != last.end()) known[admitted->first] = admitted->second;
    });
    if (!fault.has_value()) fault = driver->FaultOf(known);
  });
  return fault;
}

class Case {
 public:
  Case(JsonValue root, ConformanceMode mode, std::vector<std::string>* trace, CaseResult* result)
      : root_(root), mode_(mode), trace_(trace), result_(result) {}

  void Run() {
    const std::vector<Outcome> exact = RunWithoutRoom();
    RunWithRoom(exact);
  }

 private:
  static std::string Prefix(int64_t index) { return "step " + std::to_string(index); }
  // Without the room the reference may evict somebody again and again for one preemptor, and so may this.
  void AddViolations(const ConformanceDriver& driver, bool kept) {
    result_->judged_passes += driver.judged_passes();
    for (const std::string& violation : driver.violations()) {
      result_->differences.push_back(kept ? "with kept room: " + violation : violation);
    }
    if (!kept) return;
    for (const std::string& repeated : driver.repeated()) {
      result_->differences.push_back("with kept room: " + repeated);
    }
  }
  std::vector<Outcome> RunWithoutRoom();
  void RunWithRoom(const std::vector<Outcome>& exact);

  JsonValue root_;
  ConformanceMode mode_;
  std::vector<std::string>* trace_;
  CaseResult* result_;
  bool room_mattered_ = false;
  size_t unlike_record_ = 0;  // steps, the last ones
};

// What differs from the record, unless a rule or its timing says that it may.
std::vector<Outcome> Case::RunWithoutRoom() {
  engine::EngineOptions options = DecodeOptions(root_["config"], mode_);
  options.keep_room_for = Duration::zero();
  ConformanceDriver driver(options, trace_);
  driver.Load(root_["objects"]);
  Admissions before = driver.Loaded();
  const JsonValue sensitive = root_["requeueTimingSensitiveFromStep"];
  const int64_t sensitive_from = sensitive.present() ? sensitive.Int() : INT64_MAX;
  std::vector<Outcome> outcomes;
  bool comparable = true;
  bool looked_again = false;
  int64_t index = 0;
  root_["steps"].ForEach([&](JsonValue step) {
    const std::string prefix = Prefix(index);
    if (driver.IsDueBefore(step)) looked_again = true;
    const Outcome& got = outcomes.emplace_back(driver.RunStep(step, prefix));
    Outcome expected = ExpectedOutcome(step);
    const bool timing = index++ >= sensitive_from;
    if (!comparable || got != expected) ++unlike_record_;
    if (timing) ++result_->timing_sensitive_steps;
    const Admissions at_start = std::exchange(before, RecordedAdmissions(step["admitted"]));
    if (!comparable || got == expected) return;
    std::optional<std::string> rule = RecordedFault(step, at_start, &driver);
    if (!rule.has_value() && !timing) rule = driver.rule_met();
    if (rule.has_value()) {
      comparable = false;
      result_->rules.insert(*rule);
      return;
    }
    const bool drained = !driver.drained_on_hold().empty();
    if (drained) StopDrained(driver.drained_on_hold(), got, &expected);
    comparable = !timing && !looked_again && !drained;
    if (timing) {
      ++result_->timing_sensitive_cases;
    } else if (looked_again) {
      result_->rules.insert("looked at again after a while");
    } else if (drained) {
      result_->rules.insert("a drained ClusterQueue stops what came through a LocalQueue on hold");
    }
    if (timing || looked_again) return;
    Compare(prefix + " admitted", expected.admitted, got.admitted, &result_->differences);
    Compare(prefix + " evicted", expected.evicted, got.evicted, &result_->differences);
    if (!drained) Compare(prefix + " usage", expected.usage, got.usage, &result_->differences);
  });
  room_mattered_ = driver.room_mattered();
  AddViolations(driver, false);
  return outcomes;
}

void Case::RunWithRoom(const std::vector<Outcome>& exact) {
  if (trace_ != nullptr) trace_->emplace_back("with kept room:");
  ConformanceDriver driver(DecodeOptions(root_["config"], mode_), trace_);
  driver.Load(root_["objects"]);
  bool comparable = true;
  size_t index = 0;
  root_["steps"].ForEach([&](JsonValue step) {
    const std::string prefix = Prefix(static_cast<int64_t>(index));
    const Outcome got = driver.RunStep(step, prefix);
    const Outcome& expected = exact[index++];
    const bool on_record = index <= exact.size() - unlike_record_;
    if (comparable && got != expected && (room_mattered_ || driver.room_mattered())) {
      result_->rules.insert("room is kept for a preemptor");
    } else if (comparable && got != expected) {
      const std::string what = "with kept room, which did not matter: " + prefix;
      Compare(what + " admitted", expected.admitted, got.admitted, &result_->differences);
      Compare(what + " evicted", expected.evicted, got.evicted, &result_->differences);
      Compare(what + " usage", expected.usage, got.usage, &result_->differences);
    }
    comparable = comparable && got == expected && on_record;
    // There is no target any more; and since time passes for this, there will be none.
    if (!comparable) driver.CheckRest(prefix, false);
  });
  AddViolations(driver, true);
}

}  // namespace

void RunPropertyCase(JsonValue root, ConformanceMode mode, CaseResult* result, std::vector<std::string>* trace) {
  ConformanceDriver driver(DecodeOptions(root["config"], mode), trace);
  driver.Load(root["objects"]);
  int64_t index = 0;
  root["steps"].ForEach([&](JsonValue step) {
    const std::string prefix = "step " + std::to_string(index++);
    driver.RunStep(step, prefix);
    driver.CheckRest(prefix, true);
  });
  result->judged_passes = driver.judged_passes();
  result->differences = driver.violations();
  result->differences.insert(result->differences.end(), driver.repeated().begin(), driver.repeated().end());
}

void RunSchedulingCase(JsonValue root, ConformanceMode mode, CaseResult* result, std::vector<std::string>* trace) {
  Case(root, mode, trace, result).Run();
}

}  // namespace muster::cli
