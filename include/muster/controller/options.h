// What a Controller is configured with.
//
// Threading: values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/controller/pods_ready.h"
#include "muster/controller/policies.h"
#include "muster/core/labels.h"
#include "muster/core/time.h"
#include "muster/engine/fair_sharing.h"
#include "muster/gang/requests.h"
#include "muster/k8s_client/lease.h"

namespace muster::controller {

// How long what is over is kept; unset: for ever.
struct RetentionOptions {
  std::optional<Duration> after_finished;     // Workloads
  std::optional<Duration> after_deactivated;  // Jobs whose Workloads Muster deactivated
};

struct Options {
  // Jobs of other namespaces are left alone, queue name or not.
  LabelSelector managed_jobs_namespace_selector;
  bool manage_jobs_without_queue_name = false;
  // Labels of a Job that its Workload gets too.
  std::vector<std::string> label_keys_to_copy;
  bool leader_elect = true;
  k8s::LeaseOptions lease;
  // Own namespace (for the lease) and the user that the policies let through.
  std::string ns = "muster-system";
  std::string service_account = "muster";
  // Others that the policies let start Jobs, and controllers whose child Jobs are left alone.
  std::vector<std::string> allowed_starters;
  std::vector<ParentController> parents;
  // Policies that are missing or differ from what this configuration gives are a standing problem.
  bool check_policies = true;
  int64_t unwritten_claims_max = 2000;
  // What of a pod's requests is counted, and as what.
  gang::RequestConfig requests;
  bool ignore_undeclared_resources = false;
  // A gang is admitted only where every pod has a place on a node, by what nodes and pods there are.
  bool check_machines = false;
  // How long a gang may lack places for pods that are on no node, before it is stopped whole. 0: for ever.
  Duration place_timeout = std::chrono::minutes(1);
  bool balanced_placement = false;  // as of engine::EngineOptions
  // How long a gang waits for machines alone before some are reserved for it. 0: none ever are.
  Duration reserve_after{0};
  Duration defragment_after{0};  // as of engine::EngineOptions
  int deciders = 1;  // as of engine::EngineOptions
  // Unset: off.
  std::optional<engine::FairSharing> fair_sharing;
  std::optional<engine::AdmissionFairSharing> admission_fair_sharing;
  // Strict: an evicted gang's quota is free only when no pod is terminating either.
  bool wait_for_terminating_pods = false;
  RetentionOptions retention;
  // Unset: pods may take what time they will, and nothing is said of them.
  std::optional<WaitForPodsReadyOptions> wait_for_pods_ready;
  // For how long after the pause a gang's next starts prefer flavors with which its pods were ready in time, or were
  // not tried. 0: never.
  Duration pass_over_timed_out{0};
  // How long a new leader waits before it reads the state it decides on: no write of its predecessor is applied
  // later. At least the client's lands_within().
  Duration takeover_wait = std::chrono::seconds(6);
  // Hand-over: decides nothing, brings Workloads up to date, and takes the records of Jobs away.
  bool release = false;
  // Kueue's own namespace: while its lease is held there, Muster does not lead.
  std::string kueue_namespace = "kueue-system";
};

// The part that the admission policies are generated from.
PolicyOptions PolicyOptionsOf(const Options& options);

}  // namespace muster::controller
