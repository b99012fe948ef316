#include "check_finalizers.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "muster/controller/names.h"
#include "muster/core/log_fields.h"
#include "muster/k8s_client/json_writer.h"
#include "muster/k8s_client/resources.h"

namespace muster::controller {
namespace {

constexpr int kConflict = 409;
constexpr int kNotFound = 404;

bool Has(const k8s::ObjectMeta& check) {
  return std::find(check.finalizers.begin(), check.finalizers.end(), kKueueFinalizer) != check.finalizers.end();
}

std::string Body(const k8s::ObjectMeta& check, bool with) {
  k8s::JsonWriter out;
  out.StartObject().Key("metadata").StartObject();
  out.Field("uid", check.uid).Field("resourceVersion", check.resource_version).Key("finalizers").StartArray();
  for (const std::string& finalizer : check.finalizers) {
    if (finalizer != kKueueFinalizer) out.String(finalizer);
  }
  if (with) out.String(kKueueFinalizer);
  return out.EndArray().EndObject().EndObject().Take();
}

}  // namespace

void CheckFinalizers::Open() {
  open_ = true;
  TouchAll();
}

void CheckFinalizers::TouchAll() {
  for (const auto& [name, entry] : entries_) Touch(name);
}

void CheckFinalizers::Observe(const k8s::ObjectMeta& check) {
  entries_[check.name].meta = check;
  Touch(check.name);
}

void CheckFinalizers::Touch(const std::string& name) {
  const auto it = entries_.find(name);
  if (!open_ || it == entries_.end() || it->second.busy || it->second.waits) return;
  const k8s::ObjectMeta& check = it->second.meta;
  const bool wanted = in_use_(name);
  // What is being deleted takes no more finalizers.
  if (wanted == Has(check) || (wanted && check.deletion.IsSet())) return;
  it->second.busy = true;
  client_->Patch(k8s::Lane::kStatus, k8s::kAdmissionChecks, check.key(), "", k8s::PatchType::kMergePatch,
                 Body(check, wanted), [this, alive = std::weak_ptr<bool>(alive_), name](const k8s::Result& result) {
                   if (!alive.expired()) Answered(name, result);
                 });
}

void CheckFinalizers::Answered(const std::string& name, const k8s::Result& result) {
  const auto it = entries_.find(name);
  if (it == entries_.end()) return;
  Entry& entry = it->second;
  entry.busy = false;
  if (result.ok()) {
    entry.backoff.Reset();
    returned_(result.body);
    Touch(name);
    return;
  }
  // Deleted, or changed: the watch says so.
  if (result.code == kNotFound) return;
  if (result.code != kConflict) {
    spdlog::warn("the finalizer of an admission check could not be written{}",
                 LogFields({{"admissionCheck", name}, {"error", result.message}}));
  }
  entry.waits = true;
  env_.executor->PostAt(env_.clock->Mono() + entry.backoff.Next(), [this, alive = std::weak_ptr<bool>(alive_), name] {
    if (alive.expired()) return;
    if (const auto found = entries_.find(name); found != entries_.end()) found->second.waits = false;
    Touch(name);
  });
}

}  // namespace muster::controller
