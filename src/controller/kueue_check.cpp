#include "kueue_check.h"

#include <absl/strings/str_join.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "muster/controller/names.h"
#include "muster/core/log_fields.h"
#include "muster/k8s_client/json_reader.h"
#include "muster/k8s_client/resources.h"
#include "text.h"

namespace muster::controller {
namespace {

constexpr std::string_view kGroup = "kueue.x-k8s.io";
constexpr Duration kInterval = std::chrono::seconds(5);
// Webhooks without a lease are what was left behind; they do not come by themselves.
constexpr Duration kWebhookInterval = std::chrono::minutes(1);
constexpr int kNotFound = 404;
constexpr int kForbidden = 403;

// As its manifests and its chart name them.
bool IsKueueName(std::string_view name) {
  return name == "kueue-mutating-webhook-configuration" || name == "kueue-validating-webhook-configuration";
}

// Under another name: a service in Kueue's namespace is asked about Kueue's objects.
bool AsksKueue(k8s::JsonValue webhook, std::string_view ns) {
  if (webhook["clientConfig"]["service"]["namespace"].String() != ns) return false;
  bool about_kueue = false;
  webhook["rules"].ForEach([&about_kueue](k8s::JsonValue rule) {
    rule["apiGroups"].ForEach([&about_kueue](k8s::JsonValue group) { about_kueue |= group.String() == kGroup; });
  });
  return about_kueue;
}

absl::StatusOr<std::string> FindWebhooks(std::string_view list, const k8s::Resource& resource, std::string_view ns) {
  k8s::JsonDocument document(list);
  std::vector<std::string> names;
  document.root()["items"].ForEach([&names, ns](k8s::JsonValue item) {
    std::string name = item["metadata"]["name"].String();
    bool found = IsKueueName(name);
    item["webhooks"].ForEach([&found, ns](k8s::JsonValue webhook) { found = found || AsksKueue(webhook, ns); });
    if (found) names.push_back(std::move(name));
  });
  if (const absl::Status read = document.Finish("the list"); !read.ok()) return read;
  return names.empty() ? "" : Cat("Kueue's webhooks remain: ", resource.kind, " ", absl::StrJoin(names, ", "));
}

}  // namespace

KueueCheck::KueueCheck(Environment env, k8s::Client* client, std::string ns, std::optional<k8s::ObjectKey> own)
    : env_(env), client_(client), lease_{std::move(ns), std::string(kKueueLeaseName)}, shared_(own == lease_) {}

KueueCheck::~KueueCheck() { env_.executor->Cancel(timer_); }

void KueueCheck::Start(std::function<void()> changed) {
  changed_ = std::move(changed);
  Look();
}

void KueueCheck::Look() {
  webhooks_at_ = {};
  Tick();
}

void KueueCheck::Tick() {
  const MonoTime now = env_.clock->Mono();
  env_.executor->Cancel(timer_);
  timer_ = env_.executor->PostAt(now + kInterval, [this] { Tick(); });
  AskLease();
  const bool gone = mutating_.there == false && validating_.there == false;
  if (gone && now < webhooks_at_) return;
  webhooks_at_ = now + kWebhookInterval;
  AskWebhooks(&mutating_, k8s::kMutatingWebhookConfigurations);
  AskWebhooks(&validating_, k8s::kValidatingWebhookConfigurations);
}

void KueueCheck::AskLease() {
  if (shared_) {
    lease_sign_ = {false, env_.clock->Mono(), "", false};
    return;
  }
  client_->Get(k8s::kLeases, lease_,
               [this, alive = std::weak_ptr<bool>(alive_), asked = env_.clock->Mono()](k8s::Result result) {
                 if (alive.expired()) return;
                 const std::string what = Cat("lease ", lease_.ToString());
                 Seen(&lease_sign_, asked, what, result, [this, &what](std::string_view body) {
                   const std::string holder = Holder(body);
                   return holder.empty() ? "" : Cat("Kueue is at work: ", what, " is held by ", holder);
                 });
               });
}

void KueueCheck::AskWebhooks(Sign* sign, const k8s::Resource& resource) {
  client_->Read(
      k8s::Client::Path(resource, ""), "",
      [this, alive = std::weak_ptr<bool>(alive_), asked = env_.clock->Mono(), sign, resource](k8s::Result result) {
        if (alive.expired()) return;
        Seen(sign, asked, std::string(resource.plural), result,
             [this, &resource](std::string_view body) { return FindWebhooks(body, resource, lease_.ns); });
      });
}

void KueueCheck::Seen(Sign* sign, MonoTime asked, const std::string& what, const k8s::Result& result,
                      const Judge& judge) {
  if (asked < sign->as_of) return;
  absl::StatusOr<std::string> found = std::string();
  if (result.ok()) {
    found = judge(result.body);
  } else if (result.code == kForbidden) {
    // Where it may not be read there is nothing to go by.
    if (!std::exchange(sign->forbidden, true)) {
      spdlog::warn("a sign of Kueue may not be read, so Kueue is taken to be absent{}", LogFields({{"sign", what}}));
    }
  } else if (result.code != kNotFound) {
    found = absl::UnavailableError(result.message);
  }
  std::string problem = found.ok() ? *found : Cat(what, " cannot be read: ", std::string(found.status().message()));
  if (problem != sign->problem && !problem.empty()) spdlog::warn("{}", problem);
  sign->problem = std::move(problem);
  if (!found.ok()) {
    webhooks_at_ = {};  // with the next tick
    return;
  }
  sign->there = !found->empty();
  sign->as_of = asked;
  const bool clear = lease_sign_.there == false && mutating_.there == false && validating_.there == false;
  if (clear != std::exchange(clear_, clear)) changed_();
}

MonoTime KueueCheck::as_of() const { return std::min({lease_sign_.as_of, mutating_.as_of, validating_.as_of}); }

std::string KueueCheck::problem() const {
  std::vector<std::string> problems;
  for (const Sign* sign : {&lease_sign_, &mutating_, &validating_}) {
    if (!sign->problem.empty()) problems.push_back(sign->problem);
  }
  return absl::StrJoin(problems, "; ");
}

// The clocks of two machines may differ by more than a lease lasts: what counts is how long the record has been
// the same by the own one.
std::string KueueCheck::Holder(std::string_view lease) {
  k8s::JsonDocument document(lease);
  const k8s::JsonValue spec = document.root()["spec"];
  std::string holder = spec["holderIdentity"].String();
  const Duration lasts = SecondsClamped(std::max<int64_t>(1, spec["leaseDurationSeconds"].Int(15)));
  std::string seen = Cat(holder, " ", spec["renewTime"].String());
  const MonoTime now = env_.clock->Mono();
  if (seen != seen_) {
    seen_ = std::move(seen);
    seen_at_ = now;
  }
  return now - seen_at_ < lasts ? holder : std::string();
}

}  // namespace muster::controller
