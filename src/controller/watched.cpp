#include "watched.h"

#include "muster/k8s_client/json_reader.h"
#include "text.h"

namespace muster::controller {
namespace {

// Decodes one object of `kind` by `read`, which fills T from the document's root. What of its spec cannot be read
// becomes `*misconfigured` of what `read` returns; only without metadata it is no object at all.
template <typename T, typename Read>
absl::StatusOr<T> DecodeObject(std::string_view kind, std::string_view json, Read read) {
  k8s::JsonDocument document(json);
  T out;
  out.meta = k8s::DecodeMeta(document.root());
  if (const absl::Status s = document.Finish(Cat(kind, " ", out.meta.key().ToString())); !s.ok()) return s;
  std::string* misconfigured = read(document.root(), &out);
  *misconfigured = document.problem();
  return out;
}

}  // namespace

absl::StatusOr<WatchedClusterQueue> DecodeWatchedClusterQueue(std::string_view json) {
  return DecodeObject<WatchedClusterQueue>("ClusterQueue", json, [json](k8s::JsonValue root, WatchedClusterQueue* out) {
    out->queue = DecodeClusterQueue(root);
    out->status = DecodeQueueStatus(json);
    return &out->queue.misconfigured;
  });
}

absl::StatusOr<WatchedLocalQueue> DecodeWatchedLocalQueue(std::string_view json) {
  return DecodeObject<WatchedLocalQueue>("LocalQueue", json, [json](k8s::JsonValue root, WatchedLocalQueue* out) {
    out->queue = DecodeLocalQueue(root);
    out->status = DecodeQueueStatus(json);
    out->queue.consumed = out->status.consumed;
    return &out->queue.misconfigured;
  });
}

absl::StatusOr<WatchedFlavor> DecodeWatchedFlavor(std::string_view json) {
  return DecodeObject<WatchedFlavor>("ResourceFlavor", json, [](k8s::JsonValue root, WatchedFlavor* out) {
    out->flavor = DecodeResourceFlavor(root);
    return &out->flavor.misconfigured;
  });
}

absl::StatusOr<WatchedCohort> DecodeWatchedCohort(std::string_view json) {
  return DecodeObject<WatchedCohort>("Cohort", json, [json](k8s::JsonValue root, WatchedCohort* out) {
    out->cohort = DecodeCohort(root);
    out->status = DecodeQueueStatus(json);
    return &out->cohort.misconfigured;
  });
}

absl::StatusOr<WatchedAdmissionCheck> DecodeWatchedAdmissionCheck(std::string_view json) {
  auto out = DecodeObject<WatchedAdmissionCheck>(
      "AdmissionCheck", json, [](k8s::JsonValue root, WatchedAdmissionCheck* check) {
        check->check.name = check->meta.name;
        check->check.controller_name = root["spec"]["controllerName"].String();
        check->check.active = k8s::IsTrue(k8s::DecodeConditions(root["status"]["conditions"]), "Active");
        return &check->misconfigured;
      });
  if (out.ok() && !out->misconfigured.empty()) out->check.active = false;
  return out;
}

absl::StatusOr<WatchedNamespace> DecodeWatchedNamespace(std::string_view json) {
  k8s::JsonDocument document(json);
  WatchedNamespace out{k8s::DecodeMeta(document.root())};
  if (const absl::Status s = document.Finish(Cat("Namespace ", out.meta.name)); !s.ok()) return s;
  return out;
}

}  // namespace muster::controller
