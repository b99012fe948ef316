// What the simulated API server answers: a code and a document, which for failures is a metav1.Status with
// the reasons and messages of kube-apiserver.
//
// Threading: values.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/core/time.h"
#include "muster/sim/json.h"
#include "muster/sim/kinds.h"

namespace muster::sim {

struct Answer {
  int code = 200;
  Json body;
  std::optional<Duration> retry_after;

  bool ok() const { return code >= 200 && code < 300; }
  // Of a failure: "Conflict", "Invalid", ...
  std::string reason() const { return ok() ? "" : Text(Get(body, "reason")); }
  std::string message() const { return ok() ? "" : Text(Get(body, "message")); }
};

// One complaint about one field, as field.Error of apimachinery.
struct FieldError {
  std::string field;
  std::string reason;   // "FieldValueInvalid", "FieldValueRequired", ...
  std::string message;  // "Invalid value: 3: field is immutable"
};
using FieldErrors = std::vector<FieldError>;

FieldError Required(std::string field, std::string_view detail);
FieldError InvalidValue(std::string field, const Json& value, std::string_view detail);
FieldError Forbidden(std::string field, std::string_view detail);
FieldError NotSupported(std::string field, std::string_view value, const std::vector<std::string>& supported);

// `reason` empty: none.
Answer Failure(int code, std::string_view reason, std::string message, Json details = nullptr);

Answer BadRequest(std::string message);
Answer NotFound(const Kind& kind, const std::string& name);
// Of a path that leads nowhere.
Answer NoSuchResource();
Answer AlreadyExists(const Kind& kind, const std::string& name);
Answer ModifiedConflict(const Kind& kind, const std::string& name);
Answer Conflict(std::string qualified, std::string group, std::string kind, const std::string& name, std::string why);
Answer Invalid(const Kind& kind, const std::string& name, const FieldErrors& errors);
Answer Forbidden(const Kind& kind, const std::string& name, std::string why);
// The answer to a JSON Patch that does not apply.
Answer PatchDoesNotApply();
// A resourceVersion that has been compacted away.
Answer Expired(std::string message);

}  // namespace muster::sim
