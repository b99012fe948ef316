#include "identity_check.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "muster/k8s_client/json_reader.h"
#include "text.h"

namespace muster::controller {
namespace {

constexpr Duration kAgain = std::chrono::seconds(10);
constexpr const char* kPath = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
constexpr const char* kReview = R"({"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"})";

}  // namespace

IdentityCheck::~IdentityCheck() { env_.executor->Cancel(timer_); }

void IdentityCheck::Start() {
  k8s::HttpRequest request;
  request.method = k8s::Method::kPost;
  request.path = kPath;
  request.content_type = "application/json";
  request.body = kReview;
  request.timeout = client_->options().call_timeout;
  client_->transport()->Call(std::move(request),
                             [this, alive = std::weak_ptr<bool>(alive_)](const k8s::HttpResponse& response) {
                               if (!alive.expired()) Answered(response);
                             });
}

void IdentityCheck::Answered(const k8s::HttpResponse& response) {
  if (response.status == 0 || response.status == 429 || response.status >= 500) {
    timer_ = env_.executor->PostAt(env_.clock->Mono() + kAgain, [this] { Start(); });
    return;
  }
  k8s::JsonDocument document(response.status == 200 || response.status == 201 ? response.body : "{}");
  const std::string user = document.root()["status"]["userInfo"]["username"].String();
  const std::string own = OwnUserName(policies_);
  const std::vector<std::string>& allowed = policies_.allowed_starters;
  if (user.empty() || user == own || std::find(allowed.begin(), allowed.end(), user) != allowed.end()) return;
  problem_ = Cat("this process is \"", user, "\" to the API server, and the admission policies let only \"", own,
                 "\" start Jobs: use that ServiceAccount (kubectl -n ", policies_.ns, " create token ",
                 policies_.service_account, "), or name the user in muster.allowedStarters and apply what \"muster ",
                 "policies\" prints then");
  spdlog::error("{}", problem_);
}

}  // namespace muster::controller
