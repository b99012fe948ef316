#include "json_patch.h"

namespace muster::controller {

std::string Pointer(std::initializer_list<std::string_view> parts) {
  std::string out;
  for (const std::string_view part : parts) {
    out += '/';
    for (const char c : part) {
      if (c == '~') {
        out += "~0";
      } else if (c == '/') {
        out += "~1";
      } else {
        out += c;
      }
    }
  }
  return out;
}

k8s::JsonWriter& JsonPatch::Op(std::string_view op, std::string_view path) {
  return out_.StartObject().Field("op", op).Field("path", path);
}

JsonPatch& JsonPatch::TestText(std::string_view path, std::string_view value) {
  Op("test", path).Field("value", value).EndObject();
  return *this;
}
JsonPatch& JsonPatch::TestInt(std::string_view path, int64_t value) {
  Op("test", path).Field("value", value).EndObject();
  return *this;
}
JsonPatch& JsonPatch::TestBool(std::string_view path, bool value) {
  Op("test", path).Field("value", value).EndObject();
  return *this;
}
JsonPatch& JsonPatch::TestNull(std::string_view path) {
  Op("test", path).Key("value").Null().EndObject();
  return *this;
}
JsonPatch& JsonPatch::AddText(std::string_view path, std::string_view value) {
  Op("add", path).Field("value", value).EndObject();
  return *this;
}
JsonPatch& JsonPatch::AddInt(std::string_view path, int64_t value) {
  Op("add", path).Field("value", value).EndObject();
  return *this;
}
JsonPatch& JsonPatch::AddBool(std::string_view path, bool value) {
  Op("add", path).Field("value", value).EndObject();
  return *this;
}
JsonPatch& JsonPatch::AddRaw(std::string_view path, std::string_view json) {
  Op("add", path).Key("value").Raw(json).EndObject();
  return *this;
}
JsonPatch& JsonPatch::Remove(std::string_view path) {
  Op("remove", path).EndObject();
  return *this;
}

std::string JsonPatch::Take() { return out_.EndArray().Take(); }

}  // namespace muster::controller
