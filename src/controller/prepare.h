// A Job, or a Workload without one, as the engine's workload: how many pods of which shape, in which queue, how urgent.
//
// Threading: pure function; the table needs external synchronisation.
#pragma once

#include <absl/status/status.h>

#include <optional>
#include <vector>

#include "catalog.h"
#include "muster/controller/job.h"
#include "muster/controller/options.h"
#include "muster/controller/projection.h"
#include "muster/gang/shape.h"

namespace muster::controller {

struct Prepared {
  engine::Workload workload;  // without not_before and held; of a Job, without active
  Priority priority;
  std::optional<int32_t> min_count;
  std::optional<int64_t> max_execution_seconds;
  std::vector<PodSetRequests> requests;
  // Why the Job must not be queued: NotFound (its WorkloadPriorityClass), InvalidArgument or Unimplemented, naming
  // key and value. The rest is complete all the same, for a Job that runs already.
  absl::Status problem;
};

Prepared PrepareWorkload(const Job& job, const Catalog& catalog, const gang::RequestConfig& config,
                         gang::ShapeTable* shapes);

// By its annotation muster.dev/movable.
bool IsMovable(const Workload& object);

// A Workload that says by itself what it asks for: its pods less those that are done. `held`: what it was admitted to;
// null: nothing. The uid is the Workload's own.
Prepared PrepareWorkload(const Workload& object, const engine::Admission* held, const Catalog& catalog,
                         const gang::RequestConfig& config, gang::ShapeTable* shapes);

// A prebuilt Workload says what its Job's pods ask for, and since when it waits; of the Job are the number of pods, the
// queue, and its priority where it states one.
void TakeFromPrebuilt(const Job& job, const Workload& object, const Catalog& catalog, const gang::RequestConfig& config,
                      gang::ShapeTable* shapes, Prepared* out);

// Pods of an admitted gang that have not ended; `prepared` null: nobody knows of any that have.
int64_t PodsHeld(const engine::Admission& admission, const Prepared* prepared);

// False where spec.managedBy names a controller other than Kubernetes' own.
bool RunByJobController(const Job& job);

bool InManagedNamespace(const Job& job, const Catalog& catalog, const Options& options);

// The Job is Muster's to queue: it names a queue (or need not), its namespace is managed, and it is not the child of
// a parent in the configuration, which is queued in its place. This is the rule of the admission policies, which
// also see to it that nobody but the parent's controller makes such a child: what they suspend is started here.
bool IsManaged(const Job& job, const Catalog& catalog, const Options& options);

}  // namespace muster::controller
