#include "watched.h"

#include "muster/k8s_client/json_reader.h"
#include "text.h"

namespace muster::controller {
namespace {

// Decodes one object of `kind` by `read`, which fills T from the document's root.
template <typename T, typename Read>
absl::StatusOr<T> DecodeObject(std::string_view kind, std::string_view json, Read read) {
  k8s::JsonDocument document(json);
  T out;
  out.meta = k8s::DecodeMeta(document.root());
  read(document.root(), &out);
  if (const absl::Status s = document.Finish(Cat(kind, " ", out.meta.key().ToString())); !s.ok()) return s;
  return out;
}

}  // namespace

absl::StatusOr<WatchedClusterQueue> DecodeWatchedClusterQueue(std::string_view json) {
  auto object = DecodeObject<WatchedClusterQueue>(
      "ClusterQueue", json,
      [](k8s::JsonValue root, WatchedClusterQueue* out) { out->queue = DecodeClusterQueue(root); });
  if (!object.ok()) return object;
  auto status = DecodeQueueObject(json, true);
  if (!status.ok()) return status.status();
  object->status = std::move(status->status);
  return object;
}

absl::StatusOr<WatchedLocalQueue> DecodeWatchedLocalQueue(std::string_view json) {
  auto object = DecodeObject<WatchedLocalQueue>(
      "LocalQueue", json, [](k8s::JsonValue root, WatchedLocalQueue* out) { out->queue = DecodeLocalQueue(root); });
  if (!object.ok()) return object;
  auto status = DecodeQueueObject(json, false);
  if (!status.ok()) return status.status();
  object->status = std::move(status->status);
  return object;
}

absl::StatusOr<WatchedFlavor> DecodeWatchedFlavor(std::string_view json) {
  return DecodeObject<WatchedFlavor>("ResourceFlavor", json, [](k8s::JsonValue root, WatchedFlavor* out) {
    out->flavor = DecodeResourceFlavor(root);
  });
}

absl::StatusOr<WatchedCohort> DecodeWatchedCohort(std::string_view json) {
  return DecodeObject<WatchedCohort>("Cohort", json,
                                     [](k8s::JsonValue root, WatchedCohort* out) { out->cohort = DecodeCohort(root); });
}

absl::StatusOr<WatchedNamespace> DecodeWatchedNamespace(std::string_view json) {
  return DecodeObject<WatchedNamespace>("Namespace", json, [](k8s::JsonValue, WatchedNamespace*) {});
}

}  // namespace muster::controller
