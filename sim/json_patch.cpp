#include "muster/sim/json_patch.h"

#include <absl/status/status.h>

#include <charconv>
#include <optional>
#include <utility>
#include <vector>

#include "text.h"

namespace muster::sim {
namespace {

constexpr size_t kOperationsMax = 10'000;

// The same JSON with every string replaced by its encoded text: `test` compares those.
std::string KeepEscapes(std::string_view json) {
  std::string out;
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (c == '"') in_string = !in_string;
    if (!in_string || c != '\\' || i + 1 == json.size()) {
      out += c;
      continue;
    }
    const char next = json[++i];
    out += "\\\\";
    if (next == '"' || next == '\\') out += '\\';
    out += next;
  }
  return out;
}

std::string WithoutQuotes(const std::string& quoted) { return quoted.substr(1, quoted.size() - 2); }

// `text` as Go's encoding/json writes it between the quotes.
std::string GoEncoded(const std::string& text) {
  std::string encoded = WithoutQuotes(Dump(Json(text)));
  constexpr std::pair<std::string_view, std::string_view> kEscapes[] = {
      {"<", "\\u003c"}, {">", "\\u003e"}, {"&", "\\u0026"}, {"\xe2\x80\xa8", "\\u2028"}, {"\xe2\x80\xa9", "\\u2029"}};
  for (const auto& [plain, escape] : kEscapes) encoded = ReplaceAll(std::move(encoded), plain, escape);
  return encoded;
}

// `stored` against a value of the patch whose strings are encoded text.
bool TestEqual(const Json& stored, const Json& encoded) {
  if (stored.is_string()) return encoded.is_string() && GoEncoded(stored) == encoded.get_ref<const std::string&>();
  if (stored.is_array()) {
    if (!encoded.is_array() || stored.size() != encoded.size()) return false;
    for (size_t i = 0; i < stored.size(); ++i) {
      if (!TestEqual(stored[i], encoded[i])) return false;
    }
    return true;
  }
  if (stored.is_object()) {
    if (!encoded.is_object() || stored.size() != encoded.size()) return false;
    for (const auto& [key, value] : stored.items()) {
      const auto it = encoded.find(WithoutQuotes(Dump(Json(key))));  // keys are compared decoded
      if (it == encoded.end() || !TestEqual(value, *it)) return false;
    }
    return true;
  }
  return Dump(stored) == Dump(encoded);
}

std::optional<int64_t> ParseIndex(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Where `key` points in an array of `size`; negative counts from the end. Nothing: out of range.
std::optional<size_t> Index(std::string_view key, size_t size) {
  const std::optional<int64_t> index = ParseIndex(key);
  const auto count = static_cast<int64_t>(size);
  if (!index.has_value() || *index >= count || *index < -count) return std::nullopt;
  return static_cast<size_t>(*index < 0 ? *index + count : *index);
}

absl::Status Inapplicable(std::string_view op, std::string_view path, std::string_view why) {
  return absl::FailedPreconditionError(Concat(op, " ", path, ": ", why));
}

// A container of the document and the last segment of a path into it.
struct Place {
  Json* container = nullptr;  // null: the way there does not exist
  std::string key;

  // RETURNS: what is there; null where a member of an object is absent. Nothing: a bad index.
  std::optional<Json> Read() const {
    if (container->is_object()) return Get(*container, key);
    const auto index = Index(key, container->size());
    if (!index.has_value()) return std::nullopt;
    return (*container)[*index];
  }
  bool Add(Json value) const {
    if (container->is_object()) {
      (*container)[key] = std::move(value);
      return true;
    }
    if (key == "-") {
      container->push_back(std::move(value));
      return true;
    }
    const auto index = Index(key, container->size() + 1);
    if (!index.has_value()) return false;
    container->insert(container->begin() + static_cast<std::ptrdiff_t>(*index), std::move(value));
    return true;
  }
  bool Replace(Json value) const {
    if (container->is_object()) {
      (*container)[key] = std::move(value);
      return true;
    }
    const auto index = Index(key, container->size());
    if (!index.has_value()) return false;
    (*container)[*index] = std::move(value);
    return true;
  }
  bool Remove() const {
    if (container->is_object()) return container->erase(key) == 1;
    const auto index = Index(key, container->size());
    if (!index.has_value()) return false;
    container->erase(*index);
    return true;
  }
};

Place Find(Json* document, std::string_view path) {
  std::vector<std::string> parts = Split(path, '/');
  if (parts.size() < 2) return {};
  for (std::string& part : parts) part = ReplaceAll(ReplaceAll(part, "~1", "/"), "~0", "~");
  Json* container = document;
  for (size_t i = 1; i + 1 < parts.size(); ++i) {
    if (container->is_object()) {
      const auto it = container->find(parts[i]);
      if (it == container->end()) return {};
      container = &*it;
    } else if (container->is_array()) {
      const auto index = Index(parts[i], container->size());
      if (!index.has_value()) return {};
      container = &(*container)[*index];
    } else {
      return {};
    }
  }
  if (!container->is_structured()) return {};
  return {container, parts.back()};
}

absl::Status Test(Json* document, const std::string& path, const Json& encoded_value) {
  if (path.empty()) {
    return TestEqual(*document, encoded_value) ? absl::OkStatus() : Inapplicable("test", path, "differs");
  }
  const Place place = Find(document, path);
  if (place.container == nullptr) return Inapplicable("test", path, "the path is missing");
  const std::optional<Json> value = place.Read();
  if (!value.has_value()) return Inapplicable("test", path, "invalid index");
  return TestEqual(*value, encoded_value) ? absl::OkStatus() : Inapplicable("test", path, "differs");
}

absl::Status Replace(Json* document, const std::string& path, const Json& value) {
  if (path.empty()) {
    if (!value.is_structured()) return Inapplicable("replace", path, "the document must be an object or array");
    *document = value;
    return absl::OkStatus();
  }
  const Place place = Find(document, path);
  if (place.container == nullptr) return Inapplicable("replace", path, "the path is missing");
  return place.Replace(value) ? absl::OkStatus() : Inapplicable("replace", path, "invalid index");
}

absl::Status MoveOrCopy(Json* document, bool move, const std::string& from, const std::string& path) {
  const std::string_view op = move ? "move" : "copy";
  const Place source = Find(document, from);
  if (source.container == nullptr) return Inapplicable(op, from, "the path is missing");
  const std::optional<Json> value = source.Read();
  if (!value.has_value()) return Inapplicable(op, from, "invalid index");
  if (move && !source.Remove()) return Inapplicable(op, from, "nothing is there");
  const Place target = Find(document, path);
  if (target.container == nullptr) return Inapplicable(op, path, "the path is missing");
  return target.Add(*value) ? absl::OkStatus() : Inapplicable(op, path, "invalid index");
}

absl::Status ApplyOne(const Json& operation, const Json& encoded, Json* document) {
  const std::string op = Text(Get(operation, "op"), "unknown");
  if (!Get(operation, "path").is_string()) return Inapplicable(op, "", "the operation has no path");
  const std::string path = Text(Get(operation, "path"));
  const Json& value = Get(operation, "value");
  if (op == "test") return Test(document, path, Get(encoded, "value"));
  if (op == "replace") return Replace(document, path, value);
  if (op == "move" || op == "copy") {
    if (!Get(operation, "from").is_string()) return Inapplicable(op, path, "the operation has no from");
    return MoveOrCopy(document, op == "move", Text(Get(operation, "from")), path);
  }
  if (op != "add" && op != "remove") return Inapplicable(op, path, "unknown operation");
  const Place place = Find(document, path);
  if (place.container == nullptr) return Inapplicable(op, path, "the path is missing");
  if (op == "add") return place.Add(value) ? absl::OkStatus() : Inapplicable(op, path, "invalid index");
  return place.Remove() ? absl::OkStatus() : Inapplicable(op, path, "nothing is there");
}

// A member set by a merge patch: nulls inside mean absence at every depth of objects and in objects of arrays.
Json WithoutNulls(const Json& value) {
  if (value.is_array()) {
    Json out = Json::array();
    for (const Json& element : value) out.push_back(WithoutNulls(element));
    return out;
  }
  if (!value.is_object()) return value;
  Json out = Json::object();
  for (const auto& [key, member] : value.items()) {
    if (!member.is_null()) out[key] = WithoutNulls(member);
  }
  return out;
}

}  // namespace

absl::Status ApplyJsonPatch(std::string_view patch, Json* document) {
  const std::optional<Json> operations = ParseJson(patch);
  if (!operations.has_value()) return absl::InvalidArgumentError("error decoding patch: not JSON");
  if (!operations->is_array()) return absl::InvalidArgumentError("error decoding patch: not an array of operations");
  if (operations->size() > kOperationsMax) {
    return absl::InvalidArgumentError("The allowed maximum operations in a JSON patch is 10000");
  }
  const std::optional<Json> encoded = ParseJson(KeepEscapes(patch));
  if (!encoded.has_value()) return absl::InvalidArgumentError("error decoding patch: not JSON");
  Json result = *document;
  for (size_t i = 0; i < operations->size(); ++i) {
    if (!(*operations)[i].is_object()) return absl::InvalidArgumentError("error decoding patch: not an operation");
    if (auto status = ApplyOne((*operations)[i], (*encoded)[i], &result); !status.ok()) return status;
  }
  *document = std::move(result);
  return absl::OkStatus();
}

void ApplyMergePatch(const Json& patch, Json* document) {
  for (const auto& [key, value] : patch.items()) {
    if (value.is_null()) {
      document->erase(key);
      continue;
    }
    Json& slot = (*document)[key];
    if (slot.is_object() && value.is_object()) {
      ApplyMergePatch(value, &slot);
    } else {
      slot = WithoutNulls(value);
    }
  }
}

}  // namespace muster::sim
