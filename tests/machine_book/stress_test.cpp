// Deciders, an editor and readers at once, for ThreadSanitizer above all: never above capacity, nothing leaked, and
// any snapshot is a state that existed.

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

#include "muster/gang/machine_book.h"
#include "workload.h"

namespace muster::gang {
namespace {

// The first half is never edited, so its room is never negative; the second half comes, goes and shrinks.
constexpr uint32_t kMachines = 256;

MachineEdit Fresh(uint32_t machine) { return PutMachine(machine, 8, 20, machine % 3); }

struct Shared {
  MachineBook book{MachineBookOptions{2, 16}};
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> fits{0};
  std::atomic<uint64_t> refused{0};
  std::atomic<uint64_t> snapshots{0};
  std::atomic<uint64_t> faults{0};
};

void Decide(Shared* shared, uint64_t seed) {
  MachineBook::User user(&shared->book);
  std::mt19937_64 random(seed);
  std::vector<Claim> claims;
  while (!shared->stop) {
    const auto drawn = static_cast<int64_t>(random() % 64);
    Claim claim;
    GangRequest request = Gang(1 + drawn * 2, 1 + drawn % 4, drawn % 7 == 0 ? Book::kPlanned : Book::kBoth);
    if (drawn % 5 == 0) request.pod_sets.push_back({PodNeeds({{kGpu, 2}}), 3, ClassFilter({MachineClass{1}})});
    request.origin = static_cast<uint32_t>(seed);
    if (user.Place(request, &claim).done()) {
      claims.push_back(std::move(claim));
      ++shared->fits;
    } else {
      ++shared->refused;
    }
    if (claims.size() < 20 && drawn % 3 != 0) continue;
    if (claims.empty()) continue;
    std::swap(claims[random() % claims.size()], claims.back());
    if (claims.back().held == Book::kPlanned && drawn % 2 == 0 && user.Start(&claims.back()).done()) continue;
    if (claims.back().held == Book::kBoth && drawn % 2 == 0) user.Leave(&claims.back());
    user.Release(&claims.back());
    claims.pop_back();
  }
  for (Claim& claim : claims) user.Release(&claim);
}

void EditMachines(Shared* shared) {
  MachineBook::User user(&shared->book);
  std::mt19937_64 random(99);
  while (!shared->stop) {
    std::vector<MachineEdit> edits;
    for (int i = 0; i < 8; ++i) {
      const auto machine = static_cast<uint32_t>(kMachines / 2 + random() % (kMachines / 2));
      switch (random() % 4) {
        case 0:
          edits.push_back(RemoveMachine(machine));
          break;
        case 1:
          edits.push_back(PutMachine(machine, 4, 20, machine % 3, random() % 3 != 0));
          break;
        case 2:
          edits.push_back(AdjustMachine(machine, static_cast<int64_t>(random() % 5) - 2));
          break;
        default:
          edits.push_back(Fresh(machine));
      }
    }
    user.Edit(edits);
  }
  std::vector<MachineEdit> edits;
  for (uint32_t i = 0; i < kMachines; ++i) edits.push_back(Fresh(i));
  user.Edit(edits);
}

void ReadBook(Shared* shared) {
  MachineBook::User user(&shared->book);
  uint64_t last = 0;
  while (!shared->stop) {
    const BookSnapshot& book = user.Read();
    bool good = book.version >= last && Recount(book);
    last = book.version;
    for (uint32_t i = 0; i < kMachines / 2; ++i) {
      for (const MachineResource resource : {kPodSlots, kGpu}) {
        const int64_t free = book.Room(Book::kFree, {i}, resource);
        const int64_t planned = book.Room(Book::kPlanned, {i}, resource);
        const int64_t capacity = book.Capacity({i}, resource);
        good &= free >= 0 && free <= capacity && planned >= 0 && planned <= capacity;
      }
    }
    if (!good) ++shared->faults;
    ++shared->snapshots;
    user.EndRead();
  }
}

TEST_CASE("Never above capacity, nothing leaked, and any snapshot is a state that existed", "[stress]") {
  const auto duration = std::chrono::seconds(std::getenv("MUSTER_LONG") != nullptr ? 180 : 3);
  Shared shared;
  MachineBook::User user(&shared.book);
  std::vector<MachineEdit> edits;
  for (uint32_t i = 0; i < kMachines; ++i) edits.push_back(Fresh(i));
  user.Edit(edits);
  const auto full = user.Read().totals;
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < 3; ++i) threads.emplace_back(Decide, &shared, i);
  threads.emplace_back(EditMachines, &shared);
  for (int i = 0; i < 2; ++i) threads.emplace_back(ReadBook, &shared);
  std::this_thread::sleep_for(duration);
  shared.stop = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(shared.faults == 0);
  CHECK(shared.fits > 0);
  CHECK(shared.refused > 0);
  CHECK(shared.snapshots > 0);
  // All claims are released and all machines are as they were: so is the book.
  const BookSnapshot& book = user.Read();
  CHECK(Recount(book));
  for (size_t r = 0; r < full.size(); ++r) {
    CHECK(book.totals[r].free == full[r].free);
    CHECK(book.totals[r].planned == full[r].planned);
  }
  for (uint32_t i = 0; i < kMachines; ++i) {
    CHECK(book.Room(Book::kFree, {i}, kGpu) == 8);
    CHECK(book.Room(Book::kPlanned, {i}, kGpu) == 8);
  }
  for (const Chunk* chunk : book.spine) CHECK(chunk->planned.empty());
}

}  // namespace
}  // namespace muster::gang
