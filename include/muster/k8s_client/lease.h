// Leader election on a coordination.k8s.io/v1 Lease, with client-go's algorithm and timing: 15 s lease, 10 s
// renew deadline, 2 s retry, take-over only after the record was unchanged for the lease duration on the own
// monotonic clock, release on a clean stop.
//
// Source: k8s.io/client-go tools/leaderelection; cpp_ecosystem section 12.
// Threading: used from the executor only; callbacks run there.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "muster/core/clock.h"
#include "muster/k8s_client/client.h"

namespace muster::k8s {

inline constexpr Duration kLeaseDurationMax = std::chrono::hours(1);
// leaseTransitions has 32 bits, of which some are left for terms to come.
inline constexpr uint64_t kTermMax = uint64_t{1} << 30;

struct LeaseOptions {
  std::string ns = "muster-system";
  std::string name = "c1f6bfd2.kueue.x-k8s.io";
  std::string identity;  // unique to this process
  // REQUIRES: kLeaseDurationMax >= lease_duration > renew_deadline > 1.2 × retry_period.
  Duration lease_duration = std::chrono::seconds(15);
  Duration renew_deadline = std::chrono::seconds(10);
  Duration retry_period = std::chrono::seconds(2);
};

class LeaderElector {
 public:
  struct Callbacks {
    // `term` counts leaders (leaseTransitions + 1, never zero); it grows with every change of leader, and starts
    // anew only if the Lease was deleted while nobody held it.
    std::function<void(uint64_t term)> started_leading;
    // Nothing may be written from here on; the process normally exits.
    std::function<void()> stopped_leading;
    std::function<void(const std::string& identity)> new_leader;
  };
  LeaderElector(Environment env, Client* client, LeaseOptions options, Callbacks callbacks);
  ~LeaderElector();

  void Start();
  // Writes an empty holder, then calls `done`. REQUIRES: all guarded work has ended.
  void Release(std::function<void()> done);

  bool leading() const;
  // The write gate: leading, and the last successful renewal was *sent* less than renew_deadline ago.
  bool MayWrite() const;
  uint64_t term() const;
  // Writes a Lease whose term is above `term`, for a leader that finds traces of later terms than its Lease tells
  // of; `done` follows once that is written. REQUIRES: leading; `term` <= kTermMax.
  void RaiseTerm(uint64_t term, std::function<void(uint64_t term)> done);
  // client-go's health rule: leading, but not renewed for lease_duration + 20 s.
  bool healthy() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::k8s
