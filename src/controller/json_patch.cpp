#include "json_patch.h"

#include <array>
#include <utility>

namespace muster::controller {
namespace {

// What Go's encoding/json escapes and RapidJSON does not. None of it occurs in JSON outside of strings.
constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kGoEscapes = {{
    {"<", "\\u003c"},
    {">", "\\u003e"},
    {"&", "\\u0026"},
    {"\u2028", "\\u2028"},
    {"\u2029", "\\u2029"},
}};

// RETURNS: the length of what begins `rest` and was written to `out` in another form.
size_t Escape(std::string_view rest, std::string* out) {
  for (const auto& [plain, escape] : kGoEscapes) {
    if (!rest.starts_with(plain)) continue;
    *out += escape;
    return plain.size();
  }
  if (!rest.starts_with("\\")) return 0;
  const std::string_view escape = rest.substr(0, rest.starts_with("\\u") ? 6 : 2);
  for (const char c : escape) *out += c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
  return escape.size();
}

// The same JSON with its strings in the encoding of the API server, which compares a `test` by the encoded text.
std::string AsGoWrites(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  while (!json.empty()) {
    size_t done = Escape(json, &out);
    if (done == 0) {
      out += json.front();
      done = 1;
    }
    json.remove_prefix(done);
  }
  return out;
}

}  // namespace

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

std::string JsonPatch::Take() { return AsGoWrites(out_.EndArray().Take()); }

}  // namespace muster::controller
