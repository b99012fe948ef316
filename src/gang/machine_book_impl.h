// The protocol of machine_book.h, for whichever atomics.
#pragma once

#include <algorithm>
#include <utility>

#include "book_editor.h"
#include "muster/gang/machine_book.h"
#include "parking_lot_impl.h"

namespace muster::gang {

// Does it to the editor. RETURNS: what it came to. If that is a kConflict, the editor is spoiled.
// `hint`: the placement that a former try found, tried first; empty: none.
Outcome Perform(const BookOperation& operation, const GangPlacement& hint, BookEditor* editor, uint64_t* searches);

// Frees a snapshot with all that only it holds: at the end of the book.
void DestroyAll(const BookSnapshot* book);

const HelpedOutcome* FindOutcome(const BookSnapshot& book, const void* user);

template <typename Atomics>
BasicMachineBook<Atomics>::BasicMachineBook(MachineBookOptions options)
    : options_(options), domain_(options.scan_batch), root_(new BookSnapshot) {}

template <typename Atomics>
BasicMachineBook<Atomics>::~BasicMachineBook() {
  // Nobody else is left, so any order would do.
  DestroyAll(root_.load(std::memory_order_acquire));
}

template <typename Atomics>
BasicMachineBook<Atomics>::User::User(BasicMachineBook* book)
    : book_(book), participant_(&book->domain_), spares_(std::make_unique<BookSpares>(book->options_.spares)) {}

template <typename Atomics>
BasicMachineBook<Atomics>::User::~User() = default;

// ---- reading ------------------------------------------------------------------------------------

template <typename Atomics>
const BookSnapshot& BasicMachineBook<Atomics>::User::Read() {
  return *participant_.Protect(kReadPin, book_->root_);
}

template <typename Atomics>
void BasicMachineBook<Atomics>::User::EndRead() {
  participant_.Clear(kReadPin);
}

// ---- the loop -----------------------------------------------------------------------------------

// Swaps the root, if it is still the one that the editor is based on, and does all that follows from it. The root is
// pinned by `pin`, which is then cleared; `other_pin` is free.
template <typename Atomics>
bool BasicMachineBook<Atomics>::User::Commit(const BookSnapshot* root, size_t pin, size_t other_pin,
                                             BookEditor* editor) {
  const uint64_t after = editor->version();
  const BookSnapshot* expected = root;
  // seq_cst: the linearization point. Comes before our look at the list of waiters, and makes the old snapshot
  // unreachable before any scan for pins; release, so that whoever loads it sees it whole. On failure nothing is read.
  if (!book_->root_.compare_exchange_strong(expected, &editor->Current(), std::memory_order_seq_cst,
                                            std::memory_order_relaxed)) {
    ++counts_.lost_races;
    return false;
  }
  const auto replaced = editor->Published();
  ++counts_.commits;
  if (!book_->lot_.empty()) {
    const BookSnapshot* now = participant_.Protect(other_pin, book_->root_);
    book_->lot_.Tell(&participant_, kOtherPin, editor->gained(), {root, now, after});
    participant_.Clear(other_pin);
  }
  participant_.Clear(pin);
  participant_.Retire(replaced, [this](const Garbage& garbage) { return spares_->Keep(garbage); });
  return true;
}

// Carries out what others have published and this root does not have yet; lets go what has been withdrawn.
template <typename Atomics>
void BasicMachineBook<Atomics>::User::Help(BookEditor* editor, const BookSnapshot& root) {
  // seq_cst: after the load of the root, which is what makes "not in this root" mean "not done". See below.
  if (book_->published_.load(std::memory_order_seq_cst) == 0 && root.outcomes.empty()) return;
  std::vector<const HelpedOutcome*> withdrawn;
  book_->domain_.ForEachShared([&](const Shown& user) {
    // An operation that is done is withdrawn before its outcome is let go. So if it is still published now, after the
    // root was loaded, and the root does not have its outcome, it was not done up to that root.
    const PublishedOperation* published = participant_.Protect(kOtherPin, user.published);
    const HelpedOutcome* outcome = FindOutcome(root, &user);
    const bool is_done = published != nullptr && outcome != nullptr && outcome->sequence == published->sequence;
    if (outcome != nullptr && !is_done) withdrawn.push_back(outcome);
    if (published == nullptr || is_done) return;
    auto result = std::make_unique<HelpedOutcome>();
    result->birth = participant_.Now();
    result->user = &user;
    result->sequence = published->sequence;
    result->outcome = Carry(published->View(), editor, {});
    if (!result->outcome.done()) result->outcome.version = editor->EndOperation();
    editor->AddOutcome(std::move(result));
  });
  participant_.Clear(kOtherPin);
  if (!editor->changed()) return;
  for (const HelpedOutcome* outcome : withdrawn) editor->DropOutcome(outcome);
}

// On top of what the editor already holds, which must not suffer if this fails: then on a copy first.
template <typename Atomics>
Outcome BasicMachineBook<Atomics>::User::Carry(const BookOperation& operation, BookEditor* editor,
                                               const GangPlacement& hint) {
  if (!operation.steps.empty()) {
    BookEditor trial(editor->Current(), participant_.Now(), spares_.get());
    Outcome tried = Perform(operation, hint, &trial, &counts_.searches);
    if (!tried.done()) return tried;
  }
  return Perform(operation, hint, editor, &counts_.searches);
}

// After a lost race, as long as the winners touch other chunks and nobody has published anything. RETURNS: whether it
// is committed, as `version`. `lost`: the races so far.
template <typename Atomics>
bool BasicMachineBook<Atomics>::User::CommitRebased(BookEditor* editor, uint32_t* lost, uint64_t* version) {
  size_t pin = kUpdatePin;
  size_t other_pin = kNextPin;
  bool is_done = false;
  // The old root stays pinned meanwhile, so that a chunk that is found in both is one and the same.
  while (!is_done && ++*lost < book_->options_.patience) {
    std::swap(pin, other_pin);
    const BookSnapshot* root = participant_.Protect(pin, book_->root_);
    // seq_cst: after the load of the root, as in Help. What is published is to be carried out with this.
    if (book_->published_.load(std::memory_order_seq_cst) != 0) break;
    if (!root->outcomes.empty() || !editor->Rebase(*root)) break;
    ++counts_.rebased;
    *version = editor->version();
    is_done = Commit(root, pin, other_pin, editor);
  }
  participant_.Clear(kNextPin);
  return is_done;
}

template <typename Atomics>
Outcome BasicMachineBook<Atomics>::User::Run(const BookOperation& operation) {
  GangPlacement hint;
  for (uint32_t lost = 0; lost < book_->options_.patience;) {
    const BookSnapshot* root = participant_.Protect(kUpdatePin, book_->root_);
    BookEditor editor(*root, participant_.Now(), spares_.get());
    Help(&editor, *root);
    Outcome outcome =
        editor.changed() ? Carry(operation, &editor, hint) : Perform(operation, hint, &editor, &counts_.searches);
    const bool nothing_to_commit = !outcome.done() && !editor.changed();
    if (nothing_to_commit || Commit(root, kUpdatePin, kNextPin, &editor)) {
      participant_.Clear(kUpdatePin);
      return outcome;
    }
    if (CommitRebased(&editor, &lost, &outcome.version)) {
      participant_.Clear(kUpdatePin);
      return outcome;
    }
    hint = std::move(outcome.placement);
  }
  return RunPublished(operation);
}

template <typename Atomics>
Outcome BasicMachineBook<Atomics>::User::RunPublished(const BookOperation& operation) {
  Shown& shown = participant_.shared();
  ++counts_.published;
  auto* published = new PublishedOperation(operation, participant_.Now(), ++shown.sequence);
  // seq_cst, both: whoever loads the root after this and finds the count finds the operation. The count is only a
  // short cut; it may be too high for a moment, or too low for one that others then miss once.
  shown.published.store(published, std::memory_order_seq_cst);
  book_->published_.fetch_add(1, std::memory_order_seq_cst);
  Outcome outcome;
  while (true) {  // ends after one more commit of each user that has not seen it, at the latest
    const BookSnapshot* root = participant_.Protect(kUpdatePin, book_->root_);
    const HelpedOutcome* helped = FindOutcome(*root, &shown);
    if (helped != nullptr && helped->sequence == published->sequence) {
      outcome = helped->outcome;
      break;
    }
    BookEditor editor(*root, participant_.Now(), spares_.get());
    Help(&editor, *root);
    (void)Commit(root, kUpdatePin, kNextPin, &editor);
  }
  participant_.Clear(kUpdatePin);
  // seq_cst: unlinked before any scan that could free it. Its outcome stays in the book until somebody sees this.
  shown.published.store(nullptr, std::memory_order_seq_cst);
  book_->published_.fetch_sub(1, std::memory_order_seq_cst);
  const Garbage garbage[] = {GarbageOf(published, published->birth)};
  participant_.Retire(garbage);
  return outcome;
}

// ---- operations ---------------------------------------------------------------------------------

template <typename Atomics>
Outcome BasicMachineBook<Atomics>::User::Place(const GangRequest& request, Claim* claim) {
  MUSTER_CHECK(claim->held == Book::kNone);
  Outcome outcome = Run({{}, {}, &request});
  if (outcome.done()) {
    claim->placement = std::exchange(outcome.placement, {});
    claim->held = request.books;
  }
  return outcome;
}

template <typename Atomics>
Outcome BasicMachineBook<Atomics>::User::Move(Claim* claim, Book take, Book give, bool must_fit) {
  const ClaimStep step{&claim->placement, take, give, must_fit};
  return Run({{}, {&step, 1}, nullptr});
}

template <typename Atomics>
Outcome BasicMachineBook<Atomics>::User::Reserve(GangPlacement placement, Book books, Claim* claim) {
  MUSTER_CHECK(claim->held == Book::kNone);
  Claim wanted{std::move(placement), books};
  Outcome outcome = Move(&wanted, books, Book::kNone, true);
  if (outcome.done()) *claim = std::move(wanted);
  return outcome;
}

template <typename Atomics>
Outcome BasicMachineBook<Atomics>::User::Start(Claim* claim) {
  MUSTER_CHECK(claim->held == Book::kPlanned);
  Outcome outcome = Move(claim, Book::kFree, Book::kNone, true);
  if (outcome.done()) claim->held = Book::kBoth;
  return outcome;
}

template <typename Atomics>
Outcome BasicMachineBook<Atomics>::User::Occupy(GangPlacement placement, Claim* claim) {
  MUSTER_CHECK(claim->held == Book::kNone);
  *claim = {std::move(placement), Book::kBoth};
  return Move(claim, Book::kBoth, Book::kNone, false);
}

template <typename Atomics>
Outcome BasicMachineBook<Atomics>::User::Leave(Claim* claim) {
  MUSTER_CHECK(claim->held == Book::kBoth);
  claim->held = Book::kFree;
  return Move(claim, Book::kNone, Book::kPlanned, false);
}

template <typename Atomics>
Outcome BasicMachineBook<Atomics>::User::Release(Claim* claim) {
  MUSTER_CHECK(claim->held != Book::kNone);
  Outcome outcome = Move(claim, Book::kNone, std::exchange(claim->held, Book::kNone), false);
  claim->placement.clear();
  return outcome;
}

template <typename Atomics>
Outcome BasicMachineBook<Atomics>::User::Edit(std::span<const MachineEdit> edits) {
  return Run({edits, {}, nullptr});
}

template <typename Atomics>
Outcome BasicMachineBook<Atomics>::User::Apply(std::span<const MachineEdit> edits, std::span<const ClaimStep> steps) {
  return Run({edits, steps, nullptr});
}

// ---- waiting ------------------------------------------------------------------------------------

template <typename Atomics>
std::unique_ptr<ParkingTicket> BasicMachineBook<Atomics>::User::Park(Waiter waiter, uint64_t searched) {
  const Waiter looked_for = waiter;
  auto ticket = book_->lot_.Park(&participant_, kOtherPin, std::move(waiter), searched);
  const BookSnapshot* root = participant_.Protect(kUpdatePin, book_->root_);
  const bool look_again = GainedSince(*root, looked_for, searched);
  participant_.Clear(kUpdatePin);
  if (!look_again) return ticket;
  book_->lot_.Unpark(&participant_, kOtherPin, std::move(ticket));
  return nullptr;
}

template <typename Atomics>
void BasicMachineBook<Atomics>::User::Unpark(std::unique_ptr<ParkingTicket> ticket) {
  book_->lot_.Unpark(&participant_, kOtherPin, std::move(ticket));
}

}  // namespace muster::gang
