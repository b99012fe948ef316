#include "json_parts.h"

namespace muster::controller {

void WriteToleration(const gang::Toleration& toleration, k8s::JsonWriter* out) {
  out->StartObject();
  if (!toleration.key.empty()) out->Field("key", toleration.key);
  if (!toleration.op.empty()) out->Field("operator", toleration.op);
  if (!toleration.value.empty()) out->Field("value", toleration.value);
  if (!toleration.effect.empty()) out->Field("effect", toleration.effect);
  if (toleration.has_toleration_seconds) out->Field("tolerationSeconds", toleration.toleration_seconds);
  out->EndObject();
}

void WriteTolerations(const std::vector<gang::Toleration>& tolerations, k8s::JsonWriter* out) {
  out->StartArray();
  for (const gang::Toleration& toleration : tolerations) WriteToleration(toleration, out);
  out->EndArray();
}

gang::Toleration ReadToleration(k8s::JsonValue value) {
  gang::Toleration out;
  out.key = value["key"].String();
  out.op = value["operator"].String();
  out.value = value["value"].String();
  out.effect = value["effect"].String();
  const k8s::JsonValue seconds = value["tolerationSeconds"];
  out.has_toleration_seconds = seconds.present();
  out.toleration_seconds = seconds.Int();
  return out;
}

std::vector<gang::Toleration> ReadTolerations(k8s::JsonValue list) {
  std::vector<gang::Toleration> out;
  list.ForEach([&out](k8s::JsonValue item) { out.push_back(ReadToleration(item)); });
  return out;
}

void WriteSchedulingGates(const std::vector<std::string>& gates, k8s::JsonWriter* out) {
  out->StartArray();
  for (const std::string& gate : gates) out->StartObject().Field("name", gate).EndObject();
  out->EndArray();
}

void WriteEvictionCounts(const std::vector<EvictionCount>& counts, k8s::JsonWriter* out) {
  out->StartArray();
  for (const EvictionCount& entry : counts) {
    out->StartObject()
        .Field("reason", entry.reason)
        .Field("underlyingCause", entry.underlying_cause)
        .Field("count", entry.count)
        .EndObject();
  }
  out->EndArray();
}

std::vector<EvictionCount> ReadEvictionCounts(k8s::JsonValue list) {
  std::vector<EvictionCount> out;
  list.ForEach([&out](k8s::JsonValue item) {
    out.push_back({item["reason"].String(), item["underlyingCause"].String(), item["count"].Count()});
  });
  return out;
}

}  // namespace muster::controller
