// The threads of the deciders: each task once, several at a time.
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <thread>
#include <vector>

#include "deciders.h"

namespace muster::engine {

TEST_CASE("As many tasks as there are deciders go on at once, each with a decider of its own") {
  for (const int count : {1, 2, 4}) {
    Deciders deciders(count);
    CHECK(deciders.count() == static_cast<size_t>(count));
    const auto tasks = static_cast<size_t>(count);
    std::atomic<int> begun = 0;
    std::vector<std::atomic<int>> tasks_of(tasks);
    std::atomic<bool> late = false;
    // Each goes on only once all have begun.
    deciders.ForEach(tasks, [&](size_t, size_t decider) {
      ++tasks_of[decider];
      ++begun;
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
      while (begun < count && !late) {
        if (std::chrono::steady_clock::now() > deadline) late = true;
        std::this_thread::yield();
      }
    });
    CHECK_FALSE(late);
    for (const std::atomic<int>& tasks_done : tasks_of) CHECK(tasks_done == 1);
  }
}

TEST_CASE("Each task is done once, however many there are") {
  Deciders deciders(3);
  for (const size_t tasks : {size_t{0}, size_t{1}, size_t{2}, size_t{100}}) {
    std::vector<std::atomic<int>> done(tasks);
    deciders.ForEach(tasks, [&](size_t task, size_t) { ++done[task]; });
    for (const std::atomic<int>& times : done) CHECK(times == 1);
  }
}

}  // namespace muster::engine
