// Writes an admission down on the Workload itself, where no Job holds it (record.md): first the id of the claim, as an
// annotation, then the status, which is the admission. Both carry the resourceVersion of the state that was decided
// on, so that whatever changes the Workload in between makes them fail; what came of a write without an answer is
// asked for. It ends only when no write of it can be applied any more, or one was.
//
// Threading: used from the executor only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "muster/controller/projection.h"
#include "muster/controller/workload.h"
#include "muster/core/backoff.h"
#include "muster/core/clock.h"
#include "muster/k8s_client/client.h"

namespace muster::controller {

struct ReservationOrder {
  std::shared_ptr<const Workload> workload;  // as it was decided on
  engine::ClaimId claim;
  engine::Admission admission;
  WallTime reserved_at;
  CheckNames checks;  // to be passed before it is admitted; empty: it is admitted at once
  // A former eviction that the Workload may not show yet.
  std::optional<Eviction> eviction;
};

struct ReservationEnd {
  enum class How : uint8_t {
    kShown,    // the Workload shows it
    kChanged,  // the Workload is another than the one that was decided on, or gone
    kRefused,  // the API server did not want it, or did not answer for too long
  };
  How how = How::kRefused;
  std::string message;  // of kRefused
  Duration wait{0};     // of kRefused: the server asks to be left alone for so long
};

class Reservations {
 public:
  using Done = std::function<void(const ReservationEnd&)>;
  // `returned` is given the objects that requests return.
  Reservations(Environment env, k8s::Client* client, std::function<void(const std::string& json)> returned)
      : env_(env), client_(client), returned_(std::move(returned)) {}

  // No write leaves, and `done` is not called, once what is returned was destroyed. Else `done` is called once, never
  // inside this call.
  [[nodiscard]] std::shared_ptr<void> Reserve(ReservationOrder order, Done done);

 private:
  struct Run {
    ReservationOrder order;
    Done done;
    std::weak_ptr<void> wanted;
    std::shared_ptr<const Workload> newest;
    // Of writes of the status that nobody answered and that may still be applied, as long as the Workload stays at
    // `doubtful`: sent again before the one, over at the other.
    std::string doubtful;
    MonoTime repeat_until;
    MonoTime landed_by;
    std::string message;
    int conflicts = 0;
    Backoff backoff{std::chrono::milliseconds(500), std::chrono::seconds(5)};
  };
  using RunPtr = std::shared_ptr<Run>;

  void Step(const RunPtr& run);
  void Patch(const RunPtr& run, std::string_view subresource, std::string body);
  void Answered(const RunPtr& run, bool status, const std::string& base, const k8s::Result& result);
  void Ask(const RunPtr& run);
  void AskAt(const RunPtr& run, MonoTime when);
  void Asked(const RunPtr& run, const k8s::Result& result);
  // RETURNS: whether `json` is the Workload; it is then the newest state.
  bool Learn(const RunPtr& run, const std::string& json);
  static void End(const RunPtr& run, ReservationEnd end);

  Environment env_;
  k8s::Client* client_;
  std::function<void(const std::string& json)> returned_;
};

}  // namespace muster::controller
