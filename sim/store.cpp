#include "muster/sim/store.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_format.h>

#include <algorithm>
#include <utility>

#include "job_rules.h"
#include "muster/core/check.h"
#include "muster/sim/json_patch.h"
#include "object_meta.h"
#include "text.h"

namespace muster::sim {
namespace {

using Operation = AdmissionRequest::Operation;

constexpr int kGenerateNameTries = 8;
constexpr const char* kOrphan = "orphan";
constexpr const char* kForeground = "foregroundDeletion";

bool IsJob(const Kind& kind) { return kind.group == "batch" && kind.plural == "jobs"; }
bool IsNamespace(const Kind& kind) { return kind.group.empty() && kind.plural == "namespaces"; }

std::string Name(const Json& object) { return Text(At(object, "metadata", "name")); }

AdmissionRequest Request(const std::string& user, Operation operation, const Target& target, const Json* old) {
  return {user, operation, target.kind, target.version, target.subresource, old};
}

Answer Ok(const Target& target, const Json& object, int code = 200) {
  return {code, SimStore::Render(*target.kind, target.version, object, /*metadata_only=*/false), std::nullopt};
}

void Append(FieldErrors more, FieldErrors* errors) {
  errors->insert(errors->end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

void BumpGeneration(Json* meta, int64_t from) { (*meta)["generation"] = from + 1; }

// Everything but metadata.
Json Content(const Json& object) {
  Json copy = object;
  copy.erase("metadata");
  copy.erase("apiVersion");
  return copy;
}

void CopyMember(const Json& from, const char* key, Json* to) {
  if (from.contains(key)) {
    (*to)[key] = from[key];
  } else {
    to->erase(key);
  }
}

}  // namespace

SimStore::SimStore(const Clock* clock, SeededRandom random) : clock_(clock), random_(random) {
  for (Kind& kind : DefaultKinds()) AddKind(std::move(kind));
}

const Kind* SimStore::AddKind(Kind kind) {
  MUSTER_CHECK_MSG(FindKind(kind.group, kind.plural) == nullptr, kind.Qualified() + " is there already");
  kinds_.push_back(std::make_unique<Kind>(std::move(kind)));
  return kinds_.back().get();
}

const Kind* SimStore::FindKind(std::string_view group, std::string_view plural) const {
  for (const auto& kind : kinds_) {
    if (kind->group == group && kind->plural == plural) return kind.get();
  }
  return nullptr;
}

const Kind* SimStore::FindKindOf(const Json& object) const {
  const std::string api_version = Text(Get(object, "apiVersion"));
  const size_t slash = api_version.find('/');
  const std::string group = slash == std::string::npos ? "" : api_version.substr(0, slash);
  for (const auto& kind : kinds_) {
    if (kind->group == group && kind->kind == Text(Get(object, "kind"))) return kind.get();
  }
  return nullptr;
}

std::string SimStore::KeyOf(const Target& target) {
  return target.kind->namespaced ? Concat(target.ns, "/", target.name) : target.name;
}

const SimStore::Table& SimStore::TableOf(const Kind* kind) const {
  static const Table kEmpty;
  const auto it = tables_.find(kind);
  return it == tables_.end() ? kEmpty : it->second;
}

JsonPtr SimStore::Lookup(const Target& target) const {
  const Table& table = TableOf(target.kind);
  const auto it = table.find(KeyOf(target));
  return it == table.end() ? nullptr : it->second;
}

JsonPtr SimStore::Peek(const Kind* kind, const std::string& ns, const std::string& name) const {
  return Lookup({kind, "", ns, name, ""});
}

std::vector<JsonPtr> SimStore::PeekAll(const Kind* kind) const {
  std::vector<JsonPtr> objects;
  for (const auto& [key, object] : TableOf(kind)) objects.push_back(object);
  return objects;
}

std::string SimStore::NewUid() {
  const uint64_t a = random_.Next();
  const uint64_t b = random_.Next();
  return absl::StrFormat("%08x-%04x-4%03x-%04x-%012x", a >> 32, (a >> 16) & 0xffff, a & 0xfff,
                         0x8000 | ((b >> 48) & 0x3fff), b & 0xffff'ffff'ffff);
}

JsonPtr SimStore::Commit(const std::string& user, const Target& target, Json object) {
  object["metadata"]["resourceVersion"] = std::to_string(++version_);
  Target place = target;
  place.name = Name(object);
  const JsonPtr stored = std::make_shared<const Json>(std::move(object));
  JsonPtr& slot = TableOf(target.kind)[KeyOf(place)];
  const JsonPtr previous = std::exchange(slot, stored);
  Publish({version_, previous == nullptr ? Change::Type::kAdded : Change::Type::kModified, target.kind, stored,
           previous, user});
  return stored;
}

void SimStore::Remove(const std::string& user, const Target& target, const JsonPtr& present) {
  Json last = *present;
  last["metadata"]["resourceVersion"] = std::to_string(++version_);
  TableOf(target.kind).erase(KeyOf(target));
  Publish(
      {version_, Change::Type::kDeleted, target.kind, std::make_shared<const Json>(std::move(last)), present, user});
}

void SimStore::Publish(Change change) {
  history_.push_back(std::move(change));
  const Change published = history_.back();
  for (const auto& observer : observers_) observer(published);
}

Answer SimStore::Read(const Target& target, bool metadata_only) const {
  const JsonPtr object = Lookup(target);
  if (object == nullptr) return NotFound(*target.kind, target.name);
  return {200, Render(*target.kind, target.version, *object, metadata_only), std::nullopt};
}

// What decoding does: the object must say what the path says, and takes the form in which it is stored.
std::optional<Answer> SimStore::CheckBody(const Target& target, Json* object, bool is_patch) const {
  const Kind& kind = *target.kind;
  const std::string expected = kind.ApiVersion(target.version);
  if (!object->is_object()) return BadRequest("the body is not an object");
  const std::string api_version = Text(Get(*object, "apiVersion"));
  if (Text(Get(*object, "kind")) != kind.kind) {
    return BadRequest(
        Concat(Text(Get(*object, "kind")), " in version \"", api_version, "\" cannot be handled as a ", kind.kind));
  }
  if (api_version != expected) {
    if (is_patch && kind.custom) {
      return Invalid(kind, target.name, {InvalidValue("apiVersion", api_version, "must be " + expected)});
    }
    return BadRequest(Concat("the API version in the data (", api_version,
                             ") does not match the expected API version (", expected, ")"));
  }
  std::string problem = NormalizeMeta(object);
  if (problem.empty() && IsJob(kind)) problem = NormalizeJob(object);
  if (!problem.empty()) {
    if (!is_patch) {
      return BadRequest(
          Concat(kind.kind, " in version \"", target.version, "\" cannot be handled as a ", kind.kind, ": ", problem));
    }
    return Failure(422, "Invalid", " \"\" is invalid: patch: Invalid value: " + problem,
                   {{"causes", {{{"field", "patch"}, {"reason", "FieldValueInvalid"}, {"message", problem}}}}});
  }
  if (IsJob(kind)) DefaultJob(object);
  Json& meta = (*object)["metadata"];
  const std::string ns = Text(Get(meta, "namespace"));
  if (kind.namespaced && ns.empty()) meta["namespace"] = target.ns;
  if (!kind.namespaced ? !ns.empty() : Text(meta["namespace"]) != target.ns) {
    return BadRequest("the namespace of the provided object does not match the namespace sent on the request");
  }
  const std::string name = Text(Get(meta, "name"));
  if (!target.name.empty() && name != target.name) {
    return BadRequest(
        Concat("the name of the object (", name, ") does not match the name on the URL (", target.name, ")"));
  }
  (*object)["apiVersion"] = kind.ApiVersion(kind.versions.front());
  return std::nullopt;
}

std::optional<Answer> SimStore::CheckNamespace(const Target& target) const {
  if (!target.kind->namespaced) return std::nullopt;
  const Kind* namespaces = FindKind("", "namespaces");
  const JsonPtr ns = Peek(namespaces, "", target.ns);
  if (ns == nullptr) return NotFound(*namespaces, target.ns);
  if (!At(*ns, "metadata", "deletionTimestamp").is_null()) {
    Answer refused =
        Forbidden(*target.kind, target.name,
                  Concat("unable to create new content in namespace ", target.ns, " because it is being terminated"));
    refused.body["details"]["causes"] = {{{"field", "metadata.namespace"},
                                          {"reason", "NamespaceTerminating"},
                                          {"message", Concat("namespace ", target.ns, " is being terminated")}}};
    return refused;
  }
  return std::nullopt;
}

Answer SimStore::Create(const std::string& user, const Target& target, Json object) {
  if (auto refused = CheckBody(target, &object, /*is_patch=*/false)) return *refused;
  const std::string prefix = Text(At(object, "metadata", "generateName"));
  if (!Name(object).empty() || prefix.empty()) return CreateOnce(user, target, std::move(object));
  Answer answer;
  for (int i = 0; i < kGenerateNameTries; ++i) {
    Json named = object;
    named["metadata"]["name"] = GenerateName(prefix, [this](uint64_t bound) { return random_.Below(bound); });
    answer = CreateOnce(user, target, std::move(named));
    if (answer.reason() != "AlreadyExists") break;
  }
  return answer;
}

Answer SimStore::CreateOnce(const std::string& user, const Target& target, Json object) {
  const Kind& kind = *target.kind;
  const AdmissionRequest request = Request(user, Operation::kCreate, target, nullptr);
  admission_.RunMutating(request, &object);
  Target place = target;
  place.name = Name(object);
  if (auto refused = CheckNamespace(place)) return *refused;
  Json& meta = object["metadata"];
  for (const char* key : {"deletionTimestamp", "deletionGracePeriodSeconds", "generation"}) meta.erase(key);
  meta["uid"] = NewUid();
  meta["creationTimestamp"] = FormatTime(clock_->Now());
  if (kind.generation != Kind::Generation::kNone) meta["generation"] = 1;
  if (kind.status_subresource && kind.custom) object.erase("status");
  const bool unlabelled = IsJob(kind) && !meta.contains("labels");
  if (IsJob(kind)) PrepareJobForCreate(&object);
  if (IsNamespace(kind)) {
    meta["labels"]["kubernetes.io/metadata.name"] = place.name;
    object["spec"]["finalizers"] = {"kubernetes"};
    object["status"]["phase"] = "Active";
  }
  FieldErrors errors = ValidateMeta(kind, object);
  if (IsJob(kind)) Append(ValidateJob(object), &errors);
  if (!errors.empty()) return Invalid(kind, place.name, errors);
  if (auto refused = admission_.RunValidating(request, object)) return *refused;
  if (meta.contains("resourceVersion")) {
    return Failure(500, "", "resourceVersion should not be set on objects to be created");
  }
  if (Lookup(place) != nullptr) return AlreadyExists(kind, place.name);
  if (unlabelled) unlabelled_.insert(Text(At(object, "metadata", "uid")));
  return Ok(target, *Commit(user, place, std::move(object)), 201);
}

Answer SimStore::Update(const std::string& user, const Target& target, Json object) {
  if (auto refused = CheckBody(target, &object, /*is_patch=*/false)) return *refused;
  if (Lookup(target) == nullptr && target.kind->create_on_update && target.subresource.empty()) {
    return CreateOnce(user, target, std::move(object));
  }
  return Modify(user, target, [&](const Json& present, Json* wanted) -> std::optional<Answer> {
    const std::string uid = Text(At(object, "metadata", "uid"));
    const std::string have = Text(At(present, "metadata", "uid"));
    if (!uid.empty() && uid != have) {
      return Conflict(target.kind->Qualified(), target.kind->group, target.kind->plural, target.name,
                      Concat("StorageError: invalid object, Code: 4, Key: ", KeyOf(target),
                             ", ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in "
                             "precondition: ",
                             uid, ", UID in object meta: ", have));
    }
    *wanted = object;
    return std::nullopt;
  });
}

Answer SimStore::Patch(const std::string& user, const Target& target, PatchKind kind, std::string_view patch) {
  std::optional<Json> merge;
  if (kind == PatchKind::kMergePatch) {
    merge = ParseJson(patch);
    if (!merge.has_value() || !merge->is_object()) return BadRequest("error decoding patch: not a JSON object");
  }
  return Modify(user, target, [&](const Json& present, Json* wanted) -> std::optional<Answer> {
    *wanted = Render(*target.kind, target.version, present, /*metadata_only=*/false);
    if (merge.has_value()) {
      ApplyMergePatch(*merge, wanted);
    } else if (const absl::Status status = ApplyJsonPatch(patch, wanted); !status.ok()) {
      return absl::IsInvalidArgument(status) ? BadRequest(std::string(status.message())) : PatchDoesNotApply();
    }
    return CheckBody(target, wanted, /*is_patch=*/true);
  });
}

// Optimistic locking. Fills in the version where none is given and none is needed.
std::optional<Answer> SimStore::CheckVersion(const Target& target, const Json& present, Json* wanted) const {
  Json& version = (*wanted)["metadata"]["resourceVersion"];
  const Json& have = At(present, "metadata", "resourceVersion");
  if (version.is_null()) {
    if (target.kind->update_needs_version) {
      Kind named = *target.kind;
      named.kind = named.plural;  // the server names the resource here, not the kind
      return Invalid(named, target.name,
                     {InvalidValue("metadata.resourceVersion", 0, "must be specified for an update")});
    }
    version = have;
  }
  if (version != have) return ModifiedConflict(*target.kind, target.name);
  return std::nullopt;
}

// Takes over what this request may not change, moves the generation, and validates.
std::optional<Answer> SimStore::PrepareForUpdate(const Target& target, const Json& present, Json* wanted) const {
  const Kind& kind = *target.kind;
  const Json& before = Get(present, "metadata");
  const bool status_only = target.subresource == "status";
  if (status_only && kind.custom) {
    Json replaced = present;
    CopyMember(*wanted, "status", &replaced);
    *wanted = std::move(replaced);
  } else if (status_only) {
    for (const auto& [key, value] : present.items()) {
      if (key != "metadata" && key != "status") (*wanted)[key] = value;
    }
  } else if (kind.status_subresource) {
    CopyMember(present, "status", wanted);
  }
  Json& meta = (*wanted)["metadata"];
  for (const char* key : {"creationTimestamp", "generation"}) CopyMember(before, key, &meta);
  for (const char* key : {"deletionTimestamp", "deletionGracePeriodSeconds"}) {
    if (before.contains(key)) meta[key] = before[key];
  }
  if (!meta.contains("uid")) meta["uid"] = before["uid"];
  if (IsJob(kind)) ShareTemplateLabels(wanted);
  const bool grows =
      kind.generation == Kind::Generation::kSpec
          ? Get(*wanted, "spec") != Get(present, "spec")
          : kind.generation == Kind::Generation::kAllButStatus && !status_only && Content(*wanted) != Content(present);
  if (grows) BumpGeneration(&meta, Number(Get(before, "generation")));

  FieldErrors errors = ValidateMeta(kind, *wanted);
  Append(ValidateMetaUpdate(*wanted, present), &errors);
  if (IsJob(kind)) {
    Append(status_only ? ValidateJobStatusUpdate(*wanted, present) : ValidateJobUpdate(*wanted, present), &errors);
  }
  if (!errors.empty()) return Invalid(kind, target.name, errors);
  return std::nullopt;
}

Answer SimStore::Modify(const std::string& user, const Target& target, const Transform& transform) {
  const JsonPtr present = Lookup(target);
  if (present == nullptr) return NotFound(*target.kind, target.name);
  Json wanted;
  if (auto refused = transform(*present, &wanted)) return *refused;
  const AdmissionRequest request = Request(user, Operation::kUpdate, target, present.get());
  admission_.RunMutating(request, &wanted);
  if (auto refused = CheckVersion(target, *present, &wanted)) return *refused;
  if (auto refused = PrepareForUpdate(target, *present, &wanted)) return *refused;
  if (auto refused = admission_.RunValidating(request, wanted)) return *refused;
  const Json& meta = Get(wanted, "metadata");
  if (!At(*present, "metadata", "deletionTimestamp").is_null() && !meta.contains("finalizers") &&
      !IsNamespace(*target.kind)) {
    Remove(user, target, present);
    return Ok(target, wanted);
  }
  const bool stored_anew = unlabelled_.erase(Text(Get(meta, "uid"))) > 0;
  if (wanted == *present && !stored_anew) return Ok(target, *present);  // nothing is written
  return Ok(target, *Commit(user, target, std::move(wanted)));
}

// RETURNS: whether the finalizers of garbage collection had to change.
bool SimStore::SetDeletionFinalizers(const Target& target, const DeleteOptions& options, Json* meta) const {
  const Json had = Get(*meta, "finalizers").is_array() ? (*meta)["finalizers"] : Json::array();
  const auto has = [&had](const char* finalizer) { return std::ranges::find(had, Json(finalizer)) != had.end(); };
  bool orphan = options.propagation == "Orphan";
  bool foreground = options.propagation == "Foreground";
  if (options.propagation.empty()) {
    orphan = has(kOrphan) || (!has(kForeground) && target.kind->orphans_by_default);
    foreground = !orphan && has(kForeground);
  }
  Json wanted = Json::array();
  for (const Json& finalizer : had) {
    if (finalizer != kOrphan && finalizer != kForeground) wanted.push_back(finalizer);
  }
  if (orphan) wanted.push_back(kOrphan);
  if (foreground) wanted.push_back(kForeground);
  const bool changed = has(kOrphan) != orphan || has(kForeground) != foreground;
  if (changed) (*meta)["finalizers"] = wanted;
  if (wanted.empty()) meta->erase("finalizers");
  return changed;
}

Answer SimStore::Delete(const std::string& user, const Target& target, const DeleteOptions& options) {
  const Kind& kind = *target.kind;
  if (!options.propagation.empty() && options.propagation != "Background" && options.propagation != "Foreground" &&
      options.propagation != "Orphan") {
    Kind named;
    named.group = "meta.k8s.io";
    named.kind = "DeleteOptions";
    return Invalid(
        named, "",
        {NotSupported("propagationPolicy", options.propagation, {"Foreground", "Background", "Orphan", "nil"})});
  }
  const JsonPtr present = Lookup(target);
  if (present == nullptr) return NotFound(kind, target.name);
  const auto precondition = [&](const char* what, const std::string& wanted, const std::string& have,
                                const char* hint) {
    return Conflict(kind.QualifiedKind(), kind.group, kind.kind, target.name,
                    Concat("the ", what, " in the precondition (", wanted, ") does not match the ", what,
                           " in record (", have, "). The object might have been ", hint));
  };
  const std::string uid = Text(At(*present, "metadata", "uid"));
  const std::string version = Text(At(*present, "metadata", "resourceVersion"));
  if (!options.uid.empty() && options.uid != uid) {
    return precondition("UID", options.uid, uid, "deleted and then recreated");
  }
  if (!options.resource_version.empty() && options.resource_version != version) {
    return precondition("ResourceVersion", options.resource_version, version, "modified");
  }
  if (auto refused = admission_.RunValidating(Request(user, Operation::kDelete, target, present.get()), *present)) {
    return *refused;
  }
  if (IsNamespace(kind)) return DeleteNamespace(user, target, *present);
  Json wanted = *present;
  Json& meta = wanted["metadata"];
  SetDeletionFinalizers(target, options, &meta);
  if (meta.contains("finalizers")) {
    if (!meta.contains("deletionTimestamp")) {
      if (meta.contains("generation")) BumpGeneration(&meta, Number(meta["generation"]));
      meta["deletionTimestamp"] = FormatTime(clock_->Now());
      meta["deletionGracePeriodSeconds"] = 0;
    }
    return Ok(target, wanted == *present ? *present : *Commit(user, target, std::move(wanted)));
  }
  Remove(user, target, present);
  Json details = {{"name", target.name}, {"kind", kind.plural}, {"uid", uid}};
  if (!kind.group.empty()) details["group"] = kind.group;
  return {200,
          {{"apiVersion", "v1"},
           {"kind", "Status"},
           {"metadata", Json::object()},
           {"status", "Success"},
           {"details", std::move(details)}},
          std::nullopt};
}

Answer SimStore::DeleteNamespace(const std::string& user, const Target& target, const Json& present) {
  if (!At(present, "metadata", "deletionTimestamp").is_null()) return Ok(target, present);
  Json wanted = present;
  wanted["metadata"]["deletionTimestamp"] = FormatTime(clock_->Now());
  wanted["status"]["phase"] = "Terminating";
  return Ok(target, *Commit(user, target, std::move(wanted)));
}

void SimStore::FinalizeNamespace(const std::string& name) {
  const Target target{FindKind("", "namespaces"), "v1", "", name, ""};
  const JsonPtr present = Lookup(target);
  MUSTER_CHECK(present != nullptr && !At(*present, "metadata", "deletionTimestamp").is_null());
  Remove("namespace-controller", target, present);
}

Answer SimStore::DeleteCollection(const std::string& user, const Target& target, const ListOptions& which,
                                  const DeleteOptions& options) {
  Answer list = List(target, which);
  if (!list.ok()) return list;
  for (const Json& item : list.body["items"]) {
    Target one = target;
    one.name = Name(item);
    if (one.kind->namespaced) one.ns = Text(At(item, "metadata", "namespace"));
    const Answer deleted = Delete(user, one, options);
    if (!deleted.ok() && deleted.code != 404) return deleted;
  }
  return list;
}

}  // namespace muster::sim
