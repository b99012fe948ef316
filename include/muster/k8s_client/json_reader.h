// Read access to a JSON document, for decoders: a thin cover over simdjson that keeps its header out of
// ours and turns every type error into a message that names the path and the value.
//
// A reader never throws; asking a value that is absent or of another type gives an absent JsonValue, and
// the error is kept in the document for Finish(). An absent value still knows where it would be, so that
// object["spec"]["queue"].Fail("is required") works.
//
// Threading: needs external synchronisation. Values are valid as long as their document.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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
  // Fields that Kubernetes has as int32: another value is an error of the document, and read as absent.
  int32_t Int32(int32_t absent = 0) const;
  std::optional<int32_t> OptionalInt32() const;
  // An int32 that counts something, so it may not be negative.
  int32_t Count(int32_t absent = 0) const;
  std::optional<int32_t> OptionalCount() const;
  std::optional<bool> OptionalBool() const;
  // A quantity or other scalar as text: strings as they are, numbers as they were written.
  std::string Scalar(std::string_view absent = {}) const;
  WallTime Time() const;  // RFC 3339; Go's zero time counts as not set
  Labels Map() const;     // string values; null is the empty string, as in Go

  void ForEach(const std::function<void(JsonValue)>& visit) const;                         // array
  void ForEachField(const std::function<void(std::string_view, JsonValue)>& visit) const;  // object
  int64_t size() const;  // of an array or object; 0 where absent

  bool IsObject() const;
  bool IsArray() const;
  bool IsString() const;
  // This value's JSON text as it was written; "null" where it is absent.
  std::string Raw() const;
  // "spec.podSets[0].count".
  std::string Path() const;
  // Records an error of the document that names this place.
  void Fail(std::string_view message) const;

 private:
  friend class JsonDocument;
  JsonValue(JsonDocument* document, int64_t index) : document_(document), index_(index) {}
  JsonDocument* document_;
  int64_t index_;  // of a node in the document; negative: of an absent place
};

class JsonDocument {
 public:
  // Parses `text`, an object or array nested at most kMaxDepth deep. Anything else gives an absent root and
  // an error.
  explicit JsonDocument(std::string_view text);
  ~JsonDocument();
  JsonDocument(const JsonDocument&) = delete;
  JsonDocument& operator=(const JsonDocument&) = delete;

  static constexpr int kMaxDepth = 256;

  JsonValue root();
  // The first error met by parsing or by any value, as "path: what is wrong with the value"; empty if none.
  const std::string& problem() const;
  // Likewise as a status, prefixed by `object` ("Job a/b"); OK if none.
  absl::Status Finish(std::string_view object) const;

 private:
  friend class JsonValue;
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// metadata of any object.
ObjectMeta DecodeMeta(JsonValue object);
// Likewise, of JSON text; what cannot be read stays empty.
ObjectMeta ReadMeta(std::string_view json);
std::vector<Condition> DecodeConditions(JsonValue conditions);

// One line of a watch, taken apart without reading the object itself (its decoder does that).
struct WatchLine {
  std::string type;         // ADDED, MODIFIED, DELETED, BOOKMARK, ERROR
  std::string_view object;  // a part of the line
  // Of the object's metadata.
  ObjectKey key;
  std::string uid;
  std::string resource_version;
};
// ON FAILURE: InvalidArgument: not JSON, or without type or object.
absl::StatusOr<WatchLine> ParseWatchLine(std::string_view line);

// One page of a list, likewise.
struct ListPage {
  std::string resource_version;
  std::string continue_token;
  std::vector<std::string_view> items;  // parts of the text
};
// ON FAILURE: InvalidArgument: not JSON, or without metadata.resourceVersion.
absl::StatusOr<ListPage> ParseListPage(std::string_view text);

}  // namespace muster::k8s
