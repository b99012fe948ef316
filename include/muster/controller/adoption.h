// What a Job's objects alone say about its admission: how state is found again after a restart.
//
// Source: record.md.
// Threading: pure functions.
#pragma once

#include <optional>

#include "muster/controller/job.h"
#include "muster/controller/workload.h"

namespace muster::controller {

struct Held {
  engine::ClaimState state = engine::ClaimState::kWritten;  // kWritten, kActive or kLeaving
  // Unset where a Workload's admission counts that names no claim.
  engine::ClaimId claim;
  engine::Admission admission;
  WallTime reserved_at;
  std::string local_queue;
};

// A record of the Job's own counts first: started, it holds its quota whether or not somebody suspended the Job
// since; stopped, until its pods are gone. Without one, a running Job has what its Workload shows as admitted.
// `workload` may be null.
std::optional<Held> FindHeld(const Job& job, const Workload* workload, bool wait_for_terminating_pods);

}  // namespace muster::controller
