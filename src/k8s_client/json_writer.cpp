#include "muster/k8s_client/json_writer.h"

#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include "muster/core/check.h"

namespace muster::k8s {

class JsonWriter::Impl {
 public:
  rapidjson::StringBuffer buffer;
  rapidjson::Writer<rapidjson::StringBuffer> writer{buffer};
};

namespace {

rapidjson::SizeType Size(std::string_view text) {
  MUSTER_CHECK(text.size() <= UINT32_MAX);
  return static_cast<rapidjson::SizeType>(text.size());
}

}  // namespace

JsonWriter::JsonWriter() : impl_(std::make_unique<Impl>()) {}
JsonWriter::~JsonWriter() = default;

JsonWriter& JsonWriter::StartObject() {
  impl_->writer.StartObject();
  return *this;
}
JsonWriter& JsonWriter::EndObject() {
  impl_->writer.EndObject();
  return *this;
}
JsonWriter& JsonWriter::StartArray() {
  impl_->writer.StartArray();
  return *this;
}
JsonWriter& JsonWriter::EndArray() {
  impl_->writer.EndArray();
  return *this;
}
JsonWriter& JsonWriter::Key(std::string_view key) { return String(key); }
JsonWriter& JsonWriter::String(std::string_view value) {
  // RapidJSON wants a pointer even for no characters.
  impl_->writer.String(value.empty() ? "" : value.data(), Size(value));
  return *this;
}
JsonWriter& JsonWriter::Int(int64_t value) {
  impl_->writer.Int64(value);
  return *this;
}
JsonWriter& JsonWriter::Bool(bool value) {
  impl_->writer.Bool(value);
  return *this;
}
JsonWriter& JsonWriter::Null() {
  impl_->writer.Null();
  return *this;
}
JsonWriter& JsonWriter::Raw(std::string_view json) {
  MUSTER_CHECK(!json.empty());
  impl_->writer.RawValue(json.data(), json.size(), rapidjson::kObjectType);
  return *this;
}

JsonWriter& JsonWriter::Map(const Labels& labels) {
  StartObject();
  for (const auto& [key, value] : labels) Field(key, value);
  return EndObject();
}

JsonWriter& JsonWriter::Conditions(const std::vector<Condition>& conditions) {
  StartArray();
  for (const Condition& c : conditions) {
    StartObject();
    Field("type", c.type).Field("status", c.status).Field("reason", c.reason).Field("message", c.message);
    Field("lastTransitionTime", FormatTime(c.last_transition));
    if (c.observed_generation != 0) Field("observedGeneration", c.observed_generation);
    EndObject();
  }
  return EndArray();
}

std::string JsonWriter::Take() {
  MUSTER_CHECK(impl_->writer.IsComplete());
  std::string out(impl_->buffer.GetString(), impl_->buffer.GetSize());
  impl_ = std::make_unique<Impl>();
  return out;
}

}  // namespace muster::k8s
