// Memory that was unlinked is freed once nobody can read it, and not before.

#include "muster/core/epoch.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <thread>
#include <vector>

#include "muster/core/atomics.h"

namespace muster {
namespace {

struct Nothing {};
using Domain = EpochDomain<StdAtomics, Nothing>;

std::atomic<int> g_alive{0};

struct Thing {
  Thing(uint64_t born, uint64_t number) : birth(born), value(number), twice(2 * number) { ++g_alive; }
  ~Thing() {
    twice = 1;  // no longer what a reader expects
    --g_alive;
  }
  uint64_t birth;
  uint64_t value;
  uint64_t twice;
};

// Makes `number` the value of the root.
void Replace(Domain::Participant* self, std::atomic<const Thing*>* root, uint64_t number) {
  const Thing* old = root->exchange(new Thing(self->Now(), number), std::memory_order_seq_cst);
  const Garbage garbage[] = {GarbageOf(old, old->birth)};
  self->Retire(garbage);
}

TEST_CASE("A pin holds back what was alive when it was set, and nothing that came or went before or after") {
  g_alive = 0;
  {
    Domain domain(1);
    Domain::Participant reader(&domain);
    Domain::Participant writer(&domain);
    std::atomic<const Thing*> root{new Thing(writer.Now(), 0)};
    for (uint64_t i = 1; i <= 10; ++i) Replace(&writer, &root, i);
    CHECK(g_alive == 1);
    const Thing* pinned = reader.Protect(0, root);
    CHECK(pinned->value == 10);
    for (uint64_t i = 11; i <= 1000; ++i) Replace(&writer, &root, i);
    CHECK(pinned->twice == 20);
    // The pinned one, the root's, and one that waits for a scan at most.
    CHECK(g_alive <= 3);
    CHECK(writer.unfreed() <= 2);
    // A second pin beside the first.
    const Thing* second = reader.Protect(1, root);
    for (uint64_t i = 1001; i <= 1100; ++i) Replace(&writer, &root, i);
    CHECK(pinned->twice == 20);
    CHECK(second->twice == 2000);
    reader.Clear(0);
    reader.Clear(1);
    for (uint64_t i = 1101; i <= 1110; ++i) Replace(&writer, &root, i);
    CHECK(g_alive == 1);
    delete root.load();
  }
  CHECK(g_alive == 0);
}

TEST_CASE("What a participant leaves behind goes to the next, or with the domain") {
  g_alive = 0;
  {
    Domain domain(100);
    Domain::Participant reader(&domain);
    std::atomic<const Thing*> root{nullptr};
    {
      Domain::Participant first(&domain);
      root = new Thing(first.Now(), 1);
      CHECK(reader.Protect(0, root)->value == 1);
      Replace(&first, &root, 2);
    }
    CHECK(g_alive == 2);  // leaving scans, but it is pinned
    {
      Domain::Participant next(&domain);
      CHECK(next.unfreed() == 1);
      reader.Clear(0);
    }
    CHECK(g_alive == 1);
    {
      Domain::Participant last(&domain);
      CHECK(reader.Protect(0, root)->value == 2);
      Replace(&last, &root, 3);
    }
    CHECK(g_alive == 2);
    delete root.load();
  }
  CHECK(g_alive == 0);
}

TEST_CASE("Readers see whole things while writers replace them") {
  g_alive = 0;
  {
    Domain domain(4);
    std::atomic<const Thing*> root{new Thing(1, 0)};
    std::atomic<bool> stop{false};
    std::atomic<int> torn{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i) {
      threads.emplace_back([&] {
        Domain::Participant self(&domain);
        while (!stop) {
          const Thing* thing = self.Protect(0, root);
          if (thing->twice != 2 * thing->value) ++torn;
          self.Clear(0);
        }
      });
    }
    for (int i = 0; i < 2; ++i) {
      threads.emplace_back([&] {
        for (uint64_t n = 1; n <= 5000; ++n) {
          Domain::Participant self(&domain);  // joins and leaves, too
          for (uint64_t k = 0; k < 4; ++k) Replace(&self, &root, 4 * n + k);
        }
      });
    }
    threads[2].join();
    threads[3].join();
    stop = true;
    threads[0].join();
    threads[1].join();
    CHECK(torn == 0);
    delete root.load();
  }
  CHECK(g_alive == 0);
}

}  // namespace
}  // namespace muster
