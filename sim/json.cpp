#include "muster/sim/json.h"

namespace muster::sim {
namespace {

const Json& Null() {
  static const Json null;
  return null;
}

}  // namespace

std::optional<Json> ParseJson(std::string_view text) {
  Json json = Json::parse(text, /*cb=*/nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return std::nullopt;
  return json;
}

std::string Dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

const Json& Get(const Json& json, std::string_view key) {
  if (!json.is_object()) return Null();
  const auto it = json.find(key);
  return it == json.end() ? Null() : *it;
}

std::string Text(const Json& json, std::string_view absent) {
  return json.is_string() ? json.get_ref<const std::string&>() : std::string(absent);
}
int64_t Number(const Json& json, int64_t absent) { return json.is_number_integer() ? json.get<int64_t>() : absent; }
bool Flag(const Json& json, bool absent) { return json.is_boolean() ? json.get<bool>() : absent; }

const Json& FindCondition(const Json& conditions, std::string_view type) {
  if (!conditions.is_array()) return Null();
  for (const Json& condition : conditions) {
    if (Text(Get(condition, "type")) == type) return condition;
  }
  return Null();
}

bool HasCondition(const Json& object, std::string_view type) {
  return Text(Get(FindCondition(At(object, "status", "conditions"), type), "status")) == "True";
}

}  // namespace muster::sim
