// Plays recorded cases on a world, and says where it does not show what was recorded.
//
// Each case has a namespace and cluster-scoped objects of its own, so many are played side by side: whoever drives
// them looks at the world once, and lets each do what is due.
//
// Threading: one thread.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rules.h"
#include "view.h"
#include "world.h"

namespace muster::golden {

struct Pace {
  std::chrono::milliseconds look{300};      // from one look at the world to the next
  std::chrono::milliseconds between{1100};  // operations of one step, as by hand: Jobs are ordered by the second
  std::chrono::milliseconds still{2000};    // what was recorded must be shown, without a change, for so long
  std::chrono::seconds patience{60};        // for it to be shown at all
};

class Player {
 public:
  Player(scenarios::World* world, const Json& recording, const Pace& pace);

  // Does what is due. `seen`: all objects of the world.
  void Advance(const Objects& seen);
  bool done() const { return step_ >= Get(recording_, "steps").size(); }
  // Where it differs from the recording, a line each.
  const std::vector<std::string>& findings() const { return findings_; }
  // By `documented`: the rules without which some step would differ.
  const std::set<std::string>& rules_used() const { return rules_used_; }

 private:
  // How often an Event was recorded: in so many steps, and at most so often.
  struct Recorded {
    int64_t steps = 0;
    int64_t most = 0;
    bool waiting = false;  // it tells of an attempt, and is not told again while nothing changes
  };
  using Events = std::map<std::string, Recorded>;

  const Json& step() const { return Get(recording_, "steps")[step_]; }
  Objects Mine(const Objects& seen) const;
  // Whether Muster shows that it knows the queues made so far.
  bool QueuesKnown(const Objects& mine) const;
  // RETURNS: false where it has to wait for what it is about.
  bool Do(const Json& op);
  void Create(const Json& op);
  void Send(const Json& op, std::string_view method, const std::string& target, const std::string& body,
            std::string_view type);
  void ConfirmStops(const Objects& mine);
  std::string AnyRunningPod() const;
  Json WithTimes(const Json& op, const std::string& target) const;
  // Uids and names of Workloads as they are in this run.
  Json Translated(const Json& recorded) const;
  void LearnNames(const Objects& mine);
  // Wanted and found, as the rules leave them. `rules_used` may be null.
  std::pair<Json, Json> Views(const Objects& mine, std::set<std::string>* rules_used) const;
  std::vector<std::string> Compare(const Objects& mine);
  std::chrono::milliseconds Still() const;
  static void CountEvents(const Json& wanted, Events* events);
  static void CompareEvents(const Events& wanted, const Json& found, std::vector<std::string>* out);
  void NextStep(const std::vector<std::string>& differences);

  scenarios::World* world_;
  const Json& recording_;
  std::string id_;
  Pace pace_;
  size_t step_ = 0;
  size_t op_ = 0;
  WallTime due_;
  WallTime deadline_;
  std::optional<WallTime> as_recorded_since_;
  std::map<std::string, std::string> names_;  // recorded to here
  std::set<std::string> cluster_queues_;      // made by the case
  Queues queues_;
  Events before_;  // of the steps that are over
  Events events_;  // with those of this step
  std::vector<std::string> findings_;
  std::set<std::string> rules_used_;
};

// Plays them side by side. RETURNS: those who played, in the order of `recordings`, which must outlive them.
std::vector<Player> PlayAll(scenarios::World* world, const std::vector<Json>& recordings, const Pace& pace);

}  // namespace muster::golden
