// What a second, plain scheduler knows: the objects, who holds what, and for whom room is kept.
//
// Threading: values; a gang's address holds for as long as it is known.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "muster/engine/engine.h"
#include "quota_tree.h"

namespace muster::cli::model {

// Room that is kept for a preemptor.
struct Room {
  Amounts amounts;
  bool borrows = false;
  WallTime until;
};

// How far the flavors of each pod set and resource group were tried.
struct Scan {
  static constexpr int kNone = -2;
  static constexpr int kLast = -1;  // all of them
  std::vector<int> tried;           // by pod set, then group
  int64_t pass = 0;
  int64_t generation = 0;  // of its queue, then
};

struct Gang {
  engine::Workload spec;
  std::optional<engine::Admission> admission;
  WallTime reserved_at;
  int waits_in = -1;     // ClusterQueue; -1: it waits in none
  bool parked = false;   // not to be looked at before something wakes it
  WallTime looked_at{};  // it, or one that is like it
  Scan scan;
  // From where scans have started since its tree last changed; and from where it lost to others once.
  std::set<std::vector<int>> starts;
  std::set<std::vector<int>> lost_starts;
  // Rules of docs/kueue-compatibility.md.
  std::optional<Room> room;
  WallTime promised_at{};           // its last eviction of others, until it has started
  bool room_spent = false;          // the time for which room was kept is over
  int64_t room_lost_in = -1;        // turn in which others took it
  std::set<std::string> preempted;  // since anything changed from outside
  std::string evicted_for;          // who took its place, until it has started again

  void ForgetStarts() {
    starts.clear();
    lost_starts.clear();
  }
};

// Higher priority, earlier time, smaller uid.
bool Earlier(const Gang& a, const Gang& b);
// Those to go first: lower priority, reserved later, smaller uid.
bool GoesBefore(const Gang& a, const Gang& b);

// What is remembered of a ClusterQueue between passes.
struct QueueMemory {
  std::string preemptor;       // uid of who goes first in it, since it waits for its victims; BestEffortFIFO
  int64_t generation = 0;      // grows with each change of what it holds or has
  std::string stalled_head{};  // that passes leave where it is
  WallTime stall_ends{};
  bool stall_lost = false;  // to others, which may end
  WallTime recheck_at{};    // when those are looked at again who were parked half way
  bool recheck_due = false;
};

// And of a tree.
struct TreeMemory {
  bool wakes = false;  // whoever is parked is looked at again
  bool active = true;  // a pass may decide something
};

struct State {
  std::map<std::string, engine::ResourceFlavor> flavors;
  std::map<std::string, engine::Cohort> cohorts;
  std::map<std::string, engine::ClusterQueue> queues;
  std::map<std::string, engine::Namespace> namespaces;
  std::map<std::string, std::string> queue_of_local;  // LocalQueue -> ClusterQueue
  std::map<std::string, Gang> gangs;                  // by uid
  std::optional<engine::FairSharing> fair_sharing;
  Duration keep_room_for{};
  QuotaTree tree;
  std::map<std::string, QueueMemory> memory;  // by ClusterQueue
  std::map<std::string, TreeMemory> trees;    // by the name of the root

  const engine::ClusterQueue& SpecOf(int queue) const { return queues.at(tree.node(queue).name); }
  bool IsActive(int queue) const;
  Amounts AmountsOf(const Gang& gang) const;  // that it holds
  int HeldIn(const Gang& gang) const;         // -1: it holds nothing, or in a ClusterQueue that is gone
  QueueMemory& MemoryOf(int queue) { return memory[tree.node(queue).name]; }
  TreeMemory& TreeOf(int node);
  bool NamespaceMatches(int queue, const Gang& gang) const;
  std::vector<Gang*> WaitingIn(int queue);  // as they stand in it
  Gang* HeadOf(int queue);                  // null: nobody is to be looked at
  // It gave its place to that one, or to one of the same tree who gave it on to that one; and has not started since.
  bool HadToGoFor(const Gang& gang, const Gang& preemptor) const;
  // In the order in which they stand in one ClusterQueue.
  bool StandsBefore(const Gang& a, const Gang& b) const;
};

// What is in use at some moment of a pass: in fact, and once those have left who were told to go, with the room that is
// kept for others.
struct Books {
  explicit Books(const QuotaTree* tree) : actual(tree), planned(tree) {}
  Usage actual;
  Usage planned;
  std::set<const Gang*> leaving;

  bool Fits(int queue, const Amounts& amounts) const {
    return actual.Fits(queue, amounts) && planned.Fits(queue, amounts);
  }
};

}  // namespace muster::cli::model
