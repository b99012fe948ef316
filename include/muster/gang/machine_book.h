// The room of all machines, shared by every decider and reader without a lock.
//
// A gang starts only where each of its pods has a place: Place searches and reserves as one operation, and its *no* is
// as exact as its *yes*. A placement that some other algorithm has found on a snapshot (topology, another packing) is
// made true by Reserve, which checks it against the present book: all of it is taken, or nothing is. After kConflict
// the algorithm looks again on a newer snapshot; whether it does, and how often, is its own affair.
//
// Protocol. One atomic root points to an immutable snapshot (book_snapshot.h). A change copies the chunks that it
// touches and the way to them from the root, and swaps the root by compare-and-swap; if that fails, somebody else's
// change succeeded. If that has left the very chunks alone that this one read and changed, its own stand as they are,
// and only the way to them is made anew; else the work is checked again on what is there now. Readers pin a snapshot
// (core/epoch.h) and wait for nobody.
//   Starvation: an operation that has lost `patience` races is published, and each committer carries out what is
//   published before its own, so it is done after one more commit of each other user at most. What it came to is kept
//   in the book as a HelpedOutcome until its owner has withdrawn the operation, which makes it happen once: whoever
//   finds it published, on a root without its outcome, and swaps that very root, is the first to do it.
//   Waiting: parking_lot.h.
//
// Linearization points.
//   yes, a change, kConflict found together with others' operations   the successful compare-and-swap of the root
//   no, kNotFound, kConflict                                          the load of the root that it was found on
//   Read                                                              the load of the root
//   a published operation                                             the swap by whoever carried it out
// Each change gets a version of its own, and versions are that order: replaying the changes by version gives the same
// book. A commit that carries others' operations along takes several versions at once.
//
// Progress. Everything is lock-free: a step of a swap fails only because another one has succeeded, so a thread that
// stops for ever, at any step, keeps nobody from completing. What it had published is carried out by others; what it
// had not stays undone. A published operation takes part in a bounded number of commits; only the pinning of a root
// may repeat more often. Memory that a stopped thread holds back: see core/epoch.h; here one snapshot for each pin,
// which is 64 bytes a machine for two resources and the planned amounts as much again.
//
// Memory orders. The root is swapped and loaded sequentially consistently: pins and parking both rest on "either you
// see mine or I see yours" between two locations. The same holds for what is published and how much of it. All else
// follows from acquire and release on the root: a snapshot is complete before it is swapped in.
//
// Which book: a gang that starts takes from both. A victim gives back the planned amount when it is told to leave
// (Leave), and the free one when its pods are gone (Release). Who preempts plans first (books = kPlanned), then starts
// (Start) once the room is free. So room that is promised cannot be taken by somebody else, whoever decides.
//
// Why not cells that are changed in place, with roll-back: overlapping reservers could void each other for ever, and
// a reader would see amounts that nobody was ever given.
//
// Sources: Treiber (1986) and Herlihy, "A methodology for implementing highly concurrent data objects" (1993), for one
// root and compare-and-swap; Herlihy, "Wait-free synchronization" (1991), and Fatourou and Kallimanis, "A highly-
// efficient wait-free universal construction" (SPAA 2011), for published operations; Schwarzkopf et al., "Omega"
// (EuroSys 2013), for deciders that share one state optimistically.
//
// Threading: MachineBook is safe for concurrent use; a User is used by one thread at a time. Users must be gone before
// the book.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "muster/core/atomics.h"
#include "muster/core/epoch.h"
#include "muster/gang/book_snapshot.h"
#include "muster/gang/machine_search.h"
#include "muster/gang/parking_lot.h"

namespace muster::gang {

// What one gang holds. Its decider keeps it.
struct Claim {
  GangPlacement placement;
  Book held = Book::kNone;
};

// One claim's move. Amounts on a machine that was removed since, or is another one by now, are left out.
struct ClaimStep {
  const GangPlacement* placement = nullptr;
  Book take = Book::kNone;
  Book give = Book::kNone;
  // Not booked at all unless the machines are there and what is taken is free. Without it, amounts may go below zero:
  // pods that run are a fact.
  bool must_fit = false;
};

struct MachineEdit {
  enum class Kind : uint8_t {
    kPut,     // it is there, with this class and these amounts as its capacity; what is taken of it stays taken
    kAdjust,  // so much more capacity, or less; nothing if it is not there
    kRemove,  // it is gone; places on it are worth nothing, also if one of the same index comes later
  };
  Kind kind = Kind::kPut;
  MachineIndex machine;  // REQUIRES: below kMaxMachines
  MachineClass machine_class;
  bool open = true;           // takes new pods (not cordoned, ready)
  std::vector<Need> amounts;  // each resource once, below kMaxResources; pod slots among them
};

struct Outcome {
  enum class Verdict : uint8_t {
    kDone,
    kConflict,    // Reserve, Start: it does not fit (any more)
    kDoesNotFit,  // Place: proven
    kNotFound,    // Place: the search ran out of steps
  };
  Verdict verdict = Verdict::kDone;
  // Where it stands in the order of all: of a change its own version, of anything else the one it was found on.
  uint64_t version = 0;
  int64_t placed = 0;       // Place: pods that do have a place
  GangPlacement placement;  // of what others have done for its owner, who gets it as its claim's
  bool done() const { return verdict == Verdict::kDone; }
};

// What is to be done, by its owner or by whoever is first.
struct BookOperation {
  std::span<const MachineEdit> edits;
  std::span<const ClaimStep> steps;      // all of those that must fit, or none of any
  const GangRequest* request = nullptr;  // Place: then neither edits nor steps
};

struct HelpedOutcome {
  uint64_t birth = 0;
  const void* user = nullptr;
  uint64_t sequence = 0;
  Outcome outcome;
};

// An operation with all that it refers to, since its owner may be gone from the stack while others still read it.
struct PublishedOperation {
  PublishedOperation(const BookOperation& operation, uint64_t born, uint64_t number);
  BookOperation View() const { return {edits, steps, has_request ? &request : nullptr}; }

