#include "server_check.h"

#include <spdlog/spdlog.h>

#include <cstdlib>
#include <utility>

#include "muster/core/log_fields.h"
#include "muster/k8s_client/json_reader.h"
#include "text.h"

namespace muster::controller {
namespace {

constexpr Duration kAgain = std::chrono::seconds(5);
constexpr Duration kInterval = std::chrono::minutes(10);
constexpr int kClearsStartTime = 36;
constexpr int kOldest = 30;
constexpr int kNotFound = 404;
constexpr int kForbidden = 403;
constexpr const char* kPolicies = "/apis/admissionregistration.k8s.io/v1";

}  // namespace

ServerCheck::ServerCheck(Environment env, k8s::Client* client) : env_(env), client_(client) {}

ServerCheck::~ServerCheck() {
  env_.executor->Cancel(version_timer_);
  env_.executor->Cancel(policies_timer_);
}

void ServerCheck::Start() {
  AskVersion();
  AskPolicies();
}

void ServerCheck::AskVersion() {
  client_->Read("/version", "", [this, alive = std::weak_ptr<bool>(alive_)](k8s::Result result) {
    if (alive.expired()) return;
    version_timer_ =
        env_.executor->PostAt(env_.clock->Mono() + (result.ok() ? kInterval : kAgain), [this] { AskVersion(); });
    if (!result.ok()) return;
    k8s::JsonDocument document(result.body);
    // "36", or "36+" where a vendor has added to it.
    const std::string major = document.root()["major"].String();
    minor_ = std::atoi(document.root()["minor"].String().c_str());
    std::string version = Cat(major, ".", minor_);
    if (version != std::exchange(version_, version)) {
      spdlog::info("the API server's version{}", LogFields({{"version", document.root()["gitVersion"].String()}}));
    }
    keeps_start_time_ = minor_ > 0 && minor_ < kClearsStartTime;
    Judge();
  });
}

void ServerCheck::AskPolicies() {
  client_->Read(kPolicies, "", [this, alive = std::weak_ptr<bool>(alive_)](k8s::Result result) {
    if (alive.expired()) return;
    const bool answered = result.ok() || result.code == kNotFound || result.code == kForbidden;
    policies_timer_ =
        env_.executor->PostAt(env_.clock->Mono() + (answered ? kInterval : kAgain), [this] { AskPolicies(); });
    if (!answered) return;
    bool served = result.code == kForbidden;  // nothing to go by
    k8s::JsonDocument document(result.ok() ? result.body : "{}");
    document.root()["resources"].ForEach([&served](k8s::JsonValue resource) {
      served = served || resource["name"].String() == "mutatingadmissionpolicies";
    });
    if (!document.Finish("").ok()) return;
    mutating_policies_ = served;
    Judge();
  });
}

void ServerCheck::Judge() {
  std::string problem;
  if (minor_ > 0 && minor_ < kOldest) {
    problem = Cat("Kubernetes ", version_, " is too old: 1.", kOldest, " is the oldest that Muster works with");
  } else if (mutating_policies_ == false) {
    problem = Cat("Kubernetes ", version_.empty() ? "of this version" : version_,
                  " does not serve MutatingAdmissionPolicy v1: queued Jobs must be created with suspend: true and a "
                  "queue name, fields that the API versions name differently are not kept equal, and a v1beta1 client "
                  "that replaces a Workload's status drops what it does not know");
  }
  if (problem != problem_ && !problem.empty()) spdlog::warn("{}", problem);
  problem_ = std::move(problem);
}

}  // namespace muster::controller
