#include <signal.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "muster/k8s_client/connection.h"

namespace muster::k8s {
namespace {

using std::chrono::milliseconds;

MonoTime Now() { return {std::chrono::steady_clock::now().time_since_epoch().count()}; }

TEST_CASE("AsioExecutor runs what one thread posts in the order posted") {
  AsioExecutor executor;
  std::vector<int> ran;
  for (int i = 0; i < 100; ++i) executor.Post([&ran, i] { ran.push_back(i); });
  executor.Post([&] {
    executor.Post([&] { ran.push_back(101); });
    executor.Post([&] { executor.Stop(); });
    ran.push_back(100);
  });
  executor.Run();
  REQUIRE(ran.size() == 102);
  for (int i = 0; i < 102; ++i) CHECK(ran[static_cast<size_t>(i)] == i);
}

TEST_CASE("AsioExecutor keeps the order of each posting thread and never overlaps tasks") {
  AsioExecutor executor;
  constexpr int kThreads = 3;
  constexpr int kTasks = 500;
  std::vector<std::vector<int>> ran(kThreads);  // unguarded on purpose: tasks must not overlap
  int left = kThreads * kTasks;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kTasks; ++i) {
        executor.Post([&, t, i] {
          ran[static_cast<size_t>(t)].push_back(i);
          if (--left == 0) executor.Stop();
        });
      }
    });
  }
  executor.Run();
  for (auto& thread : threads) thread.join();
  for (const auto& of_thread : ran) {
    REQUIRE(of_thread.size() == kTasks);
    CHECK(std::is_sorted(of_thread.begin(), of_thread.end()));
  }
}

TEST_CASE("AsioExecutor runs timers by time, then in the order set, never early") {
  AsioExecutor executor;
  std::string ran;
  const MonoTime now = Now();
  const MonoTime late = now + milliseconds(30);
  executor.PostAt(late, [&] {
    ran += 'c';
    CHECK(Now() >= late);
  });
  executor.PostAt(now + milliseconds(10), [&] { ran += 'b'; });
  executor.PostAt(late, [&] { ran += 'd'; });
  executor.PostAt(now + milliseconds(-10), [&] { ran += 'a'; });
  executor.PostAt(late + milliseconds(1), [&] { executor.Stop(); });
  executor.Run();
  CHECK(ran == "abcd");
}

TEST_CASE("AsioExecutor: a timer for the end of time holds up no other") {
  AsioExecutor executor;
  executor.PostAt(Now() + Duration::max(), [] { FAIL("the end of time"); });
  executor.PostAt(Now() + milliseconds(5), [&] { executor.Stop(); });
  executor.Run();
}

TEST_CASE("AsioExecutor: a cancelled timer does not run, even when both were due at once") {
  AsioExecutor executor;
  std::string ran;
  const MonoTime now = Now();
  Executor::TimerId second = 0;
  executor.PostAt(now, [&] {
    ran += 'a';
    executor.Cancel(second);
  });
  second = executor.PostAt(now, [&] { ran += 'b'; });
  const Executor::TimerId early = executor.PostAt(now + milliseconds(-5), [&] { ran += 'c'; });
  executor.Cancel(early);
  executor.Cancel(early);  // again, zero and unknown: no effect
  executor.Cancel(0);
  executor.Cancel(1'000'000);
  executor.PostAt(now + milliseconds(5), [&] { executor.Stop(); });
  executor.Run();
  CHECK(ran == "a");
}

TEST_CASE("AsioExecutor: ids are never used again and zero is none") {
  AsioExecutor executor;
  const Executor::TimerId a = executor.PostAt(Now(), [] {});
  executor.Cancel(a);
  const Executor::TimerId b = executor.PostAt(Now(), [] {});
  CHECK(a != 0);
  CHECK(b != 0);
  CHECK(a != b);
}

TEST_CASE("AsioExecutor: an earlier timer set from another thread is not held up by a later one") {
  AsioExecutor executor;
  bool ran = false;
  executor.PostAt(Now() + std::chrono::hours(1), [] { FAIL("a timer an hour away ran"); });
  std::thread other([&] {
    executor.PostAt(Now() + milliseconds(5), [&] {
      ran = true;
      executor.Stop();
    });
  });
  executor.Run();
  other.join();
  CHECK(ran);
}

TEST_CASE("AsioExecutor: a timer that is always due lets posted tasks run") {
  AsioExecutor executor;
  int turns = 0;
  std::function<void()> again = [&] {
    if (++turns < 1'000'000) executor.PostAt(Now(), [&] { again(); });
  };
  again();
  executor.Post([&] { executor.Post([&] { executor.Stop(); }); });
  executor.Run();
  CHECK(turns < 1000);
}

TEST_CASE("AsioExecutor: Stop before Run makes that Run return, and the next one goes on") {
  AsioExecutor executor;
  bool ran = false;
  executor.Post([&] {
    ran = true;
    executor.Stop();
  });
  executor.Stop();
  executor.Run();
  CHECK_FALSE(ran);
  executor.Run();
  CHECK(ran);
}

TEST_CASE("AsioExecutor waits in every Run for what comes from outside, also with nothing pending") {
  AsioExecutor executor;
  for (int run = 0; run < 3; ++run) {
    bool ran = false;
    std::thread other([&] {
      std::this_thread::sleep_for(milliseconds(5));
      executor.Post([&] {
        ran = true;
        executor.Stop();
      });
    });
    executor.Run();
    other.join();
    CHECK(ran);
  }
}

// What a component does that owns a timer and is itself owned by a task.
struct CancelsWhenDestroyed {
  AsioExecutor* executor;
  Executor::TimerId timer;
  int* destroyed;
  ~CancelsWhenDestroyed() {
    executor->Cancel(timer);
    ++*destroyed;
  }
};

TEST_CASE("AsioExecutor destroys pending tasks without running them, and their destructors may cancel") {
  int destroyed = 0;
  {
    AsioExecutor executor;
    const auto owner = [&](MonoTime when) {
      return std::unique_ptr<CancelsWhenDestroyed>(
          new CancelsWhenDestroyed{&executor, executor.PostAt(when, [] { FAIL("ran"); }), &destroyed});
    };
    const MonoTime hour = Now() + std::chrono::hours(1);
    executor.Post([owned = owner(hour)] { FAIL("ran"); });
    executor.PostAt(hour, [owned = owner(hour)] { FAIL("ran"); });
    executor.Cancel(executor.PostAt(hour, [owned = owner(hour)] { FAIL("ran"); }));
    CHECK(destroyed == 1);
  }
  CHECK(destroyed == 3);
}

TEST_CASE("AsioExecutor calls the terminate handler once, on the executor") {
  const int signal_number = GENERATE(SIGTERM, SIGINT);
  AsioExecutor executor;
  int calls = 0;
  const std::thread::id here = std::this_thread::get_id();
  executor.OnTerminate([&] {
    ++calls;
    CHECK(std::this_thread::get_id() == here);
    executor.Stop();
  });
  executor.Post([signal_number] { ::kill(::getpid(), signal_number); });
  executor.Run();
  CHECK(calls == 1);
  struct sigaction after {};
  ::sigaction(signal_number, nullptr, &after);
  CHECK(after.sa_handler == SIG_DFL);  // a second signal ends the process
}

}  // namespace
}  // namespace muster::k8s
