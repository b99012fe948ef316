#include "muster/server/access.h"

#include <absl/strings/ascii.h>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>

#include <utility>

namespace muster::server {
namespace {

constexpr absl::string_view kScheme = "Bearer ";

// RETURNS: the token of "Bearer TOKEN"; empty where it is anything else.
std::string TokenOf(const std::string& authorization) {
  if (!absl::StartsWithIgnoreCase(authorization, kScheme)) return {};
  return std::string(absl::StripAsciiWhitespace(absl::string_view(authorization).substr(kScheme.size())));
}

void Refuse(Respond respond, int status, std::string text) {
  HttpReply reply;
  reply.status = status;
  reply.body = std::move(text);
  respond([reply = std::move(reply)]() mutable { return std::move(reply); });
}

}  // namespace

Handler RequireAccess(Executor* executor, AccessReview* review, Handler handler) {
  return [executor, review, handler = std::move(handler)](const HttpRequest& request, Respond respond) {
    AccessQuestion question{TokenOf(request.authorization), request.method, request.path};
    if (question.token.empty()) {
      return Refuse(std::move(respond), 401, "show who you are: Authorization: Bearer TOKEN\n");
    }
    HttpRequest let_in = request;
    let_in.authorization.clear();
    executor->Post([review, handler, question = std::move(question), let_in = std::move(let_in),
                    respond = std::move(respond)]() mutable {
      const std::string right = absl::StrCat(question.verb, " ", question.path);
      review->Ask(std::move(question), [handler, right, let_in = std::move(let_in),
                                        respond = std::move(respond)](const AccessAnswer& answer) mutable {
        switch (answer.access) {
          case Access::kAllowed:
            return handler(let_in, std::move(respond));
          case Access::kUnauthenticated:
            return Refuse(std::move(respond), 401, "the token is not valid\n");
          case Access::kForbidden:
            return Refuse(std::move(respond), 403,
                          absl::StrCat("user ", answer.user, " has no right to ", right, "\n"));
          case Access::kUnknown:
            return Refuse(std::move(respond), 503, "your rights cannot be looked up now; try again\n");
        }
      });
    });
  };
}

}  // namespace muster::server
