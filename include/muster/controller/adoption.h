// What a Job's objects alone say about its admission: how state is found again after a restart.
//
// Source: record.md.
// Threading: pure functions.
#pragma once

#include <optional>
#include <string>

#include "muster/controller/job.h"
#include "muster/controller/workload.h"
#include "muster/gang/shape.h"

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
// since; stopped, until its pods are gone. Without one, a Job that runs, or that was suspended after its start, has
// what its Workload shows as admitted, and a suspended one what it shows as being evicted.
// `workload` may be null.
std::optional<Held> FindHeld(const Job& job, const Workload* workload, bool wait_for_terminating_pods);

// The Workload is this Job's and shows the admission of its record. Only Muster writes the status of Workloads,
// so that this is proof where the record may have been written by others.
bool ShowsAdmission(const Workload* workload, const Job& job);

// What speaks against the record, where it holds quota: counts or amounts that `shape`, one pod of the Job, cannot
// have come to. RETURNS: empty where the record agrees with the Job, or the Workload shows the same.
// `ignore_undeclared`: what the Job asks for may be missing in the record. REQUIRES: the Job has a record.
std::string RecordDoubt(const Job& job, const Workload* workload, const gang::Shape& shape, bool ignore_undeclared);

}  // namespace muster::controller
