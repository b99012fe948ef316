// Whether somebody may read a page: a question to the cluster's own rules, which the API server answers.
//
// Threading: used from the executor only.
#pragma once

#include <absl/functional/any_invocable.h>

#include <cstdint>
#include <string>

namespace muster {

enum class Access : uint8_t {
  kAllowed,
  kUnauthenticated,  // nobody knows the token
  kForbidden,
  kUnknown,  // could not be asked
};

struct AccessQuestion {
  std::string token;
  std::string verb;  // as RBAC has it: "get"
  std::string path;  // a nonResourceURL
};

struct AccessAnswer {
  Access access = Access::kUnknown;
  std::string user;  // whose token it is; empty where that is not known
};

class AccessReview {
 public:
  using Done = absl::AnyInvocable<void(AccessAnswer)>;
  virtual ~AccessReview() = default;
  // `done` may be called before this returns.
  virtual void Ask(AccessQuestion question, Done done) = 0;
};

}  // namespace muster
