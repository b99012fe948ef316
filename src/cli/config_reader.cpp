#include "config_reader.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>

#include <algorithm>
#include <set>

#include "config_values.h"
#include "muster/core/check.h"
#include "muster/core/quantity.h"

namespace muster::cli {
namespace {

using Kind = YamlNode::Kind;

// The fields right below an object.
std::vector<std::string_view> FieldsOf(std::string_view object, bool v1beta1) {
  std::vector<std::string_view> names;
  const std::string prefix = object.empty() ? "" : std::string(object) + ".";
  for (const Field& field : ConfigFields()) {
    if (field.path.empty() || !field.path.starts_with(prefix) || (field.v1beta1_only && !v1beta1)) continue;
    const std::string_view rest = field.path.substr(prefix.size());
    if (rest.find_first_of(".[{") == std::string_view::npos) names.push_back(rest);
  }
  return names;
}

const YamlNode* Member(const YamlNode& map, std::string_view key) {
  for (const YamlNode::Entry& entry : map.entries) {
    if (entry.key == key) return &entry.value;
  }
  return nullptr;
}

std::string Join(const std::string& path, const std::string& key) { return path.empty() ? key : path + "." + key; }

const char* WantedType(FieldType type) {
  switch (type) {
    case FieldType::kObject:
    case FieldType::kMap:
      return "must be a map";
    case FieldType::kList:
      return "must be a list";
    case FieldType::kString:
      return "must be text; write it in quotes";
    case FieldType::kBool:
      return "must be true or false";
    case FieldType::kInt:
      return "must be a whole number";
    case FieldType::kNumber:
      return "must be a number";
    case FieldType::kDuration:
      return "must be a duration with units, such as 15s, 500ms or 1h30m";
    case FieldType::kQuantity:
      return "must be a quantity, such as 500m, 4 or 2Gi";
    case FieldType::kAny:
      return "";
  }
  return "";
}

bool IsDuration(const YamlNode& node) {
  return !(node.plain && LooksLikeNumber(node.text)) && ParseGoDuration(node.text).ok();
}

bool HasType(const YamlNode& node, FieldType type) {
  const bool scalar = node.kind == Kind::kScalar;
  int64_t integer = 0;
  double number = 0;
  switch (type) {
    case FieldType::kObject:
    case FieldType::kMap:
      return node.kind == Kind::kMap;
    case FieldType::kList:
      return node.kind == Kind::kSequence;
    case FieldType::kString:
      return scalar && !(node.plain && (LooksLikeNumber(node.text) || LooksLikeBool(node.text)));
    case FieldType::kBool:
      return scalar && node.plain && (node.text == "true" || node.text == "false");
    case FieldType::kInt:
      return scalar && node.plain && ParseInteger(node.text, &integer);
    case FieldType::kNumber:
      return scalar && node.plain && ParseDecimal(node.text, &number);
    case FieldType::kDuration:
      return scalar && IsDuration(node);
    case FieldType::kQuantity:
      return scalar && Quantity::Parse(node.text).ok();
    case FieldType::kAny:
      return true;
  }
  return false;
}

}  // namespace

ConfigReader::ConfigReader(const YamlNode& document) {
  MUSTER_CHECK(document.kind == Kind::kMap);
  const YamlNode* version = Member(document, "apiVersion");
  v1beta1_ = version != nullptr && version->kind == Kind::kScalar && version->text == kConfigV1Beta1;
  Walk(document, *FindConfigField(""), "", false);
}

// `settled`: an enclosing field has been reported or noted already; only mistakes are worth reporting.
void ConfigReader::Walk(const YamlNode& node, const Field& field, const std::string& path, bool settled) {
  if (!CheckType(node, field, path)) return;
  if (!settled && field.support != FieldSupport::kUsed) {
    CheckSupport(node, field, path);
    settled = true;
  }
  found_.emplace(path, &node);
  switch (field.type) {
    case FieldType::kObject:
      return WalkObject(node, field, path, settled);
    case FieldType::kMap:
      return WalkMap(node, field, path, settled);
    case FieldType::kList: {
      const Field* element = FindConfigField(std::string(field.path) + "[]");
      for (size_t i = 0; i < node.items.size(); ++i) {
        const std::string child_path = absl::StrCat(path, "[", i, "]");
        lines_[child_path] = node.items[i].line;
        Walk(node.items[i], *element, child_path, settled);
      }
      return;
    }
    case FieldType::kString:
    case FieldType::kBool:
    case FieldType::kInt:
    case FieldType::kNumber:
    case FieldType::kDuration:
    case FieldType::kQuantity:
    case FieldType::kAny:
      return;
  }
}

void ConfigReader::WalkObject(const YamlNode& node, const Field& field, const std::string& path, bool settled) {
  std::set<std::string_view> seen;
  for (const YamlNode::Entry& entry : node.entries) {
    const std::string child_path = Join(path, entry.key);
    if (!seen.insert(entry.key).second) {
      errors_.push_back({entry.line, child_path, ShowValue(entry.value), "set twice"});
      continue;
    }
    lines_[child_path] = entry.line;
    const Field* child = FindConfigField(Join(std::string(field.path), entry.key));
    const bool known = child != nullptr && entry.key.find_first_of(".[]{}") == std::string::npos;
    if (!known || (child->v1beta1_only && !v1beta1_)) {
      errors_.push_back(
          {entry.line, child_path, ShowValue(entry.value), UnknownField(entry.key, field, known ? child : nullptr)});
      continue;
    }
    // Null is "not set", as in JSON.
    if (entry.value.kind != Kind::kNull) Walk(entry.value, *child, child_path, settled);
  }
}

std::string ConfigReader::UnknownField(const std::string& key, const Field& parent, const Field* other_version) const {
  if (other_version != nullptr) return absl::StrCat("a field of ", std::string(kConfigV1Beta1), " only");
  const std::string near = NearestName(key, FieldsOf(parent.path, v1beta1_));
  return near.empty() ? "unknown field" : absl::StrCat("unknown field; did you mean ", near, "?");
}

void ConfigReader::WalkMap(const YamlNode& node, const Field& field, const std::string& path, bool settled) {
  const Field* value = FindConfigField(std::string(field.path) + "{}");
  std::set<std::string_view> seen;
  for (const YamlNode::Entry& entry : node.entries) {
    const std::string child_path = absl::StrCat(path, "[", entry.key, "]");
    if (!seen.insert(entry.key).second) {
      errors_.push_back({entry.line, child_path, ShowValue(entry.value), "set twice"});
      continue;
    }
    lines_[child_path] = entry.line;
    Walk(entry.value, *value, child_path, settled);
  }
}

bool ConfigReader::CheckType(const YamlNode& node, const Field& field, const std::string& path) {
  if (!HasType(node, field.type)) {
    FailAt(node, path, WantedType(field.type));
    return false;
  }
  if (field.one_of.empty()) return true;
  const std::vector<std::string> allowed =
      absl::StrSplit(absl::string_view(field.one_of.data(), field.one_of.size()), '|');
  if (std::find(allowed.begin(), allowed.end(), node.text) != allowed.end()) return true;
  FailAt(node, path, absl::StrCat("must be ", allowed.size() == 1 ? "" : "one of ", absl::StrJoin(allowed, ", ")));
  return false;
}

void ConfigReader::CheckSupport(const YamlNode& node, const Field& field, const std::string& path) {
  if (field.support == FieldSupport::kNoEffect) {
    notes_.push_back(
        absl::StrCat(path, " has no effect: ", absl::string_view(field.detail.data(), field.detail.size())));
    return;
  }
  const bool asks_nothing = (node.kind == Kind::kSequence && node.items.empty()) ||
                            (field.type == FieldType::kMap && node.entries.empty()) ||
                            (node.kind == Kind::kScalar &&
                             (node.text == field.detail || (field.type == FieldType::kString && node.text.empty())));
  if (!asks_nothing) FailAt(node, path, "not supported yet");
}

void ConfigReader::FailAt(const YamlNode& node, const std::string& path, std::string message) {
  // A map or list begins on the line after its key; the key is what one looks for.
  const auto key = lines_.find(path);
  errors_.push_back({key == lines_.end() ? node.line : key->second, path, ShowValue(node), std::move(message)});
}

void ConfigReader::Fail(const std::string& path, std::string message) {
  if (const YamlNode* node = Find(path); node != nullptr) {
    FailAt(*node, path, std::move(message));
    found_.erase(path);
    return;
  }
  // Not set: the nearest enclosing object that is.
  std::string parent = path;
  while (!parent.empty() && !lines_.contains(parent)) {
    const size_t dot = parent.rfind('.');
    parent = dot == std::string::npos ? "" : parent.substr(0, dot);
  }
  errors_.push_back({parent.empty() ? 0 : lines_[parent], path, "", std::move(message)});
}

const YamlNode* ConfigReader::Find(const std::string& path) const {
  const auto it = found_.find(path);
  return it == found_.end() ? nullptr : it->second;
}

std::optional<std::string> ConfigReader::String(const std::string& path) const {
  const YamlNode* node = Find(path);
  return node == nullptr ? std::nullopt : std::optional(node->text);
}

std::optional<bool> ConfigReader::Bool(const std::string& path) const {
  const YamlNode* node = Find(path);
  return node == nullptr ? std::nullopt : std::optional(node->text == "true");
}

std::optional<int64_t> ConfigReader::Int(const std::string& path) const {
  const YamlNode* node = Find(path);
  int64_t value = 0;
  if (node == nullptr || !ParseInteger(node->text, &value)) return std::nullopt;
  return value;
}

std::optional<double> ConfigReader::Number(const std::string& path) const {
  const YamlNode* node = Find(path);
  double value = 0;
  if (node == nullptr || !ParseDecimal(node->text, &value)) return std::nullopt;
  return value;
}

std::optional<Duration> ConfigReader::Time(const std::string& path) const {
  const YamlNode* node = Find(path);
  if (node == nullptr) return std::nullopt;
  const auto value = ParseGoDuration(node->text);
  return value.ok() ? std::optional(*value) : std::nullopt;
}

std::vector<std::pair<std::string, std::string>> ConfigReader::Strings(const std::string& path) const {
  std::vector<std::pair<std::string, std::string>> out;
  const YamlNode* list = Find(path);
  for (size_t i = 0; list != nullptr && i < list->items.size(); ++i) {
    std::string element = absl::StrCat(path, "[", i, "]");
    if (const auto text = String(element)) out.emplace_back(std::move(element), *text);
  }
  return out;
}

std::vector<std::string> ConfigReader::Elements(const std::string& path) const {
  std::vector<std::string> out;
  const YamlNode* list = Find(path);
  for (size_t i = 0; list != nullptr && i < list->items.size(); ++i) {
    std::string element = absl::StrCat(path, "[", i, "]");
    if (IsSet(element)) out.push_back(std::move(element));
  }
  return out;
}

std::string ConfigReader::Required(const std::string& path, std::string (*check)(std::string_view)) {
  const auto text = String(path);
  if (text) {
    FailIf(path, check(*text));
  } else if (!lines_.contains(path)) {
    Fail(path, "must be set");
  }
  return text.value_or("");
}

std::vector<std::pair<std::string, bool>> ConfigReader::Bools(const std::string& path) const {
  std::vector<std::pair<std::string, bool>> out;
  const YamlNode* map = Find(path);
  for (size_t i = 0; map != nullptr && i < map->entries.size(); ++i) {
    if (const auto value = Bool(absl::StrCat(path, "[", map->entries[i].key, "]"))) {
      out.emplace_back(map->entries[i].key, *value);
    }
  }
  return out;
}

std::vector<ConfigReader::QuantityEntry> ConfigReader::Quantities(const std::string& path) const {
  std::vector<QuantityEntry> out;
  const YamlNode* map = Find(path);
  for (size_t i = 0; map != nullptr && i < map->entries.size(); ++i) {
    const std::string& key = map->entries[i].key;
    std::string element = absl::StrCat(path, "[", key, "]");
    const YamlNode* node = Find(element);
    if (node == nullptr) continue;
    if (auto value = Quantity::Parse(node->text); value.ok())
      out.push_back({std::move(element), key, *std::move(value)});
  }
  return out;
}

std::vector<std::string> ConfigReader::Objects(const std::string& path) const {
  std::vector<std::string> out;
  const YamlNode* list = Find(path);
  for (size_t i = 0; list != nullptr && i < list->items.size(); ++i) {
    std::string element = absl::StrCat(path, "[", i, "]");
    if (Find(element) != nullptr) out.push_back(std::move(element));
  }
  return out;
}

std::optional<LabelSelector> ConfigReader::Selector(const std::string& path) {
  if (!IsSet(path)) return std::nullopt;
  LabelSelector selector;
  const std::string labels = path + ".matchLabels";
  if (const YamlNode* map = Find(labels); map != nullptr) {
    for (const YamlNode::Entry& entry : map->entries) {
      const std::string at = absl::StrCat(labels, "[", entry.key, "]");
      const auto value = String(at);
      if (!value) continue;
      const std::string bad_key = CheckQualifiedName(entry.key);
      FailIf(at, bad_key.empty() ? CheckLabelValue(*value) : "the key " + bad_key);
      selector.match_labels[entry.key] = *value;
    }
  }
  const std::string expressions = path + ".matchExpressions";
  const YamlNode* list = Find(expressions);
  for (size_t i = 0; list != nullptr && i < list->items.size(); ++i) {
    const std::string at = absl::StrCat(expressions, "[", i, "]");
    if (IsSet(at)) selector.match_expressions.push_back(ReadRequirement(at));
  }
  return selector;
}

Requirement ConfigReader::ReadRequirement(const std::string& path) {
  Requirement requirement;
  if (const auto key = String(path + ".key")) {
    requirement.key = *key;
    FailIf(path + ".key", CheckQualifiedName(*key));
  } else if (!lines_.contains(path + ".key")) {
    Fail(path + ".key", "must be set");
  }
  for (const auto& [at, value] : Strings(path + ".values")) {
    requirement.values.push_back(value);
    FailIf(at, CheckLabelValue(value));
  }
  const auto op = String(path + ".operator");
  if (!op) {
    if (!lines_.contains(path + ".operator")) Fail(path + ".operator", "must be In, NotIn, Exists or DoesNotExist");
    return requirement;
  }
  requirement.op = *op == "In"       ? Requirement::Operator::kIn
                   : *op == "NotIn"  ? Requirement::Operator::kNotIn
                   : *op == "Exists" ? Requirement::Operator::kExists
                                     : Requirement::Operator::kDoesNotExist;
  const YamlNode* values = Find(path + ".values");
  const bool has_values = values != nullptr && !values->items.empty();
  const bool wants_values = *op == "In" || *op == "NotIn";
  if (wants_values && !has_values) Fail(path + ".values", "must be set for " + *op);
  if (!wants_values && has_values) Fail(path + ".values", "must not be set for " + *op);
  return requirement;
}

void ConfigReader::FailIf(const std::string& path, std::string problem) {
  if (!problem.empty()) Fail(path, std::move(problem));
}

std::vector<ConfigError> ConfigReader::TakeErrors() {
  std::stable_sort(errors_.begin(), errors_.end(),
                   [](const ConfigError& a, const ConfigError& b) { return a.line < b.line; });
  return std::move(errors_);
}

}  // namespace muster::cli