  uint64_t birth;
  uint64_t sequence;
  std::vector<MachineEdit> edits;
  std::vector<GangPlacement> placements;
  std::vector<ClaimStep> steps;
  GangRequest request;
  bool has_request;
};

struct MachineBookOptions {
  // Lost races after which an operation is published. Publishing costs an allocation, and every committer a look.
  uint32_t patience = 8;
  // Objects that a user gathers before it looks what may be freed.
  uint32_t scan_batch = 64;
  // Objects of each kind that a user keeps to make the next versions of, instead of freeing them.
  uint32_t spares = 64;
};

class BookEditor;
class BookSpares;

template <typename Atomics>
class BasicMachineBook {
  template <typename T>
  using Atomic = typename Atomics::template Atomic<T>;
  // What a user shows to the others.
  struct Shown {
    Atomic<PublishedOperation*> published{nullptr};
    uint64_t sequence = 0;  // its owner's
  };
  using Domain = EpochDomain<Atomics, Shown>;
  using Participant = typename Domain::Participant;

 public:
  explicit BasicMachineBook(MachineBookOptions options = {});
  BasicMachineBook(const BasicMachineBook&) = delete;
  BasicMachineBook& operator=(const BasicMachineBook&) = delete;
  ~BasicMachineBook();

  // One strand's or thread's access.
  class User {
   public:
    explicit User(BasicMachineBook* book);
    User(const User&) = delete;
    User& operator=(const User&) = delete;
    ~User();

    // RETURNS: the present snapshot, good until the next Read or EndRead of this user.
    const BookSnapshot& Read();
    void EndRead();

    // Finds places for all pods and takes them. ON FAILURE: nothing is taken, `claim` is as it was.
    // REQUIRES: the claim holds nothing.
    Outcome Place(const GangRequest& request, Claim* claim);
    // Takes what was found on some snapshot, from `books`. ON FAILURE (kConflict): as above. REQUIRES: as above.
    Outcome Reserve(GangPlacement placement, Book books, Claim* claim);
    // Takes the free amounts of what was planned. ON FAILURE (kConflict): still planned.
    Outcome Start(Claim* claim);
    // Books what is a fact, in both books, whatever there is. REQUIRES: as above.
    Outcome Occupy(GangPlacement placement, Claim* claim);
    // The claim will be released: its planned amounts are given back.
    Outcome Leave(Claim* claim);
    // Gives everything back.
    Outcome Release(Claim* claim);
    // Edits, in their order, as one change.
    Outcome Edit(std::span<const MachineEdit> edits);
    // Edits, then steps, as one change; all of it or, if a step that must fit does not, nothing.
    Outcome Apply(std::span<const MachineEdit> edits, std::span<const ClaimStep> steps);

    // Lets somebody be woken when a gang might fit that did not at `searched`. RETURNS: null if room was gained since,
    // so that it is to look again instead of sleeping. The ticket is to be given back, woken or not.
    std::unique_ptr<ParkingTicket> Park(Waiter waiter, uint64_t searched);
    void Unpark(std::unique_ptr<ParkingTicket> ticket);

    // What this user has done so far.
    struct Counts {
      uint64_t commits = 0;
      uint64_t lost_races = 0;
      uint64_t rebased = 0;  // of those, after which all that was read and changed was as before
      uint64_t searches = 0;
      uint64_t published = 0;
    };
    const Counts& counts() const { return counts_; }
    // Objects that wait to be freed.
    size_t unfreed() const { return participant_.unfreed(); }

   private:
    Outcome Run(const BookOperation& operation);
    Outcome RunPublished(const BookOperation& operation);
    Outcome Move(Claim* claim, Book take, Book give, bool must_fit);
    void Help(BookEditor* editor, const BookSnapshot& root);
    Outcome Carry(const BookOperation& operation, BookEditor* editor, const GangPlacement& hint);
    bool CommitRebased(BookEditor* editor, uint32_t* lost, uint64_t* version);
    bool Commit(const BookSnapshot* root, size_t pin, size_t other_pin, BookEditor* editor);

    BasicMachineBook* book_;
    Participant participant_;
    std::unique_ptr<BookSpares> spares_;
    Counts counts_;
  };

 private:
  static constexpr size_t kReadPin = 0;
  static constexpr size_t kUpdatePin = 1;
  static constexpr size_t kOtherPin = 2;  // published operations, waiters
  static constexpr size_t kNextPin = 3;   // the root after a commit, or after a lost race

  const MachineBookOptions options_;
  Domain domain_;
  // Apart from what is written more often.
  alignas(128) Atomic<const BookSnapshot*> root_;
  alignas(128) Atomic<uint32_t> published_{0};  // how many users have something published
  ParkingLot<Atomics, Participant> lot_;
};

extern template class BasicMachineBook<StdAtomics>;
using MachineBook = BasicMachineBook<StdAtomics>;

}  // namespace muster::gang
