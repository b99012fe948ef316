#include "conformance.h"

#include <absl/status/status.h>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>

namespace muster::cli {

namespace {

struct Tally {
  int64_t passed = 0;
  int64_t failed = 0;
};

// Of all files.
struct Tallies {
  std::map<std::string, Tally> of;  // by category
  std::map<std::string, int64_t> rules;
  int64_t as_recorded = 0;
  int64_t timing_sensitive_steps = 0;
  int64_t timing_sensitive_cases = 0;
  int64_t judged_passes = 0;
};

void Print(const Tallies& tallies, ConformanceMode mode) {
  const auto number = [](int64_t value) { return static_cast<long long>(value); };
  if (!mode.property) std::printf("%lld cases as recorded\n", number(tallies.as_recorded));
  for (const auto& [rule, cases] : tallies.rules) std::printf("%lld cases by rule: %s\n", number(cases), rule.c_str());
  if (tallies.timing_sensitive_steps > 0) {
    std::printf("%lld steps depend on timing; %lld cases came out otherwise\n", number(tallies.timing_sensitive_steps),
                number(tallies.timing_sensitive_cases));
  }
  std::printf("%lld passes judged\n", number(tallies.judged_passes));
}

// RETURNS: false where the file or one of its lines cannot be read.
bool RunFile(const std::string& name, std::istream& input, ConformanceMode mode, bool trace, Tallies* tallies) {
  std::string line;
  for (int64_t number = 1; std::getline(input, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    std::vector<std::string> passes;
    const absl::StatusOr<CaseResult> result = RunConformanceCase(line, mode, trace ? &passes : nullptr);
    if (!result.ok()) {
      std::fprintf(stderr, "%s:%lld: %s\n", name.c_str(), static_cast<long long>(number),
                   std::string(result.status().message()).c_str());
      return false;
    }
    for (const std::string& rule : result->rules) ++tallies->rules[rule];
    tallies->timing_sensitive_steps += result->timing_sensitive_steps;
    tallies->timing_sensitive_cases += result->timing_sensitive_cases;
    tallies->judged_passes += result->judged_passes;
    const bool differs = !result->rules.empty() || result->timing_sensitive_cases > 0 || !result->differences.empty();
    if (!differs) ++tallies->as_recorded;
    Tally& tally = tallies->of[result->category];
    ++(result->differences.empty() ? tally.passed : tally.failed);
    for (const std::string& difference : result->differences) {
      std::printf("%s:%lld: %s: %s\n", name.c_str(), static_cast<long long>(number), result->id.c_str(),
                  difference.c_str());
    }
    if (result->differences.empty()) continue;
    for (const std::string& pass : passes) std::printf("  %s\n", pass.c_str());
  }
  if (input.bad()) {
    std::fprintf(stderr, "%s: cannot be read to its end\n", name.c_str());
    return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<CaseResult> RunConformanceCase(std::string_view line, ConformanceMode mode,
                                              std::vector<std::string>* trace) {
  k8s::JsonDocument document(line);
  const k8s::JsonValue root = document.root();
  CaseResult result;
  result.id = root["id"].String();
  result.category = root["category"].String();
  if (absl::Status status = document.Finish("case"); !status.ok()) return status;
  if (root["steps"].present()) {
    (mode.property ? RunPropertyCase : RunSchedulingCase)(root, mode, &result, trace);
  } else if (root["totals"].present()) {
    RunRequestsCase(root, &result.differences);
  } else {
    return absl::InvalidArgumentError("case " + result.id + " has neither steps nor totals");
  }
  if (absl::Status status = document.Finish("case " + result.id); !status.ok()) return status;
  return result;
}

int RunConformance(const std::vector<std::string>& files, ConformanceMode mode, bool trace) {
  Tallies tallies;
  for (const std::string& name : files) {
    if (name == "-") {
      if (!RunFile("standard input", std::cin, mode, trace, &tallies)) return 2;
      continue;
    }
    std::ifstream input(name);
    if (!input.is_open()) {
      std::fprintf(stderr, "%s: cannot be opened\n", name.c_str());
      return 2;
    }
    if (!RunFile(name, input, mode, trace, &tallies)) return 2;
  }
  Tally total;
  for (const auto& [category, tally] : tallies.of) {
    std::printf("%-24s %lld passed, %lld failed\n", category.c_str(), static_cast<long long>(tally.passed),
                static_cast<long long>(tally.failed));
    total.passed += tally.passed;
    total.failed += tally.failed;
  }
  Print(tallies, mode);
  std::printf("%lld passed, %lld failed\n", static_cast<long long>(total.passed), static_cast<long long>(total.failed));
  return total.failed == 0 ? 0 : 1;
}

}  // namespace muster::cli
