#include "garbage_collector.h"

#include <algorithm>
#include <utility>

#include "text.h"

namespace muster::sim {
namespace {

constexpr const char* kUser = "system:serviceaccount:kube-system:generic-garbage-collector";
constexpr const char* kOrphan = "orphan";
constexpr const char* kForeground = "foregroundDeletion";
constexpr Duration kLookAgain = std::chrono::milliseconds(500);

bool Has(const Json& list, const std::string& value) {
  return list.is_array() && std::ranges::find(list, Json(value)) != list.end();
}

}  // namespace

GarbageCollector::GarbageCollector(SimExecutor* executor, SimStore* store, Executor* source,
                                   const ControllerOptions& options, std::function<bool(const std::string&)> blocks,
                                   std::function<void(const std::string&)> delete_pods)
    : executor_(executor),
      store_(store),
      source_(source),
      options_(options),
      random_(executor->NewRandom("garbage-collector")),
      blocks_(std::move(blocks)),
      delete_pods_(std::move(delete_pods)) {}

void GarbageCollector::Later(std::function<void()> task) {
  const auto span = static_cast<uint64_t>((options_.collect.max - options_.collect.min).count());
  const Duration delay = options_.collect.min + Duration(static_cast<int64_t>(random_.Below(span + 1)));
  source_->PostAt(executor_->Mono() + delay, std::move(task));
}

Target GarbageCollector::TargetOf(const Found& found) {
  return {found.kind, found.kind->versions.front(), Text(At(*found.object, "metadata", "namespace")),
          Text(At(*found.object, "metadata", "name")), ""};
}

void GarbageCollector::OnChange(const Change& change) {
  const Json& meta = Get(*change.object, "metadata");
  const std::string ns = Text(Get(meta, "namespace"));
  const std::string name = Text(Get(meta, "name"));
  const Kind* kind = change.kind;
  if (change.type == Change::Type::kDeleted) {
    for (const Found& found : DependentsOf(Text(Get(meta, "uid")))) {
      const Target target = TargetOf(found);
      Later([this, target] { CheckOwners(target.kind, target.ns, target.name); });
    }
    return;
  }
  if (!Get(meta, "ownerReferences").is_null()) Later([this, kind, ns, name] { CheckOwners(kind, ns, name); });
  if (Get(meta, "deletionTimestamp").is_null()) return;
  if (Has(Get(meta, "finalizers"), kOrphan)) Later([this, kind, ns, name] { Orphan(kind, ns, name); });
  if (Has(Get(meta, "finalizers"), kForeground)) {
    Later([this, kind, ns, name] { DeleteForeground(kind, ns, name); });
  }
}

std::vector<GarbageCollector::Found> GarbageCollector::DependentsOf(const std::string& uid) const {
  std::vector<Found> found;
  for (const auto& kind : store_->kinds()) {
    for (const JsonPtr& object : store_->PeekAll(kind.get())) {
      const Json& owners = At(*object, "metadata", "ownerReferences");
      const bool depends =
          owners.is_array() && std::ranges::any_of(owners, [&](const Json& o) { return Text(Get(o, "uid")) == uid; });
      if (depends) found.push_back({kind.get(), object});
    }
  }
  return found;
}

bool GarbageCollector::OwnerExists(const Json& owner, const std::string& ns) const {
  const Kind* kind = store_->FindKindOf(owner);
  if (kind == nullptr) return true;  // of a kind that this world does not have: never collected
  const JsonPtr object = store_->Peek(kind, kind->namespaced ? ns : "", Text(Get(owner, "name")));
  return object != nullptr && At(*object, "metadata", "uid") == Get(owner, "uid");
}

void GarbageCollector::CheckOwners(const Kind* kind, const std::string& ns, const std::string& name) {
  const JsonPtr object = store_->Peek(kind, ns, name);
  if (object == nullptr) return;
  const Json& owners = At(*object, "metadata", "ownerReferences");
  if (!owners.is_array()) return;
  Json left = Json::array();
  for (const Json& owner : owners) {
    if (OwnerExists(owner, ns)) left.push_back(owner);
  }
  if (left.size() == owners.size()) return;
  const Target target = TargetOf({kind, object});
  if (left.empty()) {
    DeleteOptions options;
    options.uid = Text(At(*object, "metadata", "uid"));
    // What the object itself asks for; by default its own dependents go in the background.
    options.propagation = Has(At(*object, "metadata", "finalizers"), kOrphan)       ? "Orphan"
                          : Has(At(*object, "metadata", "finalizers"), kForeground) ? "Foreground"
                                                                                    : "Background";
    store_->Delete(kUser, target, options);
    return;
  }
  store_->Patch(kUser, target, PatchKind::kMergePatch, Dump({{"metadata", {{"ownerReferences", left}}}}));
}

void GarbageCollector::RemoveFinalizer(const Target& target, const std::string& finalizer) {
  const JsonPtr object = store_->Peek(target.kind, target.ns, target.name);
  if (object == nullptr) return;
  Json left = Json::array();
  for (const Json& present : At(*object, "metadata", "finalizers")) {
    if (present != finalizer) left.push_back(present);
  }
  store_->Patch(kUser, target, PatchKind::kMergePatch, Dump({{"metadata", {{"finalizers", left}}}}));
}

void GarbageCollector::Orphan(const Kind* kind, const std::string& ns, const std::string& name) {
  const JsonPtr owner = store_->Peek(kind, ns, name);
  if (owner == nullptr || !Has(At(*owner, "metadata", "finalizers"), kOrphan)) return;
  const std::string uid = Text(At(*owner, "metadata", "uid"));
  for (const Found& found : DependentsOf(uid)) {
    Json left = Json::array();
    for (const Json& reference : At(*found.object, "metadata", "ownerReferences")) {
      if (Text(Get(reference, "uid")) != uid) left.push_back(reference);
    }
    store_->Patch(kUser, TargetOf(found), PatchKind::kMergePatch, Dump({{"metadata", {{"ownerReferences", left}}}}));
  }
  RemoveFinalizer(TargetOf({kind, owner}), kOrphan);
}

void GarbageCollector::DeleteForeground(const Kind* kind, const std::string& ns, const std::string& name) {
  const JsonPtr owner = store_->Peek(kind, ns, name);
  if (owner == nullptr || !Has(At(*owner, "metadata", "finalizers"), kForeground)) return;
  const std::string uid = Text(At(*owner, "metadata", "uid"));
  delete_pods_(uid);
  bool blocked = blocks_(uid);
  for (const Found& found : DependentsOf(uid)) {
    const Json& owners = At(*found.object, "metadata", "ownerReferences");
    blocked = blocked || std::ranges::any_of(owners, [&](const Json& o) {
                return Text(Get(o, "uid")) == uid && Flag(Get(o, "blockOwnerDeletion"));
              });
    if (!At(*found.object, "metadata", "deletionTimestamp").is_null()) continue;
    DeleteOptions options;
    options.propagation = "Background";
    store_->Delete(kUser, TargetOf(found), options);
  }
  if (blocked) {
    source_->PostAt(executor_->Mono() + kLookAgain, [this, kind, ns, name] { DeleteForeground(kind, ns, name); });
    return;
  }
  RemoveFinalizer(TargetOf({kind, owner}), kForeground);
}

}  // namespace muster::sim
