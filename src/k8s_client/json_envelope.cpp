// Watch lines and list pages are taken apart without reading the objects inside: each is found in one pass
// over simdjson's index and handed on as text.
#include <absl/strings/str_cat.h>

#include "muster/k8s_client/json_reader.h"
#include "simdjson_text.h"

namespace muster::k8s {
namespace {

absl::Status Bad(std::string_view what, std::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(std::string(what), " is not valid: ", std::string(why)));
}

// Calls visit(key, value) for each field; it may leave the value unread. RETURNS: an error's text, or "".
template <typename Visit>
std::string EachField(ondemand::value value, Visit visit) {
  ondemand::object object;
  if (const auto error = value.get_object().get(object)) return ErrorText(error);
  for (auto result : object) {
    ondemand::field field;
    if (const auto error = std::move(result).get(field)) return ErrorText(error);
    std::string_view key;
    if (const auto error = field.unescaped_key().get(key)) return ErrorText(error);
    if (std::string why = visit(key, field.value()); !why.empty()) return why;
  }
  return "";
}

std::string ReadString(ondemand::value value, std::string* out) {
  std::string_view text;
  if (const auto error = value.get_string().get(text)) return ErrorText(error);
  out->assign(text);
  return "";
}

// A part of `padded` as the same part of `text`, whose copy it is.
std::string_view Moved(std::string_view part, const std::string& padded, std::string_view text) {
  return text.substr(static_cast<size_t>(part.data() - padded.data()), part.size());
}

// Opens `text` and gives its root to `visit`. RETURNS: an error's text, or "".
template <typename Visit>
std::string WithRoot(const std::string& padded, Visit visit) {
  ParserLease parser(padded.size());
  ondemand::document document;
  if (const auto error = parser.get().iterate(View(padded)).get(document)) return ErrorText(error);
  ondemand::value root;
  if (const auto error = document.get_value().get(root)) return ErrorText(error);
  if (std::string why = visit(document, root); !why.empty()) return why;
  return AtEnd(document) ? "" : "text follows the value";
}

}  // namespace

absl::StatusOr<WatchLine> ParseWatchLine(std::string_view line) {
  WatchLine out;
  const std::string padded = Padded(line);
  const auto object = [&](ondemand::document& document, ondemand::value value) {
    const char* begin = value.raw_json_token().data();
    std::string why = EachField(value, [&](std::string_view key, ondemand::value member) {
      if (key != "metadata") return std::string();
      return EachField(member, [&](std::string_view name, ondemand::value field) {
        if (name == "resourceVersion") return ReadString(field, &out.resource_version);
        if (name == "uid") return ReadString(field, &out.uid);
        if (name == "name") return ReadString(field, &out.key.name);
        if (name == "namespace") return ReadString(field, &out.key.ns);
        return std::string();
      });
    });
    if (why.empty()) out.object = Moved(TextTo(begin, document, padded), padded, line);
    return why;
  };
  const std::string why = WithRoot(padded, [&](ondemand::document& document, ondemand::value root) {
    return EachField(root, [&](std::string_view key, ondemand::value value) {
      if (key == "type") return ReadString(value, &out.type);
      if (key == "object") return object(document, value);
      return std::string();
    });
  });
  if (!why.empty()) return Bad("watch line", why);
  if (out.type.empty()) return Bad("watch line", "type is required");
  if (out.object.empty()) return Bad("watch line", "object is required");
  return out;
}

absl::StatusOr<ListPage> ParseListPage(std::string_view text) {
  ListPage out;
  const std::string padded = Padded(text);
  const auto items = [&](ondemand::document& document, ondemand::value value) -> std::string {
    ondemand::json_type type;
    if (const auto error = value.type().get(type)) return ErrorText(error);
    if (type == ondemand::json_type::null) return "";  // how Go writes an empty list
    ondemand::array array;
    if (const auto error = value.get_array().get(array)) return ErrorText(error);
    for (auto result : array) {
      ondemand::value item;
      if (const auto error = std::move(result).get(item)) return ErrorText(error);
      const char* begin = item.raw_json_token().data();
      if (std::string why = EachField(item, [](std::string_view, ondemand::value) { return std::string(); });
          !why.empty()) {
        return why;
      }
      out.items.push_back(Moved(TextTo(begin, document, padded), padded, text));
    }
    return "";
  };
  const auto meta = [&](std::string_view key, ondemand::value value) -> std::string {
    if (key == "resourceVersion") return ReadString(value, &out.resource_version);
    if (key == "continue") return ReadString(value, &out.continue_token);
    return "";
  };
  const std::string why = WithRoot(padded, [&](ondemand::document& document, ondemand::value root) {
    return EachField(root, [&](std::string_view key, ondemand::value value) -> std::string {
      if (key == "metadata") return EachField(value, meta);
      if (key == "items") return items(document, value);
      return "";
    });
  });
  if (!why.empty()) return Bad("list", why);
  if (out.resource_version.empty()) return Bad("list", "metadata.resourceVersion is required");
  return out;
}

}  // namespace muster::k8s
