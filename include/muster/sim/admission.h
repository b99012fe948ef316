// Admission: what stands between a valid request and the store. Functions stand for admission policies; each
// can be switched off, as if an administrator had forgotten or deleted it.
//
// Threading: needs external synchronisation.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "muster/sim/api_status.h"
#include "muster/sim/json.h"
#include "muster/sim/kinds.h"

namespace muster::sim {

struct AdmissionRequest {
  enum class Operation : uint8_t { kCreate, kUpdate, kDelete };
  std::string user;
  Operation operation = Operation::kCreate;
  const Kind* kind = nullptr;
  std::string version;        // that the request used
  std::string subresource;    // "" or "status"
  const Json* old = nullptr;  // null on create
};

class Admission {
 public:
  // Changes the object that is about to be stored.
  using Mutate = std::function<void(const AdmissionRequest&, Json* object)>;
  // RETURNS: why the request is refused, or nothing. On delete `object` is the old one.
  using Validate = std::function<std::optional<std::string>(const AdmissionRequest&, const Json& object)>;

  // Plug-ins run in the order added: all that mutate, the server's own validation, all that validate.
  void AddMutating(std::string name, Mutate mutate);
  void AddValidating(std::string name, Validate validate);
  // REQUIRES: a plug-in of that name.
  void SetEnabled(const std::string& name, bool enabled);
  void SetAllEnabled(bool enabled);

  void RunMutating(const AdmissionRequest& request, Json* object) const;
  // RETURNS: the refusal (422, as a ValidatingAdmissionPolicy words it), or nothing.
  std::optional<Answer> RunValidating(const AdmissionRequest& request, const Json& object) const;

 private:
  struct Plugin {
    std::string name;
    Mutate mutate;
    Validate validate;
    bool enabled = true;
  };
  Plugin* Find(const std::string& name);

  std::vector<Plugin> plugins_;
};

struct MusterPolicyOptions {
  std::string muster_user = "system:serviceaccount:muster-system:muster";
  std::vector<std::string> unmanaged_namespaces = {"kube-system", "muster-system"};
  // The LocalQueue named default of a namespace, null without one. Unset: there are none.
  std::function<Json(const std::string& ns)> default_queue = nullptr;
  // The Lease of leader election, null without one. Unset: there is no fence.
  std::function<Json()> lease = nullptr;
};

// The policies that Muster ships (design decision 7, record.md), as plug-ins:
//   "muster-default-queue" a Job without a queue name is given the namespace's default at CREATE;
//   "muster-suspend"       a Job with a queue name is suspended at CREATE;
//   "muster-strip-record"  a record in a Job at CREATE by anyone else is taken out;
//   "muster-record"        nobody else sets the record, unsuspends a queued Job or moves a running one;
//   "muster-fence"         Muster starts no Job under a claim of another term than the Lease's;
//   "muster-workload-admission"  nobody else reserves quota for a Workload or admits it.
void AddMusterPolicies(const MusterPolicyOptions& options, Admission* admission);

}  // namespace muster::sim
