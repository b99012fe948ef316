#include "rights_check.h"

#include <absl/strings/str_join.h>
#include <spdlog/spdlog.h>

#include <utility>

#include "muster/k8s_client/json_reader.h"
#include "muster/k8s_client/json_writer.h"
#include "text.h"

namespace muster::controller {
namespace {

constexpr Duration kAgain = std::chrono::seconds(30);
constexpr const char* kPath = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

std::string ReviewOf(const Right& right) {
  const size_t slash = right.resource.find('/');
  k8s::JsonWriter out;
  out.StartObject().Field("apiVersion", "authorization.k8s.io/v1").Field("kind", "SelfSubjectAccessReview");
  out.Key("spec").StartObject().Key("resourceAttributes").StartObject();
  out.Field("verb", right.verb).Field("group", right.group).Field("resource", right.resource.substr(0, slash));
  if (slash != std::string::npos) out.Field("subresource", right.resource.substr(slash + 1));
  if (!right.ns.empty()) out.Field("namespace", right.ns);
  if (!right.name.empty()) out.Field("name", right.name);
  return out.EndObject().EndObject().EndObject().Take();
}

}  // namespace

RightsCheck::~RightsCheck() { env_.executor->Cancel(timer_); }

void RightsCheck::Ask(size_t index) {
  if (index == 0) missing_.clear();
  k8s::HttpRequest request;
  request.method = k8s::Method::kPost;
  request.path = kPath;
  request.content_type = "application/json";
  request.body = ReviewOf(rights_[index]);
  request.timeout = client_->options().call_timeout;
  client_->transport()->Call(std::move(request),
                             [this, alive = std::weak_ptr<bool>(alive_), index](const k8s::HttpResponse& response) {
                               if (!alive.expired()) Answered(index, response);
                             });
}

void RightsCheck::Answered(size_t index, const k8s::HttpResponse& response) {
  const auto later = [this](size_t next) {
    timer_ = env_.executor->PostAt(env_.clock->Mono() + kAgain, [this, next] { Ask(next); });
  };
  if (response.status == 0 || response.status == 429 || response.status >= 500) return later(index);
  // Where it may not be asked there is nothing to go by.
  if (response.status == 200 || response.status == 201) {
    k8s::JsonDocument document(response.body);
    const k8s::JsonValue status = document.root()["status"];
    if (status.IsObject() && !status["allowed"].Bool()) missing_.push_back(ToString(rights_[index]));
  }
  if (index + 1 < rights_.size()) return Ask(index + 1);
  std::string problem =
      missing_.empty() ? "" : Cat("missing rights: ", absl::StrJoin(missing_, ", "), "; apply config/rbac");
  if (problem != problem_ && !problem.empty()) spdlog::error("{}", problem);
  problem_ = std::move(problem);
  if (!problem_.empty()) later(0);
}

}  // namespace muster::controller
