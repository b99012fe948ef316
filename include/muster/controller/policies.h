// The admission policies that the API server runs for Muster, generated from the configuration: Jobs with a
// queue name start suspended, only Muster unsuspends them and writes their record, and wrong queue objects are
// refused where the CRDs' own rules cannot say it. There is no webhook: all this goes on while Muster is down.
//
// Errors: only LivePolicyHash can fail. Source: design decision 7 and 8, record.md, kueue_semantics 1 and 2.1;
// every expression was tried on kube-apiserver 1.36.
// Threading: free functions over values.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/core/labels.h"

namespace muster::controller {

// A controller whose child Jobs are not queued themselves, since their parent is. A Job counts as its child only
// if `user` writes it *and* its controller owner is of this group and kind: an owner reference alone can be forged.
struct ParentController {
  std::string user;   // "system:serviceaccount:jobset-system:jobset-controller-manager"
  std::string group;  // "jobset.x-k8s.io"
  std::string kind;   // "JobSet"
};

// All namespaces but kube-system and `own_namespace`.
LabelSelector DefaultManagedNamespaces(std::string_view own_namespace);

struct PolicyOptions {
  // Muster's own identity, which the policies leave alone.
  std::string ns = "muster-system";
  std::string service_account = "muster";
  // Jobs elsewhere are not touched, queue name or not.
  LabelSelector managed_jobs_namespace_selector = DefaultManagedNamespaces("muster-system");
  bool manage_jobs_without_queue_name = false;
  // User names that may start Jobs and write records as Muster does.
  std::vector<std::string> allowed_starters;
  std::vector<ParentController> parents;
  // Only starts that the leader in office has decided on are let through: those of a former one, delayed on their
  // way, would pass all that they test. Needs the Lease.
  bool fence = true;
  std::string lease_namespace = "muster-system";
  std::string lease_name = "c1f6bfd2.kueue.x-k8s.io";
};

// "system:serviceaccount:NAMESPACE:NAME"
std::string OwnUserName(const PolicyOptions& options);

// One object, complete: a policy or the binding that puts it in force.
struct GeneratedPolicy {
  std::string kind;
  std::string name;
  std::string hash;  // of the spec, in canonical form; also its annotation muster.dev/policy-hash
  std::string yaml;
};

// What must be found on the API server.
struct PolicyExpectation {
  std::string kind;
  std::string name;
  std::string hash;
};

// In the order in which to apply them: a policy before its binding.
std::vector<GeneratedPolicy> Policies(const PolicyOptions& options);

// API servers before 1.36 do not serve mutating policies unless told to, and refuse a file that holds one.
enum class PolicyKinds : uint8_t { kAll, kMutating, kValidating };

// The same as YAML documents, ready for `kubectl apply -f -`.
std::string GeneratePolicies(const PolicyOptions& options, PolicyKinds kinds = PolicyKinds::kAll);

std::vector<PolicyExpectation> ExpectedPolicies(const PolicyOptions& options);

// The hash of a policy or binding as the API server returned it, to be compared with the expected one: it is
// taken from the spec itself, so that an edit shows even where the annotation was left.
// ERRORS: kInvalidArgument where `object_json` is no JSON object or has no spec.
absl::StatusOr<std::string> LivePolicyHash(std::string_view object_json);

}  // namespace muster::controller
