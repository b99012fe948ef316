#include "muster/sim/api_status.h"

#include <utility>

#include "text.h"

namespace muster::sim {
namespace {

Json Details(const Kind& kind, const std::string& resource, const std::string& name) {
  Json details = {{"kind", resource}};
  if (!kind.group.empty()) details["group"] = kind.group;
  if (!name.empty()) details["name"] = name;
  return details;
}

std::string Quoted(std::string_view text) { return Concat("\"", text, "\""); }

}  // namespace

FieldError Required(std::string field, std::string_view detail) {
  return {std::move(field), "FieldValueRequired",
          detail.empty() ? "Required value" : Concat("Required value: ", detail)};
}

FieldError InvalidValue(std::string field, const Json& value, std::string_view detail) {
  return {std::move(field), "FieldValueInvalid", Concat("Invalid value: ", Dump(value), ": ", detail)};
}

FieldError Forbidden(std::string field, std::string_view detail) {
  return {std::move(field), "FieldValueForbidden", Concat("Forbidden: ", detail)};
}

FieldError NotSupported(std::string field, std::string_view value, const std::vector<std::string>& supported) {
  std::vector<std::string> quoted;
  for (const std::string& option : supported) quoted.push_back(Quoted(option));
  return {std::move(field), "FieldValueNotSupported",
          Concat("Unsupported value: ", Quoted(value), ": supported values: ", Join(quoted, ", "))};
}

Answer Failure(int code, std::string_view reason, std::string message, Json details) {
  Json status = {{"apiVersion", "v1"},  {"kind", "Status"}, {"metadata", Json::object()},
                 {"status", "Failure"}, {"code", code},     {"message", std::move(message)}};
  if (!reason.empty()) status["reason"] = reason;
  if (!details.is_null()) status["details"] = std::move(details);
  return {code, std::move(status), std::nullopt};
}

Answer BadRequest(std::string message) { return Failure(400, "BadRequest", std::move(message)); }

Answer NotFound(const Kind& kind, const std::string& name) {
  return Failure(404, "NotFound", Concat(kind.Qualified(), " ", Quoted(name), " not found"),
                 Details(kind, kind.plural, name));
}

Answer NoSuchResource() {
  return Failure(404, "NotFound", "the server could not find the requested resource", Json::object());
}

Answer AlreadyExists(const Kind& kind, const std::string& name) {
  return Failure(409, "AlreadyExists", Concat(kind.Qualified(), " ", Quoted(name), " already exists"),
                 Details(kind, kind.plural, name));
}

Answer Conflict(std::string qualified, std::string group, std::string kind, const std::string& name, std::string why) {
  Json details = {{"kind", std::move(kind)}, {"name", name}};
  if (!group.empty()) details["group"] = std::move(group);
  return Failure(409, "Conflict", Concat("Operation cannot be fulfilled on ", qualified, " ", Quoted(name), ": ", why),
                 std::move(details));
}

Answer ModifiedConflict(const Kind& kind, const std::string& name) {
  return Conflict(kind.Qualified(), kind.group, kind.plural, name,
                  "the object has been modified; please apply your changes to the latest version and try again");
}

Answer Invalid(const Kind& kind, const std::string& name, const FieldErrors& errors) {
  Json causes = Json::array();
  std::vector<std::string> texts;
  for (const FieldError& error : errors) {
    causes.push_back({{"field", error.field}, {"reason", error.reason}, {"message", error.message}});
    texts.push_back(Concat(error.field, ": ", error.message));
  }
  Json details = Details(kind, kind.kind, name);
  details["causes"] = std::move(causes);
  const std::string all = texts.size() == 1 ? texts[0] : Concat("[", Join(texts, ", "), "]");
  return Failure(422, "Invalid", Concat(kind.QualifiedKind(), " ", Quoted(name), " is invalid: ", all),
                 std::move(details));
}

Answer Forbidden(const Kind& kind, const std::string& name, std::string why) {
  return Failure(403, "Forbidden", Concat(kind.Qualified(), " ", Quoted(name), " is forbidden: ", why),
                 Details(kind, kind.plural, name));
}

Answer PatchDoesNotApply() {
  return Failure(422, "Invalid", "the server rejected our request due to an error in our request", Json::object());
}

Answer Expired(std::string message) { return Failure(410, "Expired", std::move(message)); }

}  // namespace muster::sim
