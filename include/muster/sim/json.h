// JSON documents for the simulator and for tests: nlohmann's DOM, with accessors that take what is absent
// for null instead of throwing. Keys are kept sorted, so equal documents give equal text.
//
// Threading: values.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace muster::sim {

using Json = nlohmann::json;
using JsonPtr = std::shared_ptr<const Json>;

// RETURNS: nothing where `text` is not JSON.
std::optional<Json> ParseJson(std::string_view text);

// Compact text. Bytes that are not UTF-8 are replaced.
std::string Dump(const Json& json);

// RETURNS: the member, or null where `json` is no object or has none.
const Json& Get(const Json& json, std::string_view key);

// At(job, "spec", "template", "spec"): the place inside, or null.
template <typename... Keys>
const Json& At(const Json& json, Keys... keys) {
  const Json* place = &json;
  ((place = &Get(*place, std::string_view(keys))), ...);
  return *place;
}

// The value, or the default where it is null or of another type.
std::string Text(const Json& json, std::string_view absent = {});
int64_t Number(const Json& json, int64_t absent = 0);
bool Flag(const Json& json, bool absent = false);

// RETURNS: the condition of that type in a list of conditions, or null.
const Json& FindCondition(const Json& conditions, std::string_view type);
// Its status is "True".
bool HasCondition(const Json& object, std::string_view type);

}  // namespace muster::sim
