// Whether Kueue's own controller is at work on this cluster. Two controllers of one set of queues would start and
// stop each other's Jobs, so Muster does not lead while Kueue's lease is held, and gives up leading when it is taken.
// Nor does it while Kueue's webhooks remain: with nobody behind them, the API server refuses Jobs and queues.
//
// Source: design decision 8.
// Threading: used from the executor only.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "muster/core/clock.h"
#include "muster/k8s_client/client.h"

namespace muster::controller {

class KueueCheck {
 public:
  // `ns`: where Kueue runs. `own`: the lease that Muster stands for election on, if any: where Kueue would use
  // the same one, the election itself keeps the two apart.
  KueueCheck(Environment env, k8s::Client* client, std::string ns, std::optional<k8s::ObjectKey> own);
  ~KueueCheck();
  KueueCheck(const KueueCheck&) = delete;
  KueueCheck& operator=(const KueueCheck&) = delete;

  // Asks from here on, time and again. `changed`: clear() has.
  void Start(std::function<void()> changed);
  // Asks now.
  void Look();
  // Kueue is known not to be at work, nor in the way. The last state that could be read counts.
  bool clear() const { return clear_; }
  // When that was asked.
  MonoTime as_of() const;
  // In words; empty: there is none.
  std::string problem() const;

 private:
  // What tells of Kueue: its lease, and its webhooks of either kind.
  struct Sign {
    std::optional<bool> there;  // unset: not known yet
    MonoTime as_of{};
    std::string problem;
    bool forbidden = false;  // as said
  };

  void Tick();
  void AskLease();
  void AskWebhooks(Sign* sign, const k8s::Resource& resource);
  // `judge` RETURNS: what is there of Kueue, in words; empty: nothing. ON FAILURE: cannot be told from the body.
  using Judge = std::function<absl::StatusOr<std::string>(std::string_view body)>;
  void Seen(Sign* sign, MonoTime asked, const std::string& what, const k8s::Result& result, const Judge& judge);
  // RETURNS: who holds the lease; empty: nobody does any more.
  std::string Holder(std::string_view lease);

  Environment env_;
  k8s::Client* client_;
  k8s::ObjectKey lease_;
  bool shared_;
  std::function<void()> changed_;
  bool clear_ = false;
  Sign lease_sign_;
  Sign mutating_;
  Sign validating_;
  MonoTime webhooks_at_{};  // when they are to be asked for again
  std::string seen_;        // holder and time of renewal, as last seen to change
  MonoTime seen_at_{};
  Executor::TimerId timer_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace muster::controller
