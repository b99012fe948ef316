// Read access to a JSON document, for decoders: a thin cover over simdjson that keeps its header out of
// ours and turns every type error into a message that names the path and the value.
//
// A reader never throws; asking a value that is absent or of another type gives an absent JsonValue, and
// the error is kept in the document for Finish().
//
// Threading: needs external synchronisation. Values are valid as long as their document.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <absl/status/status.h>

#include "muster/core/labels.h"
#include "muster/core/time.h"
#include "muster/k8s_client/object.h"

namespace muster::k8s {

class JsonDocument;

// A place in a document: possibly absent. Cheap to copy.
class JsonValue {
 public:
  // null counts as absent, as Kubernetes has it for optional fields.
  bool present() const { return index_ >= 0; }
  JsonValue operator[](std::string_view key) const;

  // The value, or the default where it is absent. Another type is an error of the document.
  std::string String(std::string_view absent = {}) const;
  int64_t Int(int64_t absent = 0) const;
  bool Bool(bool absent = false) const;
  std::optional<int64_t> OptionalInt() const;
  std::optional<bool> OptionalBool() const;
  // A quantity or other scalar as text: strings as they are, numbers as they were written.
  std::string Scalar(std::string_view absent = {}) const;
  WallTime Time() const;  // RFC 3339
  Labels Map() const;     // string values

  void ForEach(const std::function<void(JsonValue)>& visit) const;                          // array
  void ForEachField(const std::function<void(std::string_view, JsonValue)>& visit) const;   // object
  int64_t size() const;  // of an array or object; 0 where absent

  bool IsObject() const;
  bool IsArray() const;
  // This value as compact JSON text.
  std::string Raw() const;
  // "spec.podSets[0].count".
  std::string Path() const;
  // Records an error of the document that names this place.
  void Fail(std::string_view message) const;

 private:
  friend class JsonDocument;
  JsonValue(JsonDocument* document, int64_t index) : document_(document), index_(index) {}
  JsonDocument* document_ = nullptr;
  int64_t index_ = -1;  // of a node in the document; -1: absent
};

class JsonDocument {
 public:
  // Parses `text`. A text that is not JSON gives an absent root and an error.
  explicit JsonDocument(std::string_view text);
  ~JsonDocument();
  JsonDocument(const JsonDocument&) = delete;
  JsonDocument& operator=(const JsonDocument&) = delete;

  JsonValue root();
  // The first error met by parsing or by any value, prefixed by `object` ("Job a/b"); OK if none.
  absl::Status Finish(std::string_view object) const;

 private:
  friend class JsonValue;
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// metadata of any object.
ObjectMeta DecodeMeta(JsonValue object);
std::vector<Condition> DecodeConditions(JsonValue conditions);

}  // namespace muster::k8s
