#include "muster/sim/executor.h"

#include <catch2/catch.hpp>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace muster::sim {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_CASE("timers run in the order due, and time moves to them", "[executor]") {
  SimExecutor executor(1);
  std::string ran;
  executor.PostAt(MonoTime{} + seconds(2), [&] { ran += "b"; });
  executor.PostAt(MonoTime{} + seconds(1), [&] { ran += "a"; });
  executor.Post([&] {
    CHECK(executor.Mono() == MonoTime{});
    ran += "0";
  });
  CHECK(executor.RunUntilIdle());
  CHECK(ran == "0ab");
  CHECK(executor.Mono() == MonoTime{} + seconds(2));
  CHECK(executor.clock()->Now() == SimExecutor::kStart + seconds(2));
  CHECK(executor.steps() == 3);
}

TEST_CASE("RunFor lets exactly that much time pass", "[executor]") {
  SimExecutor executor(1);
  int ran = 0;
  executor.PostAt(MonoTime{} + seconds(10), [&] { ++ran; });
  executor.RunFor(milliseconds(9'999));
  CHECK(ran == 0);
  executor.RunFor(milliseconds(1));
  CHECK(ran == 1);
  executor.RunFor(hours(1));
  CHECK(executor.Mono() == MonoTime{} + seconds(10) + hours(1));
}

TEST_CASE("RunUntil stops at the first task after which the predicate holds", "[executor]") {
  SimExecutor executor(1);
  int ran = 0;
  for (int i = 1; i <= 5; ++i) executor.PostAt(MonoTime{} + seconds(i), [&] { ++ran; });
  CHECK(executor.RunUntil([&] { return ran == 3; }, seconds(60)));
  CHECK(executor.Mono() == MonoTime{} + seconds(3));
  CHECK_FALSE(executor.RunUntil([&] { return ran == 6; }, seconds(60)));
  CHECK(ran == 5);
  CHECK(executor.Mono() == MonoTime{} + seconds(63));
}

TEST_CASE("RunUntilIdle gives up on a timer that always sets the next", "[executor]") {
  SimExecutor executor(1);
  std::function<void()> again = [&] { executor.PostAt(executor.Mono() + seconds(10), [&] { again(); }); };
  again();
  CHECK_FALSE(executor.RunUntilIdle(seconds(100)));
  CHECK(executor.steps() == 10);
}

TEST_CASE("a cancelled timer does not run, even where it is already due", "[executor]") {
  // Both are due at the same instant of the same source, so the first runs first and cancels the second.
  SimExecutor executor(1);
  bool ran = false;
  Executor::TimerId second = 0;
  executor.PostAt(MonoTime{} + seconds(1), [&] { executor.Cancel(second); });
  second = executor.PostAt(MonoTime{} + seconds(1), [&] { ran = true; });
  CHECK(executor.RunUntilIdle());
  CHECK_FALSE(ran);
  executor.Cancel(second);
  executor.Cancel(0);
}

// Runs three sources of three tasks each, all due at once. RETURNS: the order, e.g. "a0b0a1...".
std::string Interleaving(uint64_t seed, uint64_t* trace) {
  SimExecutor executor(seed);
  std::string order;
  std::vector<std::unique_ptr<SimSource>> sources;
  for (const char* name : {"a", "b", "c"}) sources.push_back(executor.NewSource(name));
  for (int i = 0; i < 3; ++i) {
    for (const auto& source : sources) {
      source->Post([&order, i, name = source->name()] { order += name + std::to_string(i); });
    }
  }
  executor.RunReady();
  *trace = executor.trace_hash();
  return order;
}

TEST_CASE("sources interleave by the seed; within a source the order of posting holds", "[executor]") {
  std::set<std::string> orders;
  std::set<uint64_t> traces;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    uint64_t trace = 0;
    uint64_t trace_again = 0;
    const std::string order = Interleaving(seed, &trace);
    CHECK(Interleaving(seed, &trace_again) == order);
    CHECK(trace == trace_again);
    REQUIRE(order.size() == 18);
    for (const char* name : {"a", "b", "c"}) {
      const std::string n(name);
      CHECK(order.find(n + "0") < order.find(n + "1"));
      CHECK(order.find(n + "1") < order.find(n + "2"));
    }
    orders.insert(order);
    traces.insert(trace);
  }
  // 9!/(3!)^3 = 1680 orders are possible; 50 draws that give fewer than 25 of them are no shuffle.
  CHECK(orders.size() > 25);
  CHECK(traces.size() == orders.size());
}

TEST_CASE("a paused source runs later, in order; time passes meanwhile", "[executor]") {
  SimExecutor executor(1);
  const auto source = executor.NewSource("paused");
  std::string ran;
  source->PostAt(MonoTime{} + seconds(2), [&] { ran += "2"; });
  source->Post([&] { ran += "0"; });
  source->PostAt(MonoTime{} + seconds(1), [&] { ran += "1"; });
  source->SetPaused(true);
  executor.RunFor(seconds(5));
  CHECK(ran.empty());
  source->SetPaused(false);
  executor.RunReady();
  CHECK(ran == "012");
  CHECK(executor.Mono() == MonoTime{} + seconds(5));
}

TEST_CASE("a closed source runs nothing more and destroys what it held", "[executor]") {
  SimExecutor executor(1);
  auto source = executor.NewSource("process");
  const auto held = std::make_shared<int>(0);
  source->Post([held] { ++*held; });
  source->PostAt(MonoTime{} + seconds(1), [held] { ++*held; });
  CHECK(held.use_count() == 3);
  source->Close();
  CHECK(source->closed());
  CHECK(held.use_count() == 1);
  source->Post([held] { ++*held; });
  source->PostAt(MonoTime{} + seconds(1), [held] { ++*held; });
  CHECK(held.use_count() == 1);
  CHECK(executor.RunUntilIdle());
  CHECK(*held == 0);
}

TEST_CASE("a source may be closed by a task of its own", "[executor]") {
  SimExecutor executor(1);
  auto source = executor.NewSource("process");
  int ran = 0;
  source->Post([&] {
    ++ran;
    source.reset();
  });
  source->Post([&] { ++ran; });
  CHECK(executor.RunUntilIdle());
  CHECK(ran == 1);
}

TEST_CASE("random streams depend on seed and label alone", "[executor]") {
  SimExecutor one(7);
  SimExecutor two(7);
  SimExecutor other(8);
  one.NewRandom("other draws").Next();
  SeededRandom a = one.NewRandom("x");
  SeededRandom b = two.NewRandom("x");
  CHECK(a.Next() == b.Next());
  CHECK(one.NewRandom("x").Next() != one.NewRandom("y").Next());
  CHECK(one.NewRandom("x").Next() != other.NewRandom("x").Next());
}

TEST_CASE("a skewed clock differs on the wall only", "[executor]") {
  SimExecutor executor(1);
  SimClock clock(&executor);
  clock.set_skew(-seconds(30));
  executor.RunFor(seconds(40));
  CHECK(clock.Now() == SimExecutor::kStart + seconds(10));
  CHECK(clock.Mono() == MonoTime{} + seconds(40));
}

}  // namespace
}  // namespace muster::sim
