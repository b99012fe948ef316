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

bool HasFinalizer(const Json& object, const std::string& finalizer) {
  const Json& list = At(object, "metadata", "finalizers");
  return list.is_array() && std::ranges::find(list, Json(finalizer)) != list.end();
}

bool IsDeleted(const Json& object) { return !At(object, "metadata", "deletionTimestamp").is_null(); }

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
  if (!IsDeleted(*change.object)) return;
  if (HasFinalizer(*change.object, kOrphan)) Later([this, kind, ns, name] { Orphan(kind, ns, name); });
  if (HasFinalizer(*change.object, kForeground)) {
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

GarbageCollector::Owner GarbageCollector::Look(const Json& owner, const std::string& ns) const {
  const Kind* kind = store_->FindKindOf(owner);
  if (kind == nullptr) return Owner::kSolid;  // of a kind that this world does not have: never collected
  const JsonPtr object = store_->Peek(kind, kind->namespaced ? ns : "", Text(Get(owner, "name")));
  if (object == nullptr || At(*object, "metadata", "uid") != Get(owner, "uid")) return Owner::kGone;
  return IsDeleted(*object) && HasFinalizer(*object, kForeground) ? Owner::kWaiting : Owner::kSolid;
}

// An object of the whole cluster cannot be owned by one of a namespace: nobody knows of which.
bool GarbageCollector::RefersOutOfReach(const Kind& kind, const Json& owners) const {
  if (kind.namespaced) return false;
  return std::ranges::any_of(owners, [this](const Json& owner) {
    const Kind* of = store_->FindKindOf(owner);
    return of != nullptr && of->namespaced;
  });
}

void GarbageCollector::CheckOwners(const Kind* kind, const std::string& ns, const std::string& name) {
  const JsonPtr object = store_->Peek(kind, ns, name);
  // What is deleted already goes its own way.
  if (object == nullptr || IsDeleted(*object)) return;
  const Json& owners = At(*object, "metadata", "ownerReferences");
  if (!owners.is_array() || RefersOutOfReach(*kind, owners)) return;
  Json solid = Json::array();
  bool waits = false;
  for (const Json& owner : owners) {
    const Owner state = Look(owner, ns);
    if (state == Owner::kSolid) solid.push_back(owner);
    waits = waits || state == Owner::kWaiting;
  }
  if (solid.size() == owners.size()) return;
  if (solid.empty()) return DeleteOwned({kind, object}, waits);
  store_->Patch(kUser, TargetOf({kind, object}), PatchKind::kMergePatch,
                Dump({{"metadata", {{"ownerReferences", solid}}}}));
}

void GarbageCollector::DeleteOwned(const Found& found, bool owner_waits) {
  const Target target = TargetOf(found);
  const std::string uid = Text(At(*found.object, "metadata", "uid"));
  const std::vector<Found> dependents = DependentsOf(uid);
  DeleteOptions options;
  options.uid = uid;
  if (owner_waits && (!dependents.empty() || blocks_(uid))) {
    // Two that own each other would wait for ever.
    const bool circle = std::ranges::any_of(
        dependents, [](const Found& d) { return IsDeleted(*d.object) && HasFinalizer(*d.object, kForeground); });
    if (circle) {
      Json owners = At(*found.object, "metadata", "ownerReferences");
      for (Json& owner : owners) owner["blockOwnerDeletion"] = false;
      store_->Patch(kUser, target, PatchKind::kMergePatch, Dump({{"metadata", {{"ownerReferences", owners}}}}));
    }
    options.propagation = "Foreground";
  } else {
    // What the object itself asks for; by default its own dependents go in the background.
    options.propagation = HasFinalizer(*found.object, kOrphan)       ? "Orphan"
                          : HasFinalizer(*found.object, kForeground) ? "Foreground"
                                                                     : "Background";
  }
  store_->Delete(kUser, target, options);
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
  if (owner == nullptr || !HasFinalizer(*owner, kOrphan)) return;
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
  if (owner == nullptr || !HasFinalizer(*owner, kForeground)) return;
  const std::string uid = Text(At(*owner, "metadata", "uid"));
  delete_pods_(uid);
  bool blocked = blocks_(uid);
  for (const Found& found : DependentsOf(uid)) {
    const Json& owners = At(*found.object, "metadata", "ownerReferences");
    blocked = blocked || std::ranges::any_of(owners, [&](const Json& o) {
                return Text(Get(o, "uid")) == uid && Flag(Get(o, "blockOwnerDeletion"));
              });
    const Target target = TargetOf(found);
    CheckOwners(target.kind, target.ns, target.name);
  }
  if (blocked) {
    source_->PostAt(executor_->Mono() + kLookAgain, [this, kind, ns, name] { DeleteForeground(kind, ns, name); });
    return;
  }
  RemoveFinalizer(TargetOf({kind, owner}), kForeground);
}

}  // namespace muster::sim
