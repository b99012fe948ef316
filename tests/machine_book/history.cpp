#include "history.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

namespace muster::gang {

namespace {

int64_t RoomOf(const PlainMachine& machine, Book books, size_t resource) {
  if (books == Book::kFree) return machine.free[resource];
  if (books == Book::kPlanned) return machine.planned[resource];
  return std::min(machine.free[resource], machine.planned[resource]);
}

bool IsThere(const PlainBook& book, const MachinePlace& place) {
  const PlainMachine& machine = book.machines.at(place.machine.value);
  return machine.present && machine.incarnation == place.incarnation;
}

// RETURNS: whether what was taken was there.
bool Take(PlainBook* book, const GangPlacement& placement, Book take, Book give) {
  bool fits = true;
  for (const PodSetPlaces& pod_set : placement) {
    for (const MachinePlace& place : pod_set.places) {
      if (!IsThere(*book, place)) {
        fits = false;
        continue;
      }
      PlainMachine& machine = book->machines[place.machine.value];
      if (take != Book::kNone) fits &= machine.open && machine.machine_class == place.machine_class.value;
      for (const Need& need : pod_set.per_pod) {
        const size_t r = need.resource.value;
        const int64_t amount = need.amount * place.pods;
        if (Has(take, Book::kFree)) machine.free[r] -= amount;
        if (Has(take, Book::kPlanned)) machine.planned[r] -= amount;
        if (Has(give, Book::kFree)) machine.free[r] += amount;
        if (Has(give, Book::kPlanned)) machine.planned[r] += amount;
        if (take != Book::kNone) fits &= RoomOf(machine, take, r) >= 0;
      }
    }
  }
  return fits;
}

void Edit(PlainBook* book, const MachineEdit& edit) {
  PlainMachine& machine = book->machines.at(edit.machine.value);
  switch (edit.kind) {
    case MachineEdit::Kind::kPut: {
      std::array<int64_t, 2> capacity{};
      for (const Need& need : edit.amounts) capacity[need.resource.value] = need.amount;
      machine.present = true;
      machine.open = edit.open;
      machine.machine_class = edit.machine_class.value;
      for (size_t r = 0; r < 2; ++r) {
        machine.free[r] += capacity[r] - machine.capacity[r];
        machine.planned[r] += capacity[r] - machine.capacity[r];
      }
      machine.capacity = capacity;
      return;
    }
    case MachineEdit::Kind::kAdjust:
      if (!machine.present) return;
      for (const Need& need : edit.amounts) {
        machine.capacity[need.resource.value] += need.amount;
        machine.free[need.resource.value] += need.amount;
        machine.planned[need.resource.value] += need.amount;
      }
      return;
    case MachineEdit::Kind::kRemove: {
      if (!machine.present) return;
      const uint32_t incarnation = machine.incarnation + 1;
      machine = PlainMachine{};
      machine.incarnation = incarnation;
      return;
    }
  }
}

// How many pods have a place at the same time.
int64_t PlacesFor(const PlainBook& book, const GangRequest& request) {
  const PodSetRequest& pod_set = request.pod_sets.front();
  int64_t places = 0;
  for (const PlainMachine& machine : book.machines) {
    if (!machine.open || !pod_set.filter.Admits({machine.machine_class})) continue;
    int64_t pods = std::numeric_limits<int64_t>::max();
    for (const Need& need : pod_set.per_pod) {
      pods = std::min(pods, std::max(int64_t{0}, RoomOf(machine, request.books, need.resource.value)) / need.amount);
    }
    places += pods;
  }
  return std::min(places, pod_set.count);
}

std::optional<PlainBook> ApplyPlace(const PlainBook& before, const Recorded& operation) {
  const PodSetRequest& pod_set = operation.request.pod_sets.front();
  const int64_t places = PlacesFor(before, operation.request);
  if (operation.outcome.placed != places) return std::nullopt;
  if (!operation.outcome.done()) {
    const bool proven = operation.outcome.verdict == Outcome::Verdict::kDoesNotFit;
    return proven && places < pod_set.count ? std::optional(before) : std::nullopt;
  }
  const GangPlacement& placement = operation.outcome.placement;
  if (placement.size() != 1 || placement.front().per_pod != pod_set.per_pod) return std::nullopt;
  int64_t pods = 0;
  for (const MachinePlace& place : placement.front().places) {
    pods += place.pods;
    if (!pod_set.filter.Admits(place.machine_class)) return std::nullopt;
  }
  if (pods != pod_set.count) return std::nullopt;
  PlainBook after = before;
  return Take(&after, placement, operation.request.books, Book::kNone) ? std::optional(after) : std::nullopt;
}

class Checker {
 public:
  explicit Checker(const std::vector<Recorded>& history) : history_(history) {}

