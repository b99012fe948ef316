#include "kueue_check.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "muster/core/log_fields.h"
#include "muster/k8s_client/json_reader.h"
#include "muster/k8s_client/resources.h"
#include "text.h"

namespace muster::controller {
namespace {

constexpr std::string_view kLeaseName = "c1f6bfd2.kueue.x-k8s.io";
constexpr Duration kInterval = std::chrono::seconds(5);
constexpr int kNotFound = 404;
constexpr int kForbidden = 403;

}  // namespace

KueueCheck::KueueCheck(Environment env, k8s::Client* client, std::string ns, std::string own_identity)
    : env_(env), client_(client), ns_(std::move(ns)), own_identity_(std::move(own_identity)) {}

KueueCheck::~KueueCheck() { env_.executor->Cancel(timer_); }

void KueueCheck::Start(std::function<void()> clear) {
  clear_ = std::move(clear);
  Look();
}

void KueueCheck::Look() {
  client_->Get(k8s::kLeases, {ns_, std::string(kLeaseName)},
               [this, alive = std::weak_ptr<bool>(alive_)](k8s::Result result) {
                 if (!alive.expired()) Seen(result);
               });
}

void KueueCheck::Seen(const k8s::Result& result) {
  std::string problem;
  bool clear = result.code == kNotFound;
  if (result.ok()) {
    k8s::JsonDocument document(result.body);
    const k8s::JsonValue spec = document.root()["spec"];
    const std::string holder = spec["holderIdentity"].String();
    const WallTime expires =
        spec["renewTime"].Time() + SecondsClamped(std::max<int64_t>(1, spec["leaseDurationSeconds"].Int(15)));
    clear = holder.empty() || holder == own_identity_ || expires < env_.clock->Now();
    if (!clear) problem = Cat("Kueue is at work: lease ", ns_, "/", kLeaseName, " is held by ", holder);
  } else if (result.code == kForbidden) {
    // Where it may not be read there is nothing to go by.
    spdlog::warn("Kueue's lease may not be read, so Kueue is taken to be absent{}",
                 LogFields({{"namespace", ns_}, {"lease", kLeaseName}}));
    clear = true;
  } else if (!clear) {
    problem = Cat("lease ", ns_, "/", kLeaseName, " cannot be read: ", result.message);
  }
  if (problem != problem_ && !problem.empty()) spdlog::warn("{}", problem);
  problem_ = std::move(problem);
  if (clear) {
    std::exchange(clear_, nullptr)();
    return;
  }
  timer_ = env_.executor->PostAt(env_.clock->Mono() + kInterval, [this] { Look(); });
}

}  // namespace muster::controller
