// Builds a JSON Patch (RFC 6902) for the API server. Its `test` compares strings as they are encoded, not what they
// say, and its own side is in the encoding of Go; so all strings are written in that.
//
// Threading: needs external synchronisation.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "muster/k8s_client/json_writer.h"

namespace muster::controller {

// A JSON pointer of the parts, each escaped.
std::string Pointer(std::initializer_list<std::string_view> parts);

class JsonPatch {
 public:
  JsonPatch() { out_.StartArray(); }

  JsonPatch& TestText(std::string_view path, std::string_view value);
  JsonPatch& TestInt(std::string_view path, int64_t value);
  JsonPatch& TestBool(std::string_view path, bool value);
  JsonPatch& TestNull(std::string_view path);
  JsonPatch& AddText(std::string_view path, std::string_view value);
  JsonPatch& AddInt(std::string_view path, int64_t value);
  JsonPatch& AddBool(std::string_view path, bool value);
  // `json` is a JSON value.
  JsonPatch& AddRaw(std::string_view path, std::string_view json);
  JsonPatch& Remove(std::string_view path);

  std::string Take();

 private:
  k8s::JsonWriter& Op(std::string_view op, std::string_view path);
  k8s::JsonWriter out_;
};

}  // namespace muster::controller
