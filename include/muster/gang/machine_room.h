// Nodes, pods and flavors as the machine book has them; what gangs hold there; and the one question that everybody
// asks about machines: would these pods have a place, all of them at once?
//
// Which machines: a pod may go where the labels of its flavors, its selector and its required affinity lead, and its
// own and its flavors' tolerations let it. All that these can tell apart is a machine's class, so the book knows
// classes only, and a node that several flavors have is one machine in it. A pod set is not checked where one of its
// flavors is autoscaled (machines come once pods wait for them), or while no flavor has any node.
//
// Who holds what. A machine's capacity is what the node may give, less what strangers' pods on it ask for. A gang that
// is admitted takes a place for each pod (Reserve). A pod of it that is bound takes its own amounts where it is bound,
// and one place of its pod set is given back, wherever that was. What a pod leaves that has gone is a place of its gang
// again while that pod is needed. Once the gang is to leave, all that it holds is free in the planned book; once it has
// left, its places are free, and what its pods hold is when they are gone. Amounts may go below zero: what runs is a
// fact.
//
// What is told here is booked at the next question, in the order of names: the book is the same in whatever order
// objects were told of before. A place is nobody's any more where its node has gone, would not take the pod any more,
// or has too little left beside what runs there, since that is a fact and the place is not. Gangs that lack places
// then, or since they were found running, get what there is.
//
// Source: design decisions 3, 4, 5. Units: Amount's.
// Threading: needs external synchronisation, but for askers while the room is shared; the book below it is shared
// without.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/core/hash.h"
#include "muster/core/labels.h"
#include "muster/core/time.h"
#include "muster/gang/node.h"
#include "muster/gang/shape.h"
#include "muster/gang/topology.h"

namespace muster::gang {

struct FlavorMachines {
  Labels node_labels;
  std::vector<Toleration> tolerations;  // that its pods get
  bool autoscaled = false;
  std::vector<Taint> node_taints{};  // that pods for it tolerate by themselves; only FlavorRoom goes by them
  friend bool operator==(const FlavorMachines&, const FlavorMachines&) = default;
};

struct BoundPod {
  std::string node;
  std::map<std::string, Amount, std::less<>> requests;
  std::string workload;  // uid; empty: a stranger
  std::string pod_set;
  friend bool operator==(const BoundPod&, const BoundPod&) = default;
};

// Pods of one pod set that are to have places.
struct PodSetToSeat {
  std::string name;
  ShapePtr shape;
  int64_t count = 0;
  std::vector<std::string> flavors;              // that its resources come from; sorted, each once
  std::optional<TopologyAssignment> topology{};  // in these domains
  friend bool operator==(const PodSetToSeat&, const PodSetToSeat&) = default;
};
using GangToSeat = std::vector<PodSetToSeat>;

// What counts as taken.
enum class RoomView : uint8_t {
  kBoth,     // what is in either book
  kPlanned,  // what is in that
  kEmpty,    // strangers' pods alone
};

// What keeps pods from machines: the first of these that leaves no machine for them.
enum class RoomLack : uint8_t {
  kNode,          // the labels of their flavors
  kNodeSelector,  // their own
  kNodeAffinity,  // what they require
  kToleration,    // of a taint
  kOpenNode,      // those that would do are cordoned or not ready
  kDomain,        // the domains of their topology lack room, or machines that would do
  kResource,
};

// Why the pods of a pod set have no places.
struct RoomProblem {
  int64_t placed = 0;  // of its pods, beside those of the pod sets before it
  int64_t wanted = 0;
  // What most machines lack for one more; none: no machine would do for it.
  std::string resource;
  Amount needed;       // of one pod
  Amount largest;      // free on one machine, beside those that were placed
  std::string node;    // which is that
  bool proven = true;  // false: the search ended at its step limit
  RoomLack lack = RoomLack::kResource;
  bool kept = false;  // there would be places, were it not for what is kept for others
  friend bool operator==(const RoomProblem&, const RoomProblem&) = default;
};

void AddToHash(const RoomProblem& problem, StateHash* hash);

struct RoomAnswer {
  bool checked = false;  // of some pod set the machines are looked at
  bool fits = true;
  // Where they do not fit: the pod set, and why.
  size_t pod_set = 0;
  RoomProblem problem{};
};

// What the nodes with a flavor's labels have, whatever is on them.
struct FlavorFacts {
  bool autoscaled = false;
  int64_t nodes = 0;
  Amount allocatable;  // of one resource
};

// The room of one resource on the machines of a flavor that take pods which tolerate the flavor's taints.
struct FlavorRoom {
  Amount free;                // and kept for nobody
  Amount largest;             // of that, on one machine
  std::vector<int64_t> pods;  // by size: how many would have places that ask for so much of it, and nothing else
};

struct RoomCounts {
  int64_t nodes = 0;
  uint64_t reservations = 0;  // for claims, and for more pods of them, ever; less those that were cancelled
  uint64_t kept = 0;          // likewise rooms for those who wait
  uint64_t commits = 0;       // changes of the book, ever
  uint64_t searches = 0;      // of all askers there are
};

// When a gang that runs will have ended at the latest; unset: nobody knows.
using GangEnds = std::function<WallTime(const std::string& workload)>;

class Reservation;
class MachineRoomImpl;
class RoomAskerImpl;
struct FutureRoom;

class MachineRoom {
 public:
  // `on`: false: nothing is checked, and nothing is held.
  explicit MachineRoom(bool on);
  ~MachineRoom();
  MachineRoom(const MachineRoom&) = delete;
  MachineRoom& operator=(const MachineRoom&) = delete;

