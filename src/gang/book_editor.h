// Makes the next version of the book out of one: copies what it touches, and nothing else.
#pragma once

#include <absl/container/inlined_vector.h>

#include <cstdint>
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

// Adds to what there is of one resource on the machine in `slot`, and keeps `greatest` right, or says in `stale` that
// it is not.
RoomChange AddRoom(Chunk* chunk, uint32_t slot, uint32_t resource, int64_t free, int64_t planned);

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
  // Books so much less to be free (negative: more). RETURNS: whether what is taken was there, on a machine that takes
  // new pods.
  bool Take(const Needs& per_pod, const MachinePlace& place, int64_t pods, Book books);
  void Count(Chunk* chunk, MachineIndex machine, uint32_t resource, int64_t free, int64_t planned);

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
};

}  // namespace muster::gang
