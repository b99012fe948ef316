// The object store of the simulated API server: every kind, schema-less, with the rules that clients can
// see. resourceVersion, uid and generation; status as a subresource; optimistic locking; patches; finalizers
// and deletion; lists in pages, history for watches, compaction; Job's defaults and immutable fields.
//
// Differences from the real server, all deliberate: no managedFields and so no server-side apply; no schema
// validation of custom resources; a pod that is deleted has no grace period but what a finalizer gives it; quantities
// stay as written.
//
// Source: kube-apiserver 1.36.3, each rule tried against it.
// Threading: needs external synchronisation.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "muster/core/clock.h"
#include "muster/sim/admission.h"
#include "muster/sim/api_status.h"
#include "muster/sim/json.h"
#include "muster/sim/kinds.h"

namespace muster::sim {

// Where a request points: a kind in one of its versions, and in it an object or (name empty) a collection.
struct Target {
  const Kind* kind = nullptr;
  std::string version;
  std::string ns;  // empty: cluster-scoped, or all namespaces
  std::string name;
  std::string subresource;  // "" or "status"
};

enum class PatchKind : uint8_t { kJsonPatch, kMergePatch };

struct DeleteOptions {
  std::string propagation;  // "", "Background", "Foreground", "Orphan"
  std::string uid;          // preconditions; empty: none
  std::string resource_version;
};

struct ListOptions {
  std::string label_selector;
  std::string field_selector;
  std::string resource_version;  // "": the newest; "0": any
  std::string resource_version_match;
  std::string continue_token;
  int64_t limit = 0;  // 0: all
  bool metadata_only = false;
};

// One committed write. For a deletion `object` is the last state with the deletion's resourceVersion.
struct Change {
  enum class Type : uint8_t { kAdded, kModified, kDeleted };
  int64_t version = 0;
  Type type = Type::kAdded;
  const Kind* kind = nullptr;
  JsonPtr object;
  JsonPtr previous;  // null: added
  std::string user;
};

class SimStore {
 public:
  // REQUIRES: `clock` outlives it. `random` draws uids and generated names.
  SimStore(const Clock* clock, SeededRandom random);
  SimStore(const SimStore&) = delete;
  SimStore& operator=(const SimStore&) = delete;

  // A further kind, as installing a CRD would add it; pointers to other kinds stay valid.
  const Kind* AddKind(Kind kind);
  // RETURNS: null where the server serves no such kind.
  const Kind* FindKind(std::string_view group, std::string_view plural) const;
  // By what objects say of themselves: apiVersion and kind.
  const Kind* FindKindOf(const Json& object) const;
  const std::vector<std::unique_ptr<Kind>>& kinds() const { return kinds_; }
  Admission& admission() { return admission_; }

  // The verbs. `user` is whom admission sees. Answers are what an HTTP client gets.
  Answer Read(const Target& target, bool metadata_only = false) const;
  Answer List(const Target& target, const ListOptions& options) const;
  Answer Create(const std::string& user, const Target& target, Json object);
  Answer Update(const std::string& user, const Target& target, Json object);
  Answer Patch(const std::string& user, const Target& target, PatchKind kind, std::string_view patch);
  Answer Delete(const std::string& user, const Target& target, const DeleteOptions& options);
  Answer DeleteCollection(const std::string& user, const Target& target, const ListOptions& which,
                          const DeleteOptions& options);
  // The last step of a namespace's deletion. REQUIRES: it is terminating and empty.
  void FinalizeNamespace(const std::string& name);

  // Direct looks, without a request. RETURNS: null where there is none.
  JsonPtr Peek(const Kind* kind, const std::string& ns, const std::string& name) const;
  std::vector<JsonPtr> PeekAll(const Kind* kind) const;

  // Called at each commit, before the writer gets its answer. Must not write.
  void Subscribe(std::function<void(const Change&)> observer) { observers_.push_back(std::move(observer)); }
  // What happened to a kind after `version`. REQUIRES: !IsCompacted(version).
  std::vector<Change> ChangesSince(const Kind* kind, int64_t version) const;
  // Forgets history up to and including `version`: who would resume from there must list again.
  void Compact(int64_t version);
  bool IsCompacted(int64_t version) const { return version < compacted_; }
  int64_t compacted() const { return compacted_; }
  int64_t version() const { return version_; }

  // An object as one version of the API shows it; with `metadata_only`, as PartialObjectMetadata.
  static Json Render(const Kind& kind, const std::string& version, const Json& object, bool metadata_only);

  // Canonical: the same objects give the same hash.
  uint64_t StateHash() const;

 private:
  using Table = std::map<std::string, JsonPtr>;  // by "namespace/name", or name
  // Makes the wanted object from the present one, or refuses.
  using Transform = std::function<std::optional<Answer>(const Json& present, Json* wanted)>;

  static std::string KeyOf(const Target& target);
  Table& TableOf(const Kind* kind) { return tables_[kind]; }
  const Table& TableOf(const Kind* kind) const;
  JsonPtr Lookup(const Target& target) const;
  std::optional<Answer> CheckBody(const Target& target, Json* object, bool is_patch) const;
  std::optional<Answer> CheckNamespace(const Target& target) const;
  Answer CreateOnce(const std::string& user, const Target& target, Json object);
  Answer Modify(const std::string& user, const Target& target, const Transform& transform);
  std::optional<Answer> CheckVersion(const Target& target, const Json& present, Json* wanted) const;
  std::optional<Answer> PrepareForUpdate(const Target& target, const Json& present, Json* wanted) const;
  Answer DeleteNamespace(const std::string& user, const Target& target, const Json& present);
  bool SetDeletionFinalizers(const Target& target, const DeleteOptions& options, Json* meta) const;
  // Writes, and tells the observers. RETURNS: the stored object.
  JsonPtr Commit(const std::string& user, const Target& target, Json object);
  void Remove(const std::string& user, const Target& target, const JsonPtr& present);
  void Publish(Change change);
  std::string NewUid();
  // The objects of a kind as they were at a version. REQUIRES: not compacted.
  Table SnapshotAt(const Kind* kind, int64_t version) const;

  const Clock* clock_;
  SeededRandom random_;
  Admission admission_;
  std::vector<std::unique_ptr<Kind>> kinds_;
  std::map<const Kind*, Table> tables_;
  // Jobs made without labels, by uid: they show their template's, and are stored with them by the next write, even if
  // it changes nothing.
  std::set<std::string> unlabelled_;
  int64_t version_ = 100;
  int64_t compacted_ = 0;
  std::deque<Change> history_;
  std::vector<std::function<void(const Change&)>> observers_;
};

}  // namespace muster::sim
