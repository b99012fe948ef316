// The state behind MachineRoom.
//
// Threading: as MachineRoom.
#pragma once

#include <absl/container/btree_map.h>
#include <absl/container/btree_set.h>

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "book_editor.h"
#include "muster/core/check.h"
#include "muster/gang/machine_book.h"
#include "muster/gang/machine_room.h"

namespace muster::gang {

// What one gang holds, by pod set.
struct Reservation::Holding {
  struct Part {
    PodSetToSeat pods;  // as many as are needed
    Needs needs;        // of one
    std::vector<MachinePlace> places;
    std::vector<MachinePlace> vacated;  // where pods of it were that have gone
    int64_t missing = 0;                // that have neither a place nor a node
  };
  std::string workload;
  Purpose purpose = Purpose::kClaim;
  bool future = false;  // of what others will leave; REQUIRES: it waits for that
  bool leaving = false;
  Book books = Book::kBoth;  // that its places are held in
  std::vector<Part> parts;

  bool is_claim() const { return purpose == Purpose::kClaim; }
};

struct NodeRecord {
  Node node;
  bool known = false;
  std::optional<MachineIndex> machine;  // while the book has it
  MachineClass machine_class;
  absl::btree_map<MachineResource, Amount> strangers;  // pod slots among them
  absl::btree_set<std::string> pods;                   // of gangs, by key
};

struct PodRecord {
  BoundPod pod;
  Needs needs;
  bool left_over = false;  // of a claim before the present one
  MachinePlace place;      // while it holds something
  Book books = Book::kNone;
};

struct ClassRecord {
  Labels labels;
  std::vector<Taint> taints;
  std::string name;  // of the one node, where names matter
};
bool operator<(const ClassRecord& a, const ClassRecord& b);

struct FlavorRecord {
  FlavorMachines machines;
  // Of the nodes that have its labels.
  int64_t nodes = 0;
  std::map<std::string, __int128, std::less<>> allocatable;
  ShapePtr tolerant;  // a pod that asks for nothing, and tolerates the flavor's taints
};

// Moves of amounts that are facts, as few steps as there are kinds of them.
class StepBatch {
 public:
  void Add(const Needs& needs, const MachinePlace& place, Book take, Book give);
  void AddTo(std::vector<ClaimStep>* steps) const;
  bool empty() const { return moves_.empty(); }
  void Clear() { moves_.clear(); }
  template <typename F>
  void ForEach(F visit) const {
    for (const auto& [books, placement] : moves_) {
      for (const PodSetPlaces& pods : placement) {
        for (const MachinePlace& place : pods.places) visit(pods.per_pod, place, books.first, books.second);
      }
    }
  }

 private:
  std::map<std::pair<Book, Book>, GangPlacement> moves_;  // by what is taken, given
};

// A book that nobody else sees.
struct SomeBook {
  std::deque<Chunk> chunks;
  std::deque<MachineBlock> blocks;
  OwnSpine spine;
  BookSnapshot book;
};

class RoomAskerImpl;

class MachineRoomImpl {
 public:
  using Holding = Reservation::Holding;

  explicit MachineRoomImpl(bool on);
  ~MachineRoomImpl();

  bool on() const { return on_; }

  // ---- what there is (machine_room.cpp)
  void SetNode(const Node& node);
  void RemoveNode(std::string_view name);
  void SetPod(const std::string& key, const BoundPod& pod);
  void RemovePod(const std::string& key);
  void SetFlavor(const std::string& name, FlavorMachines flavor);
  void RemoveFlavor(std::string_view name);
  bool Checks(const std::vector<std::string>& flavors) const;
  void Announce(const Shape& shape);
  void Share(bool shared);
  std::vector<std::string> TakeGained();
  std::vector<std::string> TakeLackChanged();
  RoomCounts counts() const;

  // ---- what is seen of it (machine_room_view.cpp)
  std::optional<FlavorFacts> FactsOf(std::string_view flavor, std::string_view resource) const;
  uint64_t facts_version() const { return facts_version_; }
  std::vector<FlavorRoom> RoomOf(std::string_view flavor, const std::vector<std::string>& resources,
                                 const std::vector<int64_t>& sizes);

  // ---- what gangs hold (machine_room_claims.cpp)
  uint64_t refusals() const;
  Reservation Adopt(std::string_view workload, const GangToSeat& gang);
  void Release(Holding* holding, bool quiet);
  // How many were taken for that.
  uint64_t& Taken(Purpose purpose) { return purpose == Purpose::kWaiting ? taken_.kept : taken_.reservations; }
  void SetLeaving(Holding* holding, bool leaving);
  void SetLeftOver(const std::string& workload, bool left_over);
  std::vector<std::string> NodesOf(const Holding& holding) const;
  void SetNeeded(Holding* holding, const std::vector<std::pair<std::string, int64_t>>& pods);
  void AddToHash(StateHash* hash) const;
  void Validate() const;

 private:
  friend class RoomAskerImpl;

  // As far as somebody might gain by it.
  struct MachineState {
    bool open = false;
    MachineClass machine_class;
    std::vector<int64_t> room;  // by resource: what is free, and what of that is for anybody
  };
  // What gangs have on a machine.
  struct Occupants {
    MachineIndex machine;
    WallTime end;  // when they will have ended; the last time there is: nobody knows
    int64_t pods = 0;
  };

  // ---- names
  MachineResource Resource(std::string_view name);
  const std::string& NameOf(MachineResource resource) const;
  Needs NeedsOf(const std::map<std::string, Amount, std::less<>>& requests);
  NodeRecord* FindNode(std::string_view name);
  void NoteAllClaims();

