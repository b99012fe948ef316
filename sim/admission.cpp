#include "muster/sim/admission.h"

#include <algorithm>
#include <utility>

#include "muster/core/check.h"
#include "text.h"

namespace muster::sim {
namespace {

constexpr const char* kQueueName = "kueue.x-k8s.io/queue-name";
constexpr const char* kRecord = "muster.dev/admission";
constexpr const char* kElastic = "kueue.x-k8s.io/elastic-job";

std::string Queue(const Json& job) { return Text(At(job, "metadata", "labels", kQueueName)); }
const Json& Record(const Json& job) { return At(job, "metadata", "annotations", kRecord); }
bool Suspended(const Json& job) { return Flag(At(job, "spec", "suspend")); }
bool Finished(const Json& job) { return HasCondition(job, "Complete") || HasCondition(job, "Failed"); }

bool IsJob(const AdmissionRequest& request) {
  return request.kind->group == "batch" && request.kind->plural == "jobs" && request.subresource.empty();
}

std::optional<std::string> CheckRecord(const AdmissionRequest& request, const Json& job) {
  static const Json kNone;
  const Json& old = request.old == nullptr ? kNone : *request.old;
  if (Queue(job).empty() && Queue(old).empty() && Record(job).is_null() && Record(old).is_null()) return std::nullopt;
  const bool created = request.old == nullptr;
  if (Record(job) != Record(old)) {
    return Concat("metadata.annotations[", kRecord,
                  "] is written by Muster alone: ", created ? "remove it from the manifest" : "keep the stored value");
  }
  const bool held = created || Suspended(old);
  const std::string queue = created ? Queue(job) : Queue(old);
  if (held && !Suspended(job)) {
    return Concat("spec.suspend: the Job waits in LocalQueue ", queue, "; Muster starts it");
  }
  if (!held && !Finished(old) && Queue(job) != queue) {
    return Concat("metadata.labels[", kQueueName, "] cannot change while the Job runs");
  }
  return std::nullopt;
}

std::string ClaimOf(const Json& job) {
  const Json record = Json::parse(Text(Record(job)), nullptr, /*allow_exceptions=*/false);
  return record.is_object() ? Text(Get(record, "claim")) : std::string();
}

std::optional<std::string> CheckTerm(const Json& old, const Json& job, const Json& lease) {
  if (!Suspended(old) || Suspended(job) || Text(At(lease, "spec", "holderIdentity")).empty()) return std::nullopt;
  const std::string claim = ClaimOf(job);
  const std::string term = std::to_string(Number(At(lease, "spec", "leaseTransitions")) + 1);
  if (claim == ClaimOf(old) || claim.starts_with(term + "-")) return std::nullopt;
  return Concat("metadata.annotations[", kRecord, "]: \"", claim,
                "\" was decided on by a former leader; the term now is ", term);
}

// Who else may write the status of Workloads reserves no quota and admits nobody.
std::optional<std::string> CheckReservation(const AdmissionRequest& request, const Json& workload) {
  for (const char* condition : {"QuotaReserved", "Admitted"}) {
    if (HasCondition(workload, condition) && !HasCondition(*request.old, condition)) {
      return Concat("status.conditions[", condition, "]: cannot become True");
    }
  }
  if (HasCondition(workload, "QuotaReserved") &&
      At(workload, "status", "admission") != At(*request.old, "status", "admission")) {
    return "status.admission: cannot change while quota is reserved";
  }
  return std::nullopt;
}

}  // namespace

void Admission::AddMutating(std::string name, Mutate mutate) {
  plugins_.push_back({std::move(name), std::move(mutate), nullptr});
}
void Admission::AddValidating(std::string name, Validate validate) {
  plugins_.push_back({std::move(name), nullptr, std::move(validate)});
}

Admission::Plugin* Admission::Find(const std::string& name) {
  const auto it = std::ranges::find(plugins_, name, &Plugin::name);
  MUSTER_CHECK_MSG(it != plugins_.end(), "no admission plug-in " + name);
  return &*it;
}
void Admission::SetEnabled(const std::string& name, bool enabled) { Find(name)->enabled = enabled; }
void Admission::SetAllEnabled(bool enabled) {
  for (Plugin& plugin : plugins_) plugin.enabled = enabled;
}

void Admission::RunMutating(const AdmissionRequest& request, Json* object) const {
  for (const Plugin& plugin : plugins_) {
    if (plugin.enabled && plugin.mutate) plugin.mutate(request, object);
  }
}

std::optional<Answer> Admission::RunValidating(const AdmissionRequest& request, const Json& object) const {
  for (const Plugin& plugin : plugins_) {
    if (!plugin.enabled || !plugin.validate) continue;
    const std::optional<std::string> why = plugin.validate(request, object);
    if (!why.has_value()) continue;
    const std::string name = Text(At(object, "metadata", "name"));
    Answer answer = Forbidden(*request.kind, name,
                              Concat("ValidatingAdmissionPolicy '", plugin.name, "' with binding '", plugin.name,
                                     "' denied request: ", *why));
    answer.code = 422;
    answer.body["code"] = 422;
    answer.body["reason"] = "Invalid";
    answer.body["details"]["causes"] = {{{"message", *why}}};
    return answer;
  }
  return std::nullopt;
}

void AddMusterPolicies(const MusterPolicyOptions& options, Admission* admission) {
  using Operation = AdmissionRequest::Operation;
  const auto managed = [options](const Json& job) {
    const std::string ns = Text(At(job, "metadata", "namespace"));
    return std::ranges::find(options.unmanaged_namespaces, ns) == options.unmanaged_namespaces.end();
  };
  admission->AddMutating("muster-default-queue", [options, managed](const AdmissionRequest& request, Json* job) {
    if (!IsJob(request) || request.operation != Operation::kCreate || !managed(*job) || !Queue(*job).empty()) return;
    if (!options.default_queue) return;
    const Json queue = options.default_queue(Text(At(*job, "metadata", "namespace")));
    if (queue.is_null() || Text(At(queue, "spec", "stopPolicy"), "None") != "None") return;
    (*job)["metadata"]["labels"][kQueueName] = "default";
  });
  admission->AddMutating("muster-suspend", [managed](const AdmissionRequest& request, Json* job) {
    if (!IsJob(request) || request.operation != Operation::kCreate || !managed(*job)) return;
    if (!Queue(*job).empty()) (*job)["spec"]["suspend"] = true;
  });
  admission->AddMutating("muster-elastic", [managed](const AdmissionRequest& request, Json* job) {
    if (!IsJob(request) || request.operation != Operation::kCreate || !managed(*job) || Queue(*job).empty()) return;
    if (Text(At(*job, "metadata", "annotations", kElastic)) != "true") return;
    (*job)["spec"]["template"]["spec"]["schedulingGates"].push_back({{"name", kElastic}});
  });
  admission->AddMutating("muster-strip-record", [options, managed](const AdmissionRequest& request, Json* job) {
    if (!IsJob(request) || request.operation != Operation::kCreate || request.user == options.muster_user) return;
    if (!managed(*job) || Record(*job).is_null()) return;
    (*job)["metadata"]["annotations"].erase(kRecord);
    if ((*job)["metadata"]["annotations"].empty()) (*job)["metadata"].erase("annotations");
  });
  admission->AddValidating("muster-record", [options, managed](const AdmissionRequest& request, const Json& job) {
    std::optional<std::string> refused;
    if (IsJob(request) && request.operation != Operation::kDelete && request.user != options.muster_user &&
        managed(job)) {
      refused = CheckRecord(request, job);
    }
    return refused;
  });
  admission->AddValidating("muster-fence", [options, managed](const AdmissionRequest& request, const Json& job) {
    std::optional<std::string> refused;
    if (options.lease && IsJob(request) && request.operation == Operation::kUpdate &&
        request.user == options.muster_user && managed(job)) {
      refused = CheckTerm(*request.old, job, options.lease());
    }
    return refused;
  });
  admission->AddValidating("muster-workload-admission", [options](const AdmissionRequest& request, const Json& object) {
    std::optional<std::string> refused;
    if (request.kind->plural == "workloads" && request.subresource == "status" && request.old != nullptr &&
        request.user != options.muster_user) {
      refused = CheckReservation(request, object);
    }
    return refused;
  });
}

}  // namespace muster::sim
