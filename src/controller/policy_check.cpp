#include "policy_check.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "muster/k8s_client/resources.h"
#include "text.h"

namespace muster::controller {
namespace {

constexpr Duration kInterval = std::chrono::minutes(1);
// Somebody is about to mend it.
constexpr Duration kWhileWrong = std::chrono::seconds(5);
constexpr const char* kUnreadable = " cannot be read: ";
constexpr const char* kRemedy =
    "policies are put in force by applying what \"muster policies\" prints with Muster's configuration";
constexpr Duration kNotKnown = std::chrono::seconds(1);
constexpr int kNotFound = 404;

const k8s::Resource* ResourceOf(const std::string& kind) {
  for (const k8s::Resource* resource : {&k8s::kMutatingAdmissionPolicies, &k8s::kMutatingAdmissionPolicyBindings,
                                        &k8s::kValidatingAdmissionPolicies, &k8s::kValidatingAdmissionPolicyBindings}) {
    if (resource->kind == kind) return resource;
  }
  return nullptr;
}

}  // namespace

PolicyCheck::PolicyCheck(Environment env, k8s::Client* client, std::vector<PolicyExpectation> expected,
                         std::function<std::optional<bool>()> serves_mutating)
    : env_(env), client_(client), expected_(std::move(expected)), serves_mutating_(std::move(serves_mutating)) {}

PolicyCheck::~PolicyCheck() { env_.executor->Cancel(timer_); }

void PolicyCheck::Start() { Look(); }

void PolicyCheck::Look() {
  const std::optional<bool> mutating = serves_mutating_();
  if (!mutating.has_value()) {
    timer_ = env_.executor->PostAt(env_.clock->Mono() + kNotKnown, [this] { Look(); });
    return;
  }
  ++round_;
  found_.assign(expected_.size(), "");
  outstanding_ = 0;
  for (size_t i = 0; i < expected_.size(); ++i) {
    const k8s::Resource* resource = ResourceOf(expected_[i].kind);
    if (resource == nullptr || (!*mutating && expected_[i].kind.starts_with("Mutating"))) continue;
    ++outstanding_;
    client_->Get(*resource, {"", expected_[i].name},
                 [this, alive = std::weak_ptr<bool>(alive_), round = round_, i](k8s::Result result) {
                   if (!alive.expired()) Seen(round, i, result);
                 });
  }
  if (outstanding_ == 0) Again(kInterval);
}

void PolicyCheck::Again(Duration wait) {
  timer_ = env_.executor->PostAt(env_.clock->Mono() + env_.random->Jitter(wait, 10), [this] { Look(); });
}

std::string PolicyCheck::Judge(const PolicyExpectation& expected, const k8s::Result& result) {
  if (result.code == kNotFound) return Cat(expected.kind, " ", expected.name, " is missing");
  // Whether it is in force is not known, and that has to be seen.
  if (!result.ok()) return Cat(expected.kind, " ", expected.name, kUnreadable, result.message);
  const auto hash = LivePolicyHash(result.body);
  if (hash.ok() && *hash == expected.hash) return "";
  return Cat(expected.kind, " ", expected.name, " differs from the configuration");
}

void PolicyCheck::Seen(uint64_t round, size_t index, const k8s::Result& result) {
  if (round != round_) return;
  found_[index] = Judge(expected_[index], result);
  if (--outstanding_ > 0) return;
  std::erase(found_, "");
  const bool mendable = std::any_of(found_.begin(), found_.end(), [](const std::string& problem) {
    return problem.find(kUnreadable) == std::string::npos;
  });
  if (mendable) found_.emplace_back(kRemedy);
  for (const std::string& problem : found_) {
    if (std::find(problems_.begin(), problems_.end(), problem) == problems_.end()) spdlog::warn("{}", problem);
  }
  if (found_.empty() && !problems_.empty()) spdlog::info("all policies are in force as the configuration has them");
  problems_ = std::move(found_);
  Again(problems_.empty() ? kInterval : kWhileWrong);
}

}  // namespace muster::controller
