// Every field of Kueue's Configuration in both versions, as data: its type, and what Muster makes of it.
//
// Source: kueue_semantics 1.9.
// Threading: constant.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace muster::cli {

enum class FieldType : uint8_t {
  kObject,  // its fields follow, as path.name
  kList,    // its elements are path[]
  kMap,     // free keys; its values are path{}
  kString,
  kBool,
  kInt,  // decimal, within 64 bits
  kNumber,
  kDuration,  // Go's text form
  kQuantity,
  kAny,  // not looked into
};

enum class FieldSupport : uint8_t {
  kUsed,
  kNoEffect,     // accepted; `detail` says why it means nothing here
  kUnsupported,  // refused where it asks for something; `detail` is a value that does not
};

struct Field {
  std::string_view path;
  FieldType type = FieldType::kString;
  FieldSupport support = FieldSupport::kUsed;
  std::string_view detail = {};
  std::string_view one_of = {};  // the values allowed, between bars; empty: any
  bool v1beta1_only = false;
};

inline constexpr std::string_view kConfigV1Beta1 = "config.kueue.x-k8s.io/v1beta1";
inline constexpr std::string_view kConfigV1Beta2 = "config.kueue.x-k8s.io/v1beta2";

// Parents stand before their children; the document itself is the first, with an empty path.
std::span<const Field> ConfigFields();

// RETURNS: null where there is no such field.
const Field* FindConfigField(std::string_view path);

}  // namespace muster::cli