  bool Check(const PlainBook& state, uint64_t done) {
    const uint64_t all = history_.size() == 64 ? ~uint64_t{0} : (uint64_t{1} << history_.size()) - 1;
    if (done == all) return true;
    if (!seen_.emplace(done, state.Key()).second) return false;
    int64_t first_end = std::numeric_limits<int64_t>::max();
    for (size_t i = 0; i < history_.size(); ++i) {
      if ((done >> i & 1) == 0) first_end = std::min(first_end, history_[i].end);
    }
    for (size_t i = 0; i < history_.size(); ++i) {
      // Nothing may come before what had ended when it began.
      if ((done >> i & 1) != 0 || history_[i].begin > first_end) continue;
      const std::optional<PlainBook> after = Apply(state, history_[i]);
      if (after.has_value() && Check(*after, done | uint64_t{1} << i)) return true;
    }
    return false;
  }

 private:
  const std::vector<Recorded>& history_;
  std::set<std::pair<uint64_t, std::string>> seen_;
};

}  // namespace

std::string PlainBook::Key() const {
  std::string key;
  const auto add = [&](int64_t value) { key.append(std::to_string(value)).push_back(','); };
  for (const PlainMachine& machine : machines) {
    add(machine.present);
    add(machine.open);
    add(machine.incarnation);
    add(machine.machine_class);
    for (size_t r = 0; r < 2; ++r) {
      add(machine.capacity[r]);
      add(machine.free[r]);
      add(machine.planned[r]);
    }
  }
  return key;
}

PlainBook PlainOf(const BookSnapshot& book, size_t machines) {
  PlainBook plain;
  plain.machines.resize(machines);
  for (uint32_t i = 0; i < machines; ++i) {
    PlainMachine& machine = plain.machines[i];
    machine.incarnation = book.Incarnation({i});
    const Chunk* chunk = book.Find({i});
    if (chunk == nullptr) continue;
    machine.present = true;
    const uint32_t slot = i % kChunkMachines;
    machine.open = (chunk->block->open >> slot & 1) != 0;
    machine.machine_class = chunk->block->machine_class[slot].value;
    for (uint32_t r = 0; r < 2; ++r) {
      machine.capacity[r] = book.Capacity({i}, {r});
      machine.free[r] = book.Room(Book::kFree, {i}, {r});
      machine.planned[r] = book.Room(Book::kPlanned, {i}, {r});
    }
  }
  return plain;
}

std::optional<PlainBook> Apply(const PlainBook& before, const Recorded& operation) {
  switch (operation.kind) {
    case Recorded::Kind::kPlace:
      return ApplyPlace(before, operation);
    case Recorded::Kind::kStep: {
      PlainBook after = before;
      const bool fits = Take(&after, operation.placement, operation.step.take, operation.step.give);
      const bool wanted = fits || !operation.step.must_fit;
      if (operation.outcome.done() != wanted) return std::nullopt;
      return wanted ? after : before;
    }
    case Recorded::Kind::kEdit: {
      PlainBook after = before;
      for (const MachineEdit& edit : operation.edits) Edit(&after, edit);
      return after;
    }
    case Recorded::Kind::kRead:
      return operation.seen == before ? std::optional(before) : std::nullopt;
  }
  return std::nullopt;
}

bool IsLinearizable(const PlainBook& begin, const std::vector<Recorded>& history) {
  return history.size() <= 64 && Checker(history).Check(begin, 0);
}

bool VersionsAreAnOrder(const PlainBook& begin, const std::vector<Recorded>& history) {
  std::vector<const Recorded*> order;
  for (const Recorded& operation : history) order.push_back(&operation);
  const auto changes = [](const Recorded& operation) {
    return operation.kind != Recorded::Kind::kRead && operation.outcome.done();
  };
  std::sort(order.begin(), order.end(), [&](const Recorded* a, const Recorded* b) {
    if (a->outcome.version != b->outcome.version) return a->outcome.version < b->outcome.version;
    // What was found on a version comes after the change that made it.
    if (changes(*a) != changes(*b)) return changes(*a);
    return a->begin < b->begin;
  });
  PlainBook state = begin;
  int64_t latest_begin = std::numeric_limits<int64_t>::min();
  for (const Recorded* operation : order) {
    const std::optional<PlainBook> after = Apply(state, *operation);
    if (!after.has_value() || operation->end < latest_begin) return false;
    latest_begin = std::max(latest_begin, operation->begin);
    state = *after;
  }
  return true;
}

}  // namespace muster::gang
