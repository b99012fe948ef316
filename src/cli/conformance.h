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

#include <string>
#include <string_view>
#include <vector>

#include "muster/k8s_client/json_reader.h"

namespace muster::cli {

struct CaseResult {
  std::string id;
  std::string category;
  std::vector<std::string> differences;  // empty: it conforms
};

// ON FAILURE: InvalidArgument that says what cannot be read.
// `trace`: null, or where to add what each pass decided.
absl::StatusOr<CaseResult> RunConformanceCase(std::string_view line, std::vector<std::string>* trace = nullptr);

// The two kinds of case; they add to `differences`.
void RunSchedulingCase(k8s::JsonValue root, std::vector<std::string>* differences, std::vector<std::string>* trace);
void RunRequestsCase(k8s::JsonValue root, std::vector<std::string>* differences);

// The tool: reads each file ("-": standard input), prints each difference, a count for each category, and
// "N passed, N failed". With `trace` it also prints, for each case that differs, what each pass decided.
// RETURNS: the exit code: 0 all conform, 1 some differ, 2 a file or line is unreadable.
int RunConformance(const std::vector<std::string>& files, bool trace);

}  // namespace muster::cli
