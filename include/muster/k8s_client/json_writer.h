// Writes JSON text, for request bodies. A thin cover over RapidJSON's Writer that keeps its header out of
// ours.
//
// Threading: needs external synchronisation.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "muster/core/labels.h"
#include "muster/core/time.h"
#include "muster/k8s_client/object.h"

namespace muster::k8s {

class JsonWriter {
 public:
  JsonWriter();
  ~JsonWriter();
  JsonWriter(const JsonWriter&) = delete;
  JsonWriter& operator=(const JsonWriter&) = delete;

  JsonWriter& StartObject();
  JsonWriter& EndObject();
  JsonWriter& StartArray();
  JsonWriter& EndArray();
  JsonWriter& Key(std::string_view key);
  JsonWriter& String(std::string_view value);
  JsonWriter& Int(int64_t value);
  JsonWriter& Bool(bool value);
  JsonWriter& Null();
  // `json` is one valid JSON value, taken as it is.
  JsonWriter& Raw(std::string_view json);

  // Key and value at once. (const char* would else become bool.)
  JsonWriter& Field(std::string_view key, std::string_view value) { return Key(key).String(value); }
  JsonWriter& Field(std::string_view key, const char* value) { return Key(key).String(value); }
  JsonWriter& Field(std::string_view key, int64_t value) { return Key(key).Int(value); }
  JsonWriter& Field(std::string_view key, int32_t value) { return Key(key).Int(value); }
  JsonWriter& Field(std::string_view key, bool value) { return Key(key).Bool(value); }
  JsonWriter& Map(const Labels& labels);
  JsonWriter& Conditions(const std::vector<Condition>& conditions);

  // RETURNS: what was written. REQUIRES: one complete value.
  std::string Take();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::k8s