  bool on() const;

  // ---- what there is
  void SetNode(const Node& node);
  void RemoveNode(std::string_view name);
  // `key`: any unique name of the pod. A pod on a node that is not known counts once that comes.
  void SetPod(const std::string& key, const BoundPod& pod);
  void RemovePod(const std::string& key);
  void SetFlavor(const std::string& name, FlavorMachines flavor);
  void RemoveFlavor(std::string_view name);

  bool Checks(const std::vector<std::string>& flavors) const;
  // Pods of that shape will be asked about.
  void Announce(const Shape& shape);
  // Books what was told, and from now on askers may ask on threads of their own, of announced shapes alone; nothing is
  // to be told, taken or given back until nobody asks any more, and this is said with false.
  void Share(bool shared);

  // ---- what gangs hold. A workload has one claim at a time.
  // Of a gang that runs already: it gets what places there are.
  Reservation Adopt(std::string_view workload, const GangToSeat& gang);

  // Books what was told. RETURNS: the flavors with machines that have more room than at the last call; sorted.
  std::vector<std::string> TakeGained();
  // Likewise the workloads, by uid, whose claims lack places and did not then, or the other way round; sorted.
  std::vector<std::string> TakeLackChanged();
  RoomCounts counts() const;
  // RETURNS: nothing where the flavor is not known, or machines are not looked at.
  std::optional<FlavorFacts> FactsOf(std::string_view flavor, std::string_view resource) const;
  // Changes whenever these may have.
  uint64_t facts_version() const;
  // By resource, as given; as last booked: asking changes nothing. REQUIRES: FactsOf returns something; sizes above 0
  std::vector<FlavorRoom> RoomOf(std::string_view flavor, const std::vector<std::string>& resources,
                                 const std::vector<int64_t>& sizes) const;
  // Questions and reservations that found too little room, of all askers there are.
  uint64_t refusals() const;

  // What the book is made of but nodes and strangers' pods.
  void AddToHash(StateHash* hash) const;
  // Counts the book again from all that is known and held, and aborts on any difference.
  void Validate() const;

