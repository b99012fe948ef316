// What a Job's objects alone say about its admission: how state is found again after a restart.
//
// Source: record.md.
// Threading: pure functions, where not said otherwise.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
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
  // Of kLeaving: why, where an engine decided so, for whom, and when.
  std::optional<engine::EvictionReason> evicted;
  std::string preemptor_uid;
  WallTime evicted_at;
  bool started = true;   // false: of a Workload that holds the record, and whose Job is still to be started
  bool admitted = true;  // false: its checks are still to be passed
  WallTime admitted_at;  // where that was later than the reservation
};

// A record of the Job's own counts first: started, it holds its quota whether or not somebody suspended the Job
// since; stopped, until its pods are gone. Without one, a Job that runs, or that was suspended after its start, has
// what its Workload shows as admitted, and a suspended one what it shows as being evicted, or its prebuilt one as
// reserved.
// `workload` may be null.
std::optional<Held> FindHeld(const Job& job, const Workload* workload, bool wait_for_terminating_pods);

// What a Workload holds that no Job's record speaks for, whoever reserved it: evicted, until its pods are gone.
// RETURNS: nothing where it holds no quota.
// ON FAILURE: names the field that cannot be read.
absl::StatusOr<std::optional<Held>> FindHeld(const Workload& workload);

engine::HeldClaim ToHeldClaim(const Held& held);
// `preemptor_uid`: as the engine knows it.
engine::PastEviction ToPastEviction(const Eviction& eviction, std::string preemptor_uid);
// Says that it holds the record of its admission itself.
bool IsRecordHolder(const Workload& workload);

// Claims are told apart by their ids. One that was found without, or with that of another, gets a new one.
//
// Threading: needs external synchronisation.
class AdoptedClaims {
 public:
  // Of a new leader.
  void Begin(uint64_t epoch);
  // RETURNS: `found`, unless it is not set or was found for another workload too.
  engine::ClaimId Adopt(engine::ClaimId found, const std::string& uid);
  engine::ClaimId New();

 private:
  uint64_t epoch_ = 0;
  uint64_t count_ = 0;
  std::map<engine::ClaimId, std::string> owners_;  // to the workload's uid
};

// The Workload is this Job's and shows the admission of its record. Only Muster writes the status of Workloads,
// so that this is proof where the record may have been written by others.
bool ShowsAdmission(const Workload* workload, const Job& job);

// What speaks against the record, where it holds quota: counts or amounts that `shape`, one pod of the Job, cannot
// have come to. RETURNS: empty where the record agrees with the Job, or the Workload shows the same.
// `ignore_undeclared`: what the Job asks for may be missing in the record. REQUIRES: the Job has a record.
std::string RecordDoubt(const Job& job, const Workload* workload, const gang::Shape& shape, bool ignore_undeclared);

}  // namespace muster::controller
