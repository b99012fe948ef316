// Whether Kueue's own controller is at work on this cluster. Two controllers of one set of queues would start and
// stop each other's Jobs, so Muster does not lead while Kueue's lease is held, and gives up leading when it is taken.
//
// Threading: used from the executor only.
#pragma once

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
  // Kueue is known not to be at work. The last state that could be read counts.
  bool clear() const { return clear_; }
  // When that was asked.
  MonoTime as_of() const { return as_of_; }
  // In words; empty: there is none.
  const std::string& problem() const { return problem_; }

 private:
  void Seen(MonoTime asked, const k8s::Result& result);
  // RETURNS: who holds the lease; empty: nobody does any more.
  std::string Holder(std::string_view lease);
  void Report(std::string problem);

  Environment env_;
  k8s::Client* client_;
  k8s::ObjectKey lease_;
  bool shared_;
  std::function<void()> changed_;
  bool clear_ = false;
  MonoTime as_of_{};
  std::string problem_;
  std::string seen_;  // holder and time of renewal, as last seen to change
  MonoTime seen_at_{};
  bool forbidden_ = false;
  Executor::TimerId timer_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace muster::controller