 private:
  friend class RoomAsker;
  std::unique_ptr<MachineRoomImpl> impl_;
};

// What the places are for that one gang takes.
enum class Purpose : uint8_t {
  kClaim,
  kMorePods,  // of a claim, which takes them over
  kWaiting,   // for others to leave
};

// What one gang holds on machines, from what takes places (RoomAsker) or Adopt alone; given back when it goes.
class Reservation {
 public:
  Reservation(Reservation&& other) noexcept : room_(other.room_), holding_(other.holding_) { other.holding_ = nullptr; }
  Reservation& operator=(Reservation&& other) noexcept;
  ~Reservation() { Release(); }

  // The gang is to leave, or may stay after all. REQUIRES: of a claim
  void SetLeaving(bool leaving);
  // Pods of it that are on no node and have no place, as last booked.
  int64_t Lacking() const;
  // Pods of it that are on no node, with a place or without, as last booked.
  int64_t Unbound() const;
  // The nodes that its places and its pods are on, as last booked; sorted, each once.
  std::vector<std::string> Nodes() const;
  // So many pods of each pod set are needed yet. REQUIRES: of a claim
  void SetNeeded(const std::vector<std::pair<std::string, int64_t>>& pods);
  // It was for a while only, or is held otherwise from now on: nobody gains by its end.
  void ReleaseQuietly();
  // Likewise; what it was taken for did not come about, and it does not count as taken.
  void Cancel();

 private:
  struct Holding;
  friend class MachineRoomImpl;
  friend class RoomAsker;
  friend class RoomAskerImpl;
  Reservation(MachineRoomImpl* room, Holding* holding) : room_(room), holding_(holding) {}
  void Release();

  MachineRoomImpl* room_;
  Holding* holding_;  // null: nothing is held
};

struct FutureRoom {
  Reservation places;
  int64_t machines = 0;
  WallTime free_at;  // when all who run there will have ended at the latest; unset: nobody knows
};

// Asks a room, and takes what it finds there. What it lifts is out of the way of its own questions alone, so that each
// of several can ask what would be if others had gone.
//
// Threading: needs external synchronisation with its room; while that is shared, its questions (Ask, Fits, Lift,
// PutBack) need none with those of other askers.
class RoomAsker {
 public:
  // REQUIRES: the room outlives it.
  explicit RoomAsker(MachineRoom* room);
  ~RoomAsker();
  RoomAsker(const RoomAsker&) = delete;
  RoomAsker& operator=(const RoomAsker&) = delete;

  bool on() const;
  bool Checks(const std::vector<std::string>& flavors) const;

  // ---- questions
  RoomAnswer Ask(const GangToSeat& gang, RoomView view);
  // The same without saying why not.
  bool Fits(const GangToSeat& gang, RoomView view);
  // For questions and reservations until PutBack: its planned amounts are nobody's.
  void Lift(const Reservation& reservation);
  void PutBack(const Reservation& reservation);
  // The places of a kept room are still there for it, next to everything else; of what is kept of the future, next to
  // what else is kept.
  bool Holds(const Reservation& reservation);

  // ---- what gangs are to hold
  // Takes a place for each pod, in both books, as one change of the book. RETURNS: nothing where not all have one.
  std::optional<Reservation> Reserve(std::string_view workload, const GangToSeat& gang);
  // Likewise in the planned book, if they have places in both, for more pods of a gang that has a claim.
  std::optional<Reservation> ReserveMore(std::string_view workload, const GangToSeat& gang);
  // Likewise in the planned book, for a workload that waits for others to leave.
  std::optional<Reservation> Keep(std::string_view workload, const GangToSeat& gang);
  // Likewise, of what those who run there will leave, whenever that is: next to what is kept for others, on the
  // machines that will be rid of them first, as far as `ends` tells, else with the fewest pods of gangs. More than
  // there is may be taken in the planned book by that, so that nobody else comes there before it has gone down.
  // RETURNS: nothing where not all have a place on machines that are empty but for strangers' pods, or some are to be
  // in a topology; or such room is kept in one of the flavors already.
  std::optional<FutureRoom> KeepFuture(std::string_view workload, const GangToSeat& gang, const GangEnds& ends);

 private:
  std::unique_ptr<RoomAskerImpl> impl_;
};

}  // namespace muster::gang
