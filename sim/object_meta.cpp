#include "object_meta.h"

#include <algorithm>
#include <vector>

#include "text.h"

namespace muster::sim {
namespace {

constexpr size_t kSubdomainMax = 253;
constexpr size_t kLabelMax = 63;
constexpr size_t kAnnotationsMax = 256 * 1024;

constexpr std::string_view kSubdomainRule =
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
constexpr std::string_view kLabelRule =
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
    "with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
constexpr std::string_view kLabelValueRule =
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation "
    "is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
constexpr std::string_view kQualifiedNameRule =
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

bool IsLower(char c) { return c >= 'a' && c <= 'z'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsAlnum(char c) { return IsLower(c) || IsDigit(c) || (c >= 'A' && c <= 'Z'); }
std::string Lower(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

bool IsDnsLabel(std::string_view text, size_t max) {
  if (text.empty() || text.size() > max || text.front() == '-' || text.back() == '-') return false;
  return std::ranges::all_of(text, [](char c) { return IsLower(c) || IsDigit(c) || c == '-'; });
}

bool IsDnsSubdomain(std::string_view text) {
  if (text.size() > kSubdomainMax) return false;
  for (const std::string& part : Split(text, '.')) {
    if (!IsDnsLabel(part, kSubdomainMax)) return false;
  }
  return true;
}

// What labels, and the name part of keys, are made of.
bool IsWord(std::string_view text) {
  if (text.empty() || text.size() > kLabelMax) return false;
  if (!IsAlnum(text.front()) || !IsAlnum(text.back())) return false;
  return std::ranges::all_of(text, [](char c) { return IsAlnum(c) || c == '-' || c == '_' || c == '.'; });
}

bool NormalizeStringMap(Json* meta, const char* key) {
  const auto it = meta->find(key);
  if (it == meta->end()) return true;
  if (it->is_null() || (it->is_object() && it->empty())) {
    meta->erase(it);
    return true;
  }
  if (!it->is_object()) return false;
  for (auto& [name, value] : it->items()) {
    if (value.is_null()) value = "";
    if (!value.is_string()) return false;
  }
  return true;
}

bool NormalizeList(Json* meta, const char* key, bool of_objects) {
  const auto it = meta->find(key);
  if (it == meta->end()) return true;
  if (it->is_null() || (it->is_array() && it->empty())) {
    meta->erase(it);
    return true;
  }
  if (!it->is_array()) return false;
  return std::ranges::all_of(*it, [&](const Json& e) { return of_objects ? e.is_object() : e.is_string(); });
}

bool NormalizeString(Json* meta, const char* key) {
  const auto it = meta->find(key);
  if (it == meta->end()) return true;
  if (it->is_null() || *it == "") {
    meta->erase(it);
    return true;
  }
  return it->is_string();
}

void CheckKeys(const Json& map, const std::string& field, bool values_are_labels, FieldErrors* errors) {
  if (!map.is_object()) return;
  for (const auto& [key, value] : map.items()) {
    if (!IsQualifiedName(values_are_labels ? key : Lower(key))) {
      errors->push_back(InvalidValue(field, key, kQualifiedNameRule));
    }
    if (values_are_labels && !IsLabelValue(Text(value))) {
      errors->push_back(InvalidValue(field, value, kLabelValueRule));
    }
  }
}

void CheckOwners(const Json& owners, FieldErrors* errors) {
  const std::string field = "metadata.ownerReferences";
  std::string controller;
  for (const Json& owner : owners) {
    for (const char* key : {"kind", "name", "uid"}) {
      if (Text(Get(owner, key)).empty()) {
        errors->push_back(InvalidValue(Concat(field, ".", key), "", "must not be empty"));
      }
    }
    if (Text(Get(owner, "apiVersion")).empty()) {
      errors->push_back(InvalidValue(field + ".apiVersion", "", "version must not be empty"));
    }
    if (!Flag(Get(owner, "controller"))) continue;
    const std::string name = Concat(Text(Get(owner, "kind")), "/", Text(Get(owner, "name")));
    if (!controller.empty()) {
      errors->push_back(
          InvalidValue(field, owners,
                       Concat("Only one reference can have Controller set to true. Found \"true\" in references for ",
                              controller, " and ", name)));
    }
    controller = name;
  }
}

void CheckNewFinalizers(const Json& wanted, const Json& had, FieldErrors* errors) {
  std::string added;
  for (const Json& finalizer : wanted) {
    if (std::ranges::find(had, finalizer) == had.end()) added += Concat(added.empty() ? "" : ", ", Dump(finalizer));
  }
  if (added.empty()) return;
  errors->push_back(
      Forbidden("metadata.finalizers",
                Concat("no new finalizers can be added if the object is being deleted, found new finalizers []string{",
                       added, "}")));
}

}  // namespace

bool IsQualifiedName(const std::string& text) {
  const size_t slash = text.find('/');
  if (slash == std::string::npos) return IsWord(text);
  return IsDnsSubdomain(text.substr(0, slash)) && IsWord(text.substr(slash + 1));
}

bool IsLabelValue(const std::string& text) { return text.empty() || IsWord(text); }

std::string NormalizeMeta(Json* object) {
  Json& meta = (*object)["metadata"];
  if (meta.is_null()) meta = Json::object();
  if (!meta.is_object()) return "metadata is not an object";
  meta.erase("managedFields");
  meta.erase("selfLink");
  if (Get(meta, "creationTimestamp").is_null()) meta.erase("creationTimestamp");
  for (const char* key : {"labels", "annotations"}) {
    if (!NormalizeStringMap(&meta, key)) return Concat("metadata.", key, " is not a map of strings");
  }
  if (!NormalizeList(&meta, "finalizers", /*of_objects=*/false)) return "metadata.finalizers is not a list of strings";
  if (!NormalizeList(&meta, "ownerReferences", /*of_objects=*/true)) {
    return "metadata.ownerReferences is not a list of objects";
  }
  for (const char* key :
       {"name", "namespace", "generateName", "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp"}) {
    if (!NormalizeString(&meta, key)) return Concat("metadata.", key, " is not a string");
  }
  return "";
}

FieldErrors ValidateMeta(const Kind& kind, const Json& object) {
  FieldErrors errors;
  const Json& meta = Get(object, "metadata");
  const std::string name = Text(Get(meta, "name"));
  if (name.empty()) {
    errors.push_back(Required("metadata.name", "name or generateName is required"));
  } else if (kind.plural == "namespaces") {
    if (!IsDnsLabel(name, kLabelMax)) errors.push_back(InvalidValue("metadata.name", name, kLabelRule));
  } else if (!IsDnsSubdomain(name)) {
    errors.push_back(InvalidValue("metadata.name", name, kSubdomainRule));
  }
  CheckKeys(Get(meta, "labels"), "metadata.labels", /*values_are_labels=*/true, &errors);
  CheckKeys(Get(meta, "annotations"), "metadata.annotations", /*values_are_labels=*/false, &errors);
  size_t size = 0;
  for (const auto& [key, value] : Get(meta, "annotations").items()) size += key.size() + Text(value).size();
  if (size > kAnnotationsMax) {
    errors.push_back({"metadata.annotations", "FieldValueTooLong", "Too long: may not be more than 262144 bytes"});
  }
  if (Get(meta, "ownerReferences").is_array()) CheckOwners(Get(meta, "ownerReferences"), &errors);
  return errors;
}

FieldErrors ValidateMetaUpdate(const Json& object, const Json& old) {
  FieldErrors errors;
  const Json& meta = Get(object, "metadata");
  const Json& before = Get(old, "metadata");
  if (before.contains("deletionTimestamp")) {
    CheckNewFinalizers(Get(meta, "finalizers"), Get(before, "finalizers"), &errors);
  }
  for (const char* key : {"uid", "deletionTimestamp", "deletionGracePeriodSeconds"}) {
    if (Get(meta, key) != Get(before, key)) {
      errors.push_back(InvalidValue(Concat("metadata.", key), Get(meta, key), "field is immutable"));
    }
  }
  return errors;
}

}  // namespace muster::sim
