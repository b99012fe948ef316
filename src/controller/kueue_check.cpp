#include "kueue_check.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "muster/core/log_fields.h"
#include "muster/k8s_client/json_reader.h"
#include "muster/k8s_client/resources.h"
#include "text.h"

namespace muster::controller {
namespace {

constexpr const char* kLeaseName = "c1f6bfd2.kueue.x-k8s.io";
constexpr Duration kInterval = std::chrono::seconds(5);
constexpr int kNotFound = 404;
constexpr int kForbidden = 403;

}  // namespace

KueueCheck::KueueCheck(Environment env, k8s::Client* client, std::string ns, std::optional<k8s::ObjectKey> own)
    : env_(env), client_(client), lease_{std::move(ns), kLeaseName}, shared_(own == lease_) {}

KueueCheck::~KueueCheck() { env_.executor->Cancel(timer_); }

void KueueCheck::Start(std::function<void()> changed) {
  changed_ = std::move(changed);
  if (!shared_) return Look();
  clear_ = true;
  changed_();
}

void KueueCheck::Look() {
  as_of_ = shared_ ? env_.clock->Mono() : as_of_;
  if (shared_) return;
  env_.executor->Cancel(timer_);
  timer_ = env_.executor->PostAt(env_.clock->Mono() + kInterval, [this] { Look(); });
  client_->Get(k8s::kLeases, lease_,
               [this, alive = std::weak_ptr<bool>(alive_), asked = env_.clock->Mono()](k8s::Result result) {
                 if (!alive.expired()) Seen(asked, result);
               });
}

void KueueCheck::Seen(MonoTime asked, const k8s::Result& result) {
  if (asked < as_of_) return;
  std::string holder;
  if (result.ok()) {
    holder = Holder(result.body);
  } else if (result.code == kForbidden) {
    // Where it may not be read there is nothing to go by.
    if (!std::exchange(forbidden_, true)) {
      spdlog::warn("Kueue's lease may not be read, so Kueue is taken to be absent{}",
                   LogFields({{"namespace", lease_.ns}, {"lease", lease_.name}}));
    }
  } else if (result.code != kNotFound) {
    return Report(Cat("lease ", lease_.ToString(), " cannot be read: ", result.message));
  }
  as_of_ = asked;
  Report(holder.empty() ? "" : Cat("Kueue is at work: lease ", lease_.ToString(), " is held by ", holder));
  const bool was_clear = std::exchange(clear_, holder.empty());
  if (clear_ != was_clear) changed_();
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

void KueueCheck::Report(std::string problem) {
  if (problem != problem_ && !problem.empty()) spdlog::warn("{}", problem);
  problem_ = std::move(problem);
}

}  // namespace muster::controller
