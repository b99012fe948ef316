#include "book_editor.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>

namespace muster::gang {

namespace {

int64_t Times(int64_t amount, int64_t pods) {
  int64_t product = 0;
  return __builtin_mul_overflow(amount, pods, &product) ? (pods > 0 ? kMaxAmount : -kMaxAmount) : product;
}

std::vector<int64_t> Columns(const std::vector<int64_t>& old, uint32_t resources) {
  std::vector<int64_t> wide(size_t{resources} * kChunkMachines, 0);
  std::copy(old.begin(), old.end(), wide.begin());
  return wide;
}

constexpr uint64_t kAllStale = ~uint64_t{0};

// The greatest of a column's machines that are open.
int64_t GreatestOf(const int64_t* column, uint64_t open) {
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  if (open == ~uint64_t{0}) {  // the usual case; four at a time, since each maximum waits for the one before
    int64_t greatest[4] = {kLeast, kLeast, kLeast, kLeast};
    for (uint32_t i = 0; i < kChunkMachines; ++i) greatest[i % 4] = std::max(greatest[i % 4], column[i]);
    return std::max(std::max(greatest[0], greatest[1]), std::max(greatest[2], greatest[3]));
  }
  int64_t greatest = kLeast;
  for (; open != 0; open &= open - 1) greatest = std::max(greatest, column[std::countr_zero(open)]);
  return greatest;
}

}  // namespace

void ChunkRoom::Fetch() {
  free_ = chunk_->free.data();
  greatest_ = chunk_->greatest.data();
  open_ = chunk_->block->open;
  has_planned_ = !chunk_->planned.empty();
}

RoomChange ChunkRoom::AddApart(uint32_t slot, uint32_t resource, int64_t free, int64_t planned) {
  if (!has_planned_) {
    chunk_->planned = chunk_->free;
    Fetch();
  }
  const auto add = [](int64_t* room, int64_t more) {
    const int64_t old = *room;
    *room = SaturatingSum(old, more);
    return __int128{*room} - old;
  };
  const size_t at = size_t{resource} * kChunkMachines + slot;
  chunk_->stale |= StaleBit(resource);
  return {add(&chunk_->free[at], free), add(&chunk_->planned[at], planned)};
}

void Summarize(Chunk* chunk) {
  if (chunk->stale == 0) return;
  if (chunk->planned == chunk->free) chunk->planned.clear();
  const uint32_t resources = chunk->resources;
  const uint64_t open = chunk->block->open;
  chunk->greatest.resize(size_t{2} * resources);
  for (uint32_t r = 0; r < resources; ++r) {
    if ((chunk->stale & ChunkRoom::StaleBit(r)) == 0) continue;
    const int64_t* free = chunk->Column(Book::kFree, r);
    const int64_t* planned = chunk->Column(Book::kPlanned, r);
    int64_t both = 0;
    if (free == planned) {
      both = GreatestOf(free, open);
    } else {
      int64_t less[kChunkMachines];
      for (uint32_t i = 0; i < kChunkMachines; ++i) less[i] = std::min(free[i], planned[i]);
      both = GreatestOf(less, open);
    }
    chunk->greatest[r] = both;
    chunk->greatest[resources + r] = free == planned ? both : GreatestOf(planned, open);
  }
  chunk->stale = 0;
}

BookEditor::BookEditor(const BookSnapshot& base, uint64_t now, BookSpares* spares)
    : base_(&base), now_(now), spares_(spares) {}

BookEditor::~BookEditor() {
  if (next_ != nullptr) made_.push_back(GarbageOf(next_.release(), now_));
  for (const Garbage& made : made_) {
    if (spares_ == nullptr || !spares_->Keep(made)) made.destroy(made.object);
  }
}

template <typename T>
T* BookEditor::Own(T* made) {
  made->birth = now_;
  made_.push_back(GarbageOf(made, now_));
  return made;
}

template <typename T>
T* BookEditor::Copy(const T& from) {
  return spares_ == nullptr ? new T(from) : spares_->Copy(from);
}

template <typename T>
void BookEditor::Replace(const T* old) {
  replaced_.push_back(GarbageOf(old, old->birth));
}

BookSnapshot* BookEditor::Next() {
  if (next_ == nullptr) {
    next_.reset(Copy(*base_));
    next_->birth = now_;
  }
  return next_.get();
}

SpineSegment* BookEditor::EditSegment(uint32_t segment) {
  const SpineSegment*& there = Next()->spine.segments[segment];
  if (segment >= base_->spine.segments.size() || there != base_->spine.segments[segment]) {
    return const_cast<SpineSegment*>(there);  // made here
  }
  SpineSegment* copy = Own(Copy(*there));
  edited_segments_.push_back(segment);
  there = copy;
  return copy;
}

Chunk* BookEditor::EditChunk(uint32_t at) {
  const Chunk* there = View().spine[at];
  if (at >= base_->chunks() || there != base_->spine[at]) return const_cast<Chunk*>(there);  // made here
  Replace(there);
  Chunk* chunk = Own(Copy(*there));
  edited_.push_back(at);
  EditSegment(at / kSegmentChunks)->chunks[at % kSegmentChunks] = chunk;
  return chunk;
}

MachineBlock* BookEditor::EditBlock(uint32_t at) {
  depends_on_chunks_alone_ = false;
  Chunk* chunk = EditChunk(at);
  chunk->stale = kAllStale;
  if (at >= base_->chunks() || chunk->block != base_->spine[at]->block) return const_cast<MachineBlock*>(chunk->block);
  Replace(chunk->block);
  MachineBlock* block = Own(new MachineBlock(*chunk->block));
  chunk->block = block;
  return block;
}

void BookEditor::GrowTo(MachineIndex machine) {
  MUSTER_CHECK(machine.value < kMaxMachines);
  BookSnapshot* next = Next();
  while (next->chunks() <= machine.value / kChunkMachines) {
    Chunk* chunk = Own(new Chunk);
    chunk->block = Own(new MachineBlock);
    const uint32_t at = next->spine.chunks++;
    edited_.push_back(at);
    if (at % kSegmentChunks == 0) next->spine.segments.push_back(Own(new SpineSegment));
    EditSegment(at / kSegmentChunks)->chunks[at % kSegmentChunks] = chunk;
  }
}

void BookEditor::Widen(uint32_t at, uint32_t resources) {
  MUSTER_CHECK(resources <= kMaxResources);
  if (View().spine[at]->resources >= resources) return;  // the book has as many as any chunk of it
  depends_on_chunks_alone_ = false;
  BookSnapshot* next = Next();
  if (next->totals.size() < resources) next->totals.resize(resources);
  Chunk* chunk = EditChunk(at);
  MachineBlock* block = EditBlock(at);
  block->capacity = Columns(block->capacity, resources);
  chunk->free = Columns(chunk->free, resources);
  if (!chunk->planned.empty()) chunk->planned = Columns(chunk->planned, resources);
  chunk->resources = resources;
}

void BookEditor::NoteGained(MachineIndex machine, uint32_t resource) {
  if (gained_.empty() || gained_.back() != machine) gained_.push_back(machine);
  if (std::find(gained_resources_.begin(), gained_resources_.end(), resource) == gained_resources_.end()) {
    gained_resources_.push_back(resource);
  }
}

void BookEditor::NoteGained(MachineIndex machine, const Needs& per_pod) {
  if (gained_needs_ == &per_pod) {  // a claim's places have their needs in common
    gained_.push_back(machine);
    return;
  }
  for (const Need& need : per_pod) NoteGained(machine, need.resource.value);
  gained_needs_ = &per_pod;
}

// ---- claims -------------------------------------------------------------------------------------

const Chunk* BookEditor::Find(const MachinePlace& place, const ChunkRoom* at_hand) const {
  const uint32_t at = place.machine.value / kChunkMachines;
  const uint32_t slot = place.machine.value % kChunkMachines;
  if (at_hand == nullptr && at >= View().chunks()) return nullptr;
  const Chunk* chunk = at_hand != nullptr ? at_hand->chunk() : View().spine[at];
  const bool is_there = (chunk->block->present >> slot & 1) != 0;
  return is_there && chunk->block->incarnation[slot] == place.incarnation ? chunk : nullptr;
}

bool BookEditor::Take(ChunkRoom* room, const Needs& per_pod, const MachinePlace& place, int64_t pods, Book books) {
  const Chunk& chunk = *room->chunk();
  const uint32_t slot = place.machine.value % kChunkMachines;
  BookSnapshot::Total* totals = next_->totals.data();
  bool fits = (chunk.block->open >> slot & 1) != 0 && chunk.block->machine_class[slot] == place.machine_class;
  for (const Need& need : per_pod) {
    const uint32_t resource = need.resource.value;
    const int64_t amount = -Times(need.amount, pods);
    const RoomChange change =
        room->Add(slot, resource, Has(books, Book::kFree) ? amount : 0, Has(books, Book::kPlanned) ? amount : 0);
    totals[resource].free += change.free;
    totals[resource].planned += change.planned;
    fits &= chunk.Room(books, resource, slot) >= 0;
  }
  if (pods < 0) NoteGained(place.machine, per_pod);
  return fits;
}

bool BookEditor::Apply(const ClaimStep& step) {
  for (const PodSetPlaces& pod_set : *step.placement) {
    const uint32_t resources = pod_set.per_pod.empty() ? 0 : pod_set.per_pod.back().resource.value + 1;
    std::optional<ChunkRoom> room;  // of the chunk of the place before
    uint32_t chunk_of_room = 0;
    for (const MachinePlace& place : pod_set.places) {
      const uint32_t at = place.machine.value / kChunkMachines;
      const bool at_hand = room.has_value() && at == chunk_of_room;
      if (Find(place, at_hand ? &*room : nullptr) == nullptr) {
        depends_on_chunks_alone_ = false;  // another version may have it
        if (step.must_fit && step.take != Book::kNone) return false;
        continue;
      }
      if (!at_hand) {
        Widen(at, resources);
        room.emplace(EditChunk(at));
        chunk_of_room = at;
      }
      if (step.give != Book::kNone) (void)Take(&*room, pod_set.per_pod, place, -place.pods, step.give);
      if (step.take == Book::kNone) continue;
      const bool fits = Take(&*room, pod_set.per_pod, place, place.pods, step.take);
      if (step.must_fit && !fits) return false;
    }
  }
  return true;
}

// ---- machines -----------------------------------------------------------------------------------

void BookEditor::AddCapacity(MachineIndex machine, MachineResource resource, int64_t delta) {
  if (delta == 0) return;
  const uint32_t at = machine.value / kChunkMachines;
  Widen(at, resource.value + 1);
  int64_t& capacity = EditBlock(at)->capacity[size_t{resource.value} * kChunkMachines + machine.value % kChunkMachines];
  const int64_t changed = std::clamp(ChunkRoom::SaturatingSum(capacity, delta), -kMaxAmount, kMaxAmount);
  const int64_t more = changed - capacity;
  capacity = changed;
  const RoomChange change = ChunkRoom(EditChunk(at)).Add(machine.value % kChunkMachines, resource.value, more, more);
  BookSnapshot::Total& total = next_->totals[resource.value];
  total.free += change.free;
  total.planned += change.planned;
  if (more > 0) NoteGained(machine, resource.value);
}

void BookEditor::Put(const MachineEdit& edit) {
  GrowTo(edit.machine);
  const uint32_t at = edit.machine.value / kChunkMachines;
  const uint32_t slot = edit.machine.value % kChunkMachines;
  const uint64_t bit = uint64_t{1} << slot;
  for (const Need& need : edit.amounts) Widen(at, need.resource.value + 1);
  MachineBlock* block = EditBlock(at);
  const bool appears = (block->present & bit) == 0;
  const bool was_open = (block->open & bit) != 0;
  const bool better = edit.open && (!was_open || block->machine_class[slot] != edit.machine_class);
  if (appears) ++next_->machines;
  block->present |= bit;
  block->open = edit.open ? block->open | bit : block->open & ~bit;
  block->machine_class[slot] = edit.machine_class;
  const uint32_t resources = next_->spine[at]->resources;
  for (uint32_t r = 0; r < resources; ++r) {
    int64_t wanted = 0;
    for (const Need& need : edit.amounts) {
      if (need.resource.value == r) wanted = std::clamp(need.amount, int64_t{0}, kMaxAmount);
    }
    AddCapacity(edit.machine, {r}, wanted - block->capacity[size_t{r} * kChunkMachines + slot]);
    // Pods that could not go there before can now, whatever they ask for.
    if (better) gained_resources_.push_back(r);
  }
  if (better) gained_.push_back(edit.machine);
}

void BookEditor::Adjust(const MachineEdit& edit) {
  if (!View().Contains(edit.machine)) return;
  for (const Need& need : edit.amounts) {
    AddCapacity(edit.machine, need.resource, std::clamp(need.amount, -kMaxAmount, kMaxAmount));
  }
}

void BookEditor::Remove(MachineIndex machine) {
  if (!View().Contains(machine)) return;
  const uint32_t at = machine.value / kChunkMachines;
  const uint32_t slot = machine.value % kChunkMachines;
  MachineBlock* block = EditBlock(at);
  Chunk* chunk = EditChunk(at);
  block->present &= ~(uint64_t{1} << slot);
  block->open &= ~(uint64_t{1} << slot);
  ++block->incarnation[slot];
  block->machine_class[slot] = {};
  --next_->machines;
  for (uint32_t r = 0; r < chunk->resources; ++r) {
    const size_t column = size_t{r} * kChunkMachines + slot;
    next_->totals[r].free -= chunk->free[column];
    next_->totals[r].planned -= chunk->Room(Book::kPlanned, r, slot);
    block->capacity[column] = 0;
    chunk->free[column] = 0;
    if (!chunk->planned.empty()) chunk->planned[column] = 0;
  }
}

void BookEditor::Apply(const MachineEdit& edit) {
  depends_on_chunks_alone_ = false;
  switch (edit.kind) {
    case MachineEdit::Kind::kPut:
      return Put(edit);
    case MachineEdit::Kind::kAdjust:
      return Adjust(edit);
    case MachineEdit::Kind::kRemove:
      return Remove(edit.machine);
  }
}

// ---- versions -----------------------------------------------------------------------------------

uint64_t BookEditor::EndOperation() {
  const uint64_t version = ++Next()->version;
  for (const uint32_t r : gained_resources_) next_->totals[r].gained_at = version;
  gained_resources_.clear();
  gained_needs_ = nullptr;
  return version;
}

void BookEditor::AddOutcome(std::unique_ptr<const HelpedOutcome> outcome) {
  depends_on_chunks_alone_ = false;
  made_.push_back(GarbageOf(outcome.get(), outcome->birth));
  Next()->outcomes.push_back(outcome.release());
}

void BookEditor::DropOutcome(const HelpedOutcome* outcome) {
  depends_on_chunks_alone_ = false;
  auto& outcomes = Next()->outcomes;
  outcomes.erase(std::find(outcomes.begin(), outcomes.end(), outcome));
  Replace(outcome);
}

const BookSnapshot& BookEditor::Current() {
  if (next_ == nullptr) return *base_;
  for (const uint32_t at : edited_) {
    auto* chunk = const_cast<Chunk*>(next_->spine[at]);
    if (at >= base_->chunks() || chunk->block != base_->spine[at]->block) {
      auto* block = const_cast<MachineBlock*>(chunk->block);
      block->classes = 0;
      for (uint64_t open = block->open; open != 0; open &= open - 1) {
        block->classes |= uint64_t{1} << (block->machine_class[static_cast<size_t>(std::countr_zero(open))].value % 64);
      }
    }
    Summarize(chunk);
  }
  return *next_;
}

bool BookEditor::Rebase(const BookSnapshot& root) {
  MUSTER_CHECK(changed());
  if (!depends_on_chunks_alone_) return false;
  for (const uint32_t at : edited_) {
    if (root.spine[at] != base_->spine[at]) return false;  // chunks are never fewer
  }
  const BookSnapshot& old = *base_;
  for (const uint32_t segment : edited_segments_) {
    const auto& before = old.spine.segments[segment]->chunks;
    const auto& now = root.spine.segments[segment]->chunks;
    auto& mine = const_cast<SpineSegment*>(next_->spine.segments[segment])->chunks;
    for (uint32_t i = 0; i < kSegmentChunks; ++i) {
      if (mine[i] == before[i]) mine[i] = now[i];
    }
  }
  for (size_t i = 0; i < old.spine.segments.size(); ++i) {
    if (next_->spine.segments[i] == old.spine.segments[i]) next_->spine.segments[i] = root.spine.segments[i];
  }
  for (size_t i = old.spine.segments.size(); i < root.spine.segments.size(); ++i) {
    next_->spine.segments.push_back(root.spine.segments[i]);
  }
  next_->spine.chunks = root.spine.chunks;
  next_->machines = root.machines;
  next_->outcomes = root.outcomes;
  next_->version = root.version + (next_->version - old.version);
  next_->totals.resize(root.totals.size());
  for (size_t r = 0; r < root.totals.size(); ++r) {
    BookSnapshot::Total& mine = next_->totals[r];
    const BookSnapshot::Total before = r < old.totals.size() ? old.totals[r] : BookSnapshot::Total{};
    const BookSnapshot::Total& now = root.totals[r];
    mine.free = now.free + (mine.free - before.free);
    mine.planned = now.planned + (mine.planned - before.planned);
    mine.gained_at = mine.gained_at != before.gained_at ? next_->version : now.gained_at;
  }
  base_ = &root;
  return true;
}

absl::InlinedVector<Garbage, 8> BookEditor::Published() {
  (void)next_.release();
  made_.clear();
  for (const uint32_t segment : edited_segments_) Replace(base_->spine.segments[segment]);
  Replace(base_);
  return std::move(replaced_);
}

}  // namespace muster::gang
