// Runs a program to its end, for what it prints.
//
// Threading: RunProgram blocks; it may be called from any thread.
#pragma once

#include <absl/status/statusor.h>

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "muster/core/time.h"

namespace muster::k8s {

struct Program {
  std::string command;  // with a slash: a path; else looked for in $PATH
  std::vector<std::string> args;
  std::vector<std::pair<std::string, std::string>> env;  // beside the process's own, which they win over
};

struct ProgramEnd {
  int exit_code = 0;  // negative: of the signal that ended it
  std::string out;
  std::string err;  // its last few kilobytes
};

// Its input is empty. It and all that it started are killed when it takes longer than `timeout`, `cancel` turns true,
// or it fails; what it leaves in the background after it ended well runs on. ON FAILURE: it could not be started
// (NotFound, PermissionDenied, ...), took too long (DeadlineExceeded), was cancelled (Cancelled), or printed more than
// `out_bytes_max` (OutOfRange).
absl::StatusOr<ProgramEnd> RunProgram(const Program& program, Duration timeout, size_t out_bytes_max,
                                      const std::atomic<bool>& cancel);

}  // namespace muster::k8s
