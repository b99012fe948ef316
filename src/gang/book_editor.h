// Makes the next version of the book out of one: copies what it touches, and nothing else.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "muster/core/epoch.h"
#include "muster/gang/book_snapshot.h"
#include "muster/gang/machine_book.h"

namespace muster::gang {

// Sets `greatest`; lets `planned` go where it is equal to `free`.
void Summarize(Chunk* chunk);

class BookEditor {
 public:
  // `now`: the era that what is made here is born in. `base` must stay for as long as this.
  BookEditor(const BookSnapshot& base, uint64_t now);
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
  bool changed() const { return next_ != nullptr && next_->version != base_.version; }
  // Machines with more room than in the base, in some resource and book. May name one twice.
  const std::vector<MachineIndex>& gained() const { return gained_; }

  // Others can reach it: it is not ours to free any more. RETURNS: what the base has and it has not, the base itself
  // included. REQUIRES: the base is still pinned.
  std::vector<Garbage> Published();

 private:
  const BookSnapshot& View() const { return next_ != nullptr ? *next_ : base_; }
  BookSnapshot* Next();
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

  const BookSnapshot& base_;
  const uint64_t now_;
  std::unique_ptr<BookSnapshot> next_;
  std::vector<uint32_t> edited_;  // chunks that are ours
  std::vector<Garbage> made_;
  std::vector<Garbage> replaced_;
  std::vector<MachineIndex> gained_;
  std::vector<uint32_t> gained_resources_;  // of the operation at hand
};

}  // namespace muster::gang
