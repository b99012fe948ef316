// Recorded decisions of the reference, read and compared with the engine's.
//
// A file has one case a line. A case gives objects and steps; the driver plays the API server and the pods
// around the engine by fixed rules: an admission is written and its pods run at once; an evicted gang gives
// its quota back and queues again before the next pass; a step ends when no pass could decide more. Cases
// without steps give one workload and ask what it requests.
//
// Threading: pure functions.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "muster/k8s_client/json_reader.h"

namespace muster::cli {

struct CaseResult {
  std::string id;
  std::string category;
  std::vector<std::string> differences;  // empty: it conforms
  // Rules of docs/kueue-compatibility.md by which it is decided otherwise than recorded, from some step on.
  std::set<std::string> rules;
  // Steps whose recorded outcome is one of several, and 1 where this was another.
  int64_t timing_sensitive_steps = 0;
  int64_t timing_sensitive_cases = 0;
  int64_t judged_passes = 0;  // each decided what the rules say, or is among the differences
};

struct ConformanceMode {
  // Whatever was recorded, each pass must decide by the rules, it must come to rest at each step, evict nobody twice
  // for one preemptor, and leave nobody waiting who fits.
  bool property = false;
  // Gangs start on known machines alone, and each flavor has one that has room for all.
  bool machines = false;
};

// ON FAILURE: InvalidArgument that says what cannot be read.
// `trace`: null, or where to add what each pass decided.
absl::StatusOr<CaseResult> RunConformanceCase(std::string_view line, ConformanceMode mode,
                                              std::vector<std::string>* trace = nullptr);

// The kinds of case; they add to the result.
void RunSchedulingCase(k8s::JsonValue root, ConformanceMode mode, CaseResult* result, std::vector<std::string>* trace);
void RunPropertyCase(k8s::JsonValue root, ConformanceMode mode, CaseResult* result, std::vector<std::string>* trace);
void RunRequestsCase(k8s::JsonValue root, std::vector<std::string>* differences);

// The tool: reads each file ("-": standard input), prints each difference, a count for each category, how many cases
// came out as recorded, how many differ by which rule or in timing, how many passes were judged, and "N passed, N
// failed". With `trace` it also prints, for each case that differs,
// what each pass decided. RETURNS: the exit code: 0 all conform, 1 some differ, 2 a file or line is unreadable.
int RunConformance(const std::vector<std::string>& files, ConformanceMode mode, bool trace);

}  // namespace muster::cli
