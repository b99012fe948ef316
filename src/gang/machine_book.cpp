#include "muster/gang/machine_book.h"

#include <algorithm>

#include "machine_book_impl.h"

namespace muster::gang {

namespace {

int64_t PodsIn(const GangPlacement& placement) {
  int64_t pods = 0;
  for (const PodSetPlaces& pod_set : placement) {
    for (const MachinePlace& place : pod_set.places) pods += place.pods;
  }
  return pods;
}

bool WouldFit(const ClaimStep& step, BookEditor* editor) {
  BookEditor trial(editor->Current(), 0);  // never published
  return trial.Apply(step);
}

Outcome PerformPlace(const GangRequest& request, const GangPlacement& hint, BookEditor* editor, uint64_t* searches) {
  Outcome outcome;
  outcome.version = editor->version();
  if (!hint.empty() && WouldFit({&hint, request.books, Book::kNone, true}, editor)) {
    outcome.placement = hint;
    outcome.placed = PodsIn(hint);
  } else {
    ++*searches;
    SearchResult found = Search(editor->Current(), request);
    outcome.placed = found.placed;
    switch (found.verdict) {
      case SearchResult::Verdict::kFits:
        outcome.placement = std::move(found.placement);
        break;
      case SearchResult::Verdict::kDoesNotFit:
        outcome.verdict = Outcome::Verdict::kDoesNotFit;
        return outcome;
      case SearchResult::Verdict::kNotFound:
        outcome.verdict = Outcome::Verdict::kNotFound;
        return outcome;
    }
  }
  const bool fits = editor->Apply({&outcome.placement, request.books, Book::kNone, true});
  MUSTER_CHECK(fits);  // what was found on it has room on it
  outcome.version = editor->EndOperation();
  return outcome;
}

}  // namespace

Outcome Perform(const BookOperation& operation, const GangPlacement& hint, BookEditor* editor, uint64_t* searches) {
  if (operation.request != nullptr) return PerformPlace(*operation.request, hint, editor, searches);
  Outcome outcome;
  outcome.version = editor->version();
  for (const MachineEdit& edit : operation.edits) editor->Apply(edit);
  for (const ClaimStep& step : operation.steps) {
    if (editor->Apply(step)) continue;
    outcome.verdict = Outcome::Verdict::kConflict;
    return outcome;
  }
  outcome.version = editor->EndOperation();
  return outcome;
}

void DestroyAll(const BookSnapshot* book) {
  for (const Chunk* chunk : book->spine) {
    delete chunk->block;
    delete chunk;
  }
  for (const SpineSegment* segment : book->spine.segments) delete segment;
  for (const HelpedOutcome* outcome : book->outcomes) delete outcome;
  delete book;
}

const HelpedOutcome* FindOutcome(const BookSnapshot& book, const void* user) {
  for (const HelpedOutcome* outcome : book.outcomes) {
    if (outcome->user == user) return outcome;
  }
  return nullptr;
}

PublishedOperation::PublishedOperation(const BookOperation& operation, uint64_t born, uint64_t number)
    : birth(born),
      sequence(number),
      edits(operation.edits.begin(), operation.edits.end()),
      steps(operation.steps.begin(), operation.steps.end()),
      has_request(operation.request != nullptr) {
  if (has_request) request = *operation.request;
  placements.reserve(steps.size());  // so that the pointers stay good
  for (ClaimStep& step : steps) step.placement = &placements.emplace_back(*step.placement);
}

bool GainedSince(const BookSnapshot& book, const Waiter& waiter, uint64_t version) {
  return std::any_of(waiter.pod_sets.begin(), waiter.pod_sets.end(), [&](const PodSetRequest& pod_set) {
    return std::any_of(pod_set.per_pod.begin(), pod_set.per_pod.end(),
                       [&](const Need& need) { return book.GainedAt(need.resource) > version; });
  });
}

bool CouldUse(const BookSnapshot& book, const Waiter& waiter, std::span<const MachineIndex> machines) {
  return std::any_of(waiter.pod_sets.begin(), waiter.pod_sets.end(), [&](const PodSetRequest& pod_set) {
    return std::any_of(machines.begin(), machines.end(),
                       [&](MachineIndex machine) { return HasPlace(book, pod_set, waiter.books, machine); });
  });
}

template class BasicMachineBook<StdAtomics>;

}  // namespace muster::gang
