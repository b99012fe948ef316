// The controller of the AdmissionCheck "budget", as somebody else would have written it: it answers each Workload that
// shows a reservation after a while, and sometimes thinks better of one that runs.
//
// Threading: one thread.
#pragma once

#include <string>

#include "cluster.h"

namespace muster::sim_campaign {

class CheckController {
 public:
  static constexpr const char* kCheck = "budget";

  // `rejects`: also says no, and stops what runs.
  CheckController(Cluster* cluster, bool rejects);

  // The check, which is active.
  void MakeCheck();
  // From here on whoever asks gets it.
  void Settle();

 private:
  void Observe(const Json& workload);
  void Answer(const std::string& ns, const std::string& name);
  // RETURNS: null: nothing new.
  Json AnyState(const Json& known, bool runs);

  Cluster* cluster_;
  bool rejects_;
  bool settled_ = false;
  SeededRandom random_;
};

}  // namespace muster::sim_campaign
