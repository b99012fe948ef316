// Makes the next version of the book out of one: copies what it touches, and nothing else.
#pragma once

#include <absl/container/inlined_vector.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <span>

#include "book_spares.h"
#include "muster/core/epoch.h"
#include "muster/gang/book_snapshot.h"
#include "muster/gang/machine_book.h"

namespace muster::gang {

// How much a machine's room changed.
struct RoomChange {
  __int128 free = 0;
  __int128 planned = 0;
};

// A chunk while its room is changed. The chunk gets no more resources meanwhile.
class ChunkRoom {
 public:
  explicit ChunkRoom(Chunk* chunk) : chunk_(chunk) { Fetch(); }
  Chunk* chunk() const { return chunk_; }

  // Adds to what there is of one resource on the machine in `slot`, and keeps `greatest` right, or says in `stale` that
  // it is not.
  RoomChange Add(uint32_t slot, uint32_t resource, int64_t free, int64_t planned) {
    if (has_planned_ || free != planned) return AddApart(slot, resource, free, planned);
    int64_t& room = free_[size_t{resource} * kChunkMachines + slot];
    const int64_t old = room;
    const int64_t now = SaturatingSum(old, free);
    room = now;
    if ((chunk_->stale & StaleBit(resource)) == 0 && (open_ >> slot & 1) != 0) {
      if (now >= greatest_[resource]) {
        greatest_[resource] = greatest_[chunk_->resources + resource] = now;
      } else if (old == greatest_[resource]) {
        chunk_->stale |= StaleBit(resource);
      }
    }
    const __int128 change = __int128{now} - old;
    return {change, change};
  }

  static uint64_t StaleBit(uint32_t resource) { return uint64_t{1} << (resource < 63 ? resource : 63); }
  static int64_t SaturatingSum(int64_t a, int64_t b) {
    int64_t sum = 0;
    if (!__builtin_add_overflow(a, b, &sum)) return sum;
    return b > 0 ? std::numeric_limits<int64_t>::max() : std::numeric_limits<int64_t>::min();
  }

 private:
  void Fetch();
  RoomChange AddApart(uint32_t slot, uint32_t resource, int64_t free, int64_t planned);

  Chunk* chunk_;
  // The chunk's own, looked up once.
  int64_t* free_ = nullptr;
  int64_t* greatest_ = nullptr;
  uint64_t open_ = 0;
  bool has_planned_ = false;
};

// Finds what is stale of `greatest`; lets `planned` go where it is equal to `free`.
void Summarize(Chunk* chunk);

class BookEditor {
 public:
  // `now`: the era that what is made here is born in. `base` must stay for as long as this, or until Rebase.
  // `spares`: what copies are made of, and where those go that are not published; null: neither.
  BookEditor(const BookSnapshot& base, uint64_t now, BookSpares* spares = nullptr);
  BookEditor(const BookEditor&) = delete;
  BookEditor& operator=(const BookEditor&) = delete;
  // What was not published goes.
  ~BookEditor();

  // RETURNS: whether it fits. If not, this is spoiled: a part may be done.
  [[nodiscard]] bool Apply(const ClaimStep& step);
  void Apply(const MachineEdit& edit);
  // Ends one operation. RETURNS: its version.
  uint64_t EndOperation();
  void AddOutcome(std::unique_ptr<const HelpedOutcome> outcome);
  void DropOutcome(const HelpedOutcome* outcome);

  // As it is so far, to be searched.
  const BookSnapshot& Current();
  uint64_t version() const { return View().version; }
  // Some operation was ended here.
  bool changed() const { return next_ != nullptr && next_->version != base_->version; }
  // Machines with more room than in the base, in some resource and book. May name one twice.
  std::span<const MachineIndex> gained() const { return gained_; }

  // Somebody else's version has come in between. If it has left alone all that was read and changed here, this becomes
  // what the same operation would have made of that version. RETURNS: whether it did. REQUIRES: one operation was ended
  // here.
  [[nodiscard]] bool Rebase(const BookSnapshot& root);

  // Others can reach it: it is not ours to free any more. RETURNS: what the base has and it has not, the base itself
  // included. REQUIRES: the base is still pinned.
  absl::InlinedVector<Garbage, 8> Published();

 private:
  const BookSnapshot& View() const { return next_ != nullptr ? *next_ : *base_; }
  BookSnapshot* Next();
  template <typename T>
  T* Copy(const T& from);
  SpineSegment* EditSegment(uint32_t segment);
  Chunk* EditChunk(uint32_t at);
  MachineBlock* EditBlock(uint32_t at);
  template <typename T>
  T* Own(T* made);
  template <typename T>
  void Replace(const T* old);
  void GrowTo(MachineIndex machine);
  void Widen(uint32_t at, uint32_t resources);
  void Put(const MachineEdit& edit);
  void Adjust(const MachineEdit& edit);
  void Remove(MachineIndex machine);
  void AddCapacity(MachineIndex machine, MachineResource resource, int64_t delta);
  // Where the place is. Null if its machine is not there, or another one by now.
  const Chunk* Find(const MachinePlace& place, const ChunkRoom* at_hand) const;
  // Books so much less to be free (negative: more). RETURNS: whether what is taken was there, on a machine that takes
  // new pods.
  bool Take(ChunkRoom* room, const Needs& per_pod, const MachinePlace& place, int64_t pods, Book books);
  void NoteGained(MachineIndex machine, const Needs& per_pod);
  void NoteGained(MachineIndex machine, uint32_t resource);

  const BookSnapshot* base_;
  const uint64_t now_;
  BookSpares* const spares_;
  std::unique_ptr<BookSnapshot> next_;
  absl::InlinedVector<uint32_t, 8> edited_;           // chunks that are ours
  absl::InlinedVector<uint32_t, 8> edited_segments_;  // likewise, if the base has them
  absl::InlinedVector<Garbage, 8> made_;
  absl::InlinedVector<Garbage, 8> replaced_;  // but for segments and the base
  // What was done depends on the chunks that are ours and on nothing else.
  bool depends_on_chunks_alone_ = true;
  absl::InlinedVector<MachineIndex, 16> gained_;
  absl::InlinedVector<uint32_t, 8> gained_resources_;  // of the operation at hand
  const Needs* gained_needs_ = nullptr;                // whose resources were added last
};

}  // namespace muster::gang