  // ---- nodes and pods
  void CountNode(const Node& node, int64_t sign);
  // Counts what flavors have again, and aborts on any difference.
  void ValidateFacts() const;
  void CountStranger(const PodRecord& pod, int64_t sign);
  void DropIfUnused(const std::string& name);
  // After a change of which flavors are checked.
  void ChecksChanged(bool had_nodes);
  bool HasNodes() const;
  void NoteUids(const NodeRecord& node);

  // ---- classes
  void Mention(const GangToSeat& gang);
  void Mention(const Shape& shape);
  void Mention(const std::string& label);
  ClassRecord ClassOf(const Node& node) const;
  void SetClass(NodeRecord* node);
  // Nothing: machines of the class would do, if they are open and have room.
  std::optional<RoomLack> LackOf(const ClassRecord& machine_class, const Shape& shape,
                                 const std::vector<std::string>& flavors) const;
  // REQUIRES: no machine that is open would do
  RoomLack WhyNoMachine(const PodSetToSeat& pods) const;

  // ---- the book
  // Books what was told of since the last time.
  void Flush();
  std::vector<MachineEdit> EditsOf(const std::set<std::string>& nodes);
  MachineIndex NewMachine(const std::string& name);
  // Less what strangers take.
  std::vector<Need> CapacityOf(const NodeRecord& node) const;
  static MachineState StateOf(const BookSnapshot& book, MachineIndex machine);
  // `quiet`: nobody gains by it. RETURNS: false where a step that must fit does not.
  bool Change(std::span<const MachineEdit> edits, std::span<const ClaimStep> steps, bool quiet);
  const BookSnapshot& Root() { return user_.Read(); }

  // ---- what others will leave (machine_room_future.cpp)
  // The machines that are open, those first whose occupants go first.
  std::vector<Occupants> MachinesByEnd(const GangEnds& ends) const;
  // Strangers' pods and what is kept count as there, but for `except`; of the machines, the first `count` as open.
  std::unique_ptr<SomeBook> EmptyButKept(const std::vector<Occupants>& machines, size_t count, const Holding* except);
  bool KeepsFutureIn(const GangToSeat& gang) const;

  // ---- what gangs hold
  // Calls visit(needs, place, books) for each place of it, and for what its pods hold.
  template <typename F>
  void ForEachHeld(const Holding& holding, F visit) const;
  std::unique_ptr<Holding> MakeHolding(std::string_view workload, const GangToSeat& gang, Purpose purpose);
  Reservation Register(std::unique_ptr<Holding> holding);
  void Reconcile(const std::string& workload, StepBatch* steps);
  // RETURNS: the machines of pods that have come to hold something.
  std::vector<MachineIndex> ReconcilePods(const std::string& workload, const Holding* claim, StepBatch* steps);
  // `books`: in which its places are to be held.
  void ReconcilePart(const Holding& claim, const std::vector<MachineIndex>& bound, Book books, Holding::Part* part,
                     StepBatch* steps);
  // Takes away the places on those machines that nobody can use any more. RETURNS: whose they were.
  std::set<std::string> VoidPlaces(const std::set<uint32_t>& machines);
  // Of the place, those that the machine would not take. REQUIRES: it is there
  int64_t PodsWithoutRoom(const Holding::Part& part, const MachinePlace& place);
  // Gives those places that lack some.
  void SeatMissing(Holding* claim);
  // The domains of the pod set, less its pods that have a place in them, or run there. REQUIRES: it has a topology.
  TopologyAssignment LeftInDomains(const Holding& claim, const Holding::Part& part) const;
  void SetLacks(const std::string& workload, bool lacks);
  int64_t BoundPods(const Holding& claim, const std::string& pod_set) const;
  static bool IsThere(const BookSnapshot& book, const MachinePlace& place);

  const bool on_;
  MachineBook book_;
  mutable MachineBook::User user_;
  std::map<std::string, MachineResource, std::less<>> resource_ids_;
  std::vector<std::string> resource_names_;
  std::map<std::string, NodeRecord, std::less<>> nodes_;
  std::vector<std::string> machine_names_;  // by index
  std::set<uint32_t> free_machines_;
  std::map<std::string, PodRecord> pods_;                               // by key
  absl::btree_map<std::string, absl::btree_set<std::string>> pods_of_;  // by uid, of gangs
  std::map<std::string, FlavorRecord, std::less<>> flavors_;

  std::set<std::string, std::less<>> mentioned_;  // label keys that selectors and flavors look at
  bool names_matter_ = false;
  std::map<ClassRecord, MachineClass> class_ids_;
  std::vector<const ClassRecord*> classes_;  // by id; null: free
  std::map<uint32_t, int64_t> machines_of_class_;
  uint64_t classes_version_ = 1;

  absl::btree_map<std::string, std::unique_ptr<Holding>> claims_;
  std::map<const Holding*, std::unique_ptr<Holding>> kept_;
  std::set<std::string> missing_;       // uids of claims that lack places
  std::set<std::string> lack_changed_;  // of those that do and did not, or the other way round, as last asked for
  std::set<uint32_t> suspects_;         // machines that may have places which nobody can use

  // What is not booked yet.
  std::set<std::string> dirty_nodes_;
  std::set<std::string> relabeled_nodes_;  // of another class, since more labels matter than before
  std::set<std::string> dirty_workloads_;
  StepBatch given_;

  std::set<uint32_t> gained_;
  uint64_t gains_ = 0;  // ever
  bool all_gained_ = false;
  uint64_t capacity_version_ = 1;
  uint64_t facts_version_ = 1;
  RoomCounts taken_;

  bool shared_ = false;
  std::vector<RoomAskerImpl*> askers_;
  const std::unique_ptr<RoomAskerImpl> own_;  // of what follows from events; it lifts nothing
};

}  // namespace muster::gang
