// The Workload object: how it is read, and the bodies that create and change it.
//
// Source: kueue_semantics 1.6, 2.2; golden cases.
// Threading: values and pure functions.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/controller/check_state.h"
#include "muster/controller/decode.h"
#include "muster/controller/preemption_gates.h"
#include "muster/controller/record.h"
#include "muster/core/labels.h"
#include "muster/k8s_client/json_reader.h"
#include "muster/k8s_client/object.h"

namespace muster::controller {

// The kind of a class that is made for Workloads; the other is Kubernetes' own PriorityClass.
inline constexpr std::string_view kWorkloadPriorityClass = "WorkloadPriorityClass";

struct PriorityClassRef {
  std::string group;
  std::string kind;
  std::string name;
  friend bool operator==(const PriorityClassRef&, const PriorityClassRef&) = default;
};

struct WorkloadPodSet {
  std::string name;
  int32_t count = 0;
  std::optional<int32_t> min_count;
  uint64_t containers_hash = 0;
  std::vector<gang::Toleration> tolerations;
  gang::TopologyRequest topology{};
  friend bool operator==(const WorkloadPodSet&, const WorkloadPodSet&) = default;
};

// The spec without the templates' text: two specs that are equal here are equivalent.
struct WorkloadSpec {
  std::string queue_name;
  int32_t priority = 0;
  std::optional<PriorityClassRef> priority_class;
  std::optional<int64_t> max_execution_seconds;
  std::vector<WorkloadPodSet> pod_sets;
  friend bool operator==(const WorkloadSpec&, const WorkloadSpec&) = default;
};

// Requests by resource, as they are written.
using ResourceList = std::map<std::string, std::string>;

struct PodSetRequests {
  std::string name;
  ResourceList resources;
  friend bool operator==(const PodSetRequests&, const PodSetRequests&) = default;
};

struct AdmittedPodSet {
  std::string name;
  std::map<std::string, std::string> flavors;
  ResourceList usage;
  int32_t count = 0;
  std::optional<gang::TopologyAssignment> topology{};
  friend bool operator==(const AdmittedPodSet&, const AdmittedPodSet&) = default;
};

struct WorkloadAdmission {
  std::string cluster_queue;
  std::vector<AdmittedPodSet> pod_sets;
  friend bool operator==(const WorkloadAdmission&, const WorkloadAdmission&) = default;
};

// Pods by pod set.
using PodCounts = std::map<std::string, int32_t, std::less<>>;

// How often the pods of the gang did not get ready; and when it is queued again, for that or since a check is to be
// tried again; unset: it is.
struct RequeueState {
  int32_t count = 0;
  WallTime requeue_at;
  friend bool operator==(const RequeueState&, const RequeueState&) = default;
};

struct WorkloadStatus {
  std::vector<k8s::Condition> conditions;
  std::optional<WorkloadAdmission> admission;
  std::vector<PodSetRequests> resource_requests;
  PodCounts reclaimable_pods;
  CheckStates checks;
  std::vector<EvictionCount> evictions;
  int64_t past_execution_seconds = 0;
  std::optional<RequeueState> requeue_state;
  PreemptionGates preemption_gates;
  friend bool operator==(const WorkloadStatus&, const WorkloadStatus&) = default;
};

struct Workload {
  k8s::ObjectMeta meta;
  bool active = true;
  WorkloadSpec spec;
  WorkloadStatus status;
  std::vector<std::string> preemption_gates;  // names, of the spec
  // What its pods ask for; empty where it was made from a Job, which says so itself.
  std::vector<PodSetTemplate> templates;
};

// The batch Job that a Workload is of.
struct JobRef {
  std::string name;
  std::string uid;
};

// By its controller owner; of one without, which was orphaned, by its uid label and its own name together.
// RETURNS: nothing where it is of another kind.
std::optional<JobRef> JobOf(const k8s::ObjectMeta& workload);

// Holds quota, by what its status says: reserved and not finished.
bool HoldsQuota(const Workload& workload);
// Its pods have places in a topology.
bool ShowsPlaces(const Workload& workload);
// The claim that it names; not set where it names none that can be read.
engine::ClaimId ClaimOf(const Workload& workload);

// ON FAILURE: names Workload, field and value.
absl::StatusOr<Workload> DecodeWorkload(std::string_view json);

// What only a create or a change of pod sets needs: the texts.
struct PodSetText {
  Labels labels;
  Labels annotations;
  Labels node_selector;
  std::string spec_rest;  // JSON object: the pod spec without node selector, tolerations and scheduling gates
  std::vector<std::string> scheduling_gates{};
};

struct WorkloadOwner {
  std::string api_version;
  std::string kind;
  std::string name;
  std::string uid;
};

struct WorkloadBody {
  std::string ns;
  std::string name;
  Labels labels;
  Labels annotations;
  WorkloadOwner owner;
  bool active = true;
  WorkloadSpec spec;
  std::vector<PodSetText> texts;  // one for each pod set of the spec
};

std::string EncodeWorkload(const WorkloadBody& body);

// Merge patch of the spec from `known` to `wanted`. `texts` are used where pod sets changed.
std::string EncodeSpecPatch(const Workload& known, const WorkloadSpec& wanted, const std::vector<PodSetText>& texts);

// Merge patch that sets spec.active to false.
std::string EncodeDeactivation(const Workload& known);

// Merge patch that takes Kueue's finalizer away, where it is there, and sets labels and annotations; an empty one of
// these is taken away.
std::string EncodeMetaPatch(const Workload& known, const Labels& annotations, const Labels& labels = {});
bool HasKueueFinalizer(const Workload& workload);

// Merge patch of what differs in the status, with the resourceVersion of `known` and the whole array of
// conditions. RETURNS: empty where nothing differs.
std::string EncodeStatusPatch(const Workload& known, const WorkloadStatus& wanted);

// status.admission of a Workload.
WorkloadAdmission DecodeWorkloadAdmission(k8s::JsonValue admission);

// An admission as the engine has it, in the API's terms, and back. ON FAILURE: names field and value.
WorkloadAdmission ToApi(const engine::Admission& admission);
absl::StatusOr<engine::Admission> FromApi(const WorkloadAdmission& admission);

}  // namespace muster::controller
