// The rules of metadata that hold for every kind: types, normal form, syntax, what an update may not change.
//
// Threading: values.
#pragma once

#include <string>

#include "muster/sim/api_status.h"
#include "muster/sim/json.h"
#include "muster/sim/kinds.h"

namespace muster::sim {

// Brings metadata into the form in which the server stores it: nulls and empty collections are gone, what
// the server alone sets has the right type. RETURNS: empty, or which member cannot be decoded and why.
std::string NormalizeMeta(Json* object);

FieldErrors ValidateMeta(const Kind& kind, const Json& object);
FieldErrors ValidateMetaUpdate(const Json& object, const Json& old);

// A generated name: the prefix, cut to fit, and five letters or digits drawn by `draw`.
template <typename Draw>
std::string GenerateName(std::string prefix, Draw draw) {
  constexpr std::string_view kAlphabet = "bcdfghjklmnpqrstvwxz2456789";
  constexpr size_t kPrefixMax = 63 - 5;
  if (prefix.size() > kPrefixMax) prefix.resize(kPrefixMax);
  for (int i = 0; i < 5; ++i) prefix += kAlphabet[draw(kAlphabet.size())];
  return prefix;
}

bool IsQualifiedName(const std::string& text);
bool IsLabelValue(const std::string& text);

}  // namespace muster::sim
