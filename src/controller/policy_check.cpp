#include "policy_check.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "muster/core/log_fields.h"
#include "muster/k8s_client/resources.h"
#include "text.h"

namespace muster::controller {
namespace {

constexpr Duration kInterval = std::chrono::minutes(1);
constexpr int kNotFound = 404;

const k8s::Resource* ResourceOf(const std::string& kind) {
  for (const k8s::Resource* resource : {&k8s::kMutatingAdmissionPolicies, &k8s::kMutatingAdmissionPolicyBindings,
                                        &k8s::kValidatingAdmissionPolicies, &k8s::kValidatingAdmissionPolicyBindings}) {
    if (resource->kind == kind) return resource;
  }
  return nullptr;
}

}  // namespace

PolicyCheck::PolicyCheck(Environment env, k8s::Client* client, std::vector<PolicyExpectation> expected)
    : env_(env), client_(client), expected_(std::move(expected)) {}

PolicyCheck::~PolicyCheck() { env_.executor->Cancel(timer_); }

void PolicyCheck::Start() { Look(); }

void PolicyCheck::Look() {
  found_.clear();
  outstanding_ = 0;
  for (size_t i = 0; i < expected_.size(); ++i) {
    const k8s::Resource* resource = ResourceOf(expected_[i].kind);
    if (resource == nullptr) continue;
    ++outstanding_;
    client_->Get(*resource, {"", expected_[i].name},
                 [this, alive = std::weak_ptr<bool>(alive_), i](k8s::Result result) {
                   if (!alive.expired()) Seen(i, result);
                 });
  }
  timer_ = env_.executor->PostAt(env_.clock->Mono() + env_.random->Jitter(kInterval, 10), [this] { Look(); });
}

void PolicyCheck::Seen(size_t index, const k8s::Result& result) {
  const PolicyExpectation& expected = expected_[index];
  if (result.code == kNotFound) {
    found_.push_back(Cat(expected.kind, " ", expected.name, " is missing"));
  } else if (!result.ok()) {
    // Not an answer about the policy; without one nothing is claimed.
    spdlog::debug("a policy could not be read{}",
                  LogFields({{"kind", expected.kind}, {"name", expected.name}, {"error", result.message}}));
  } else if (const auto hash = LivePolicyHash(result.body); !hash.ok() || *hash != expected.hash) {
    found_.push_back(Cat(expected.kind, " ", expected.name, " differs from the configuration"));
  }
  if (--outstanding_ > 0) return;
  if (problems_ != found_) {
    for (const std::string& problem : found_) spdlog::warn("{}", problem);
  }
  problems_ = std::move(found_);
  found_.clear();
}

}  // namespace muster::controller
