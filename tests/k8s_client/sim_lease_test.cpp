// Leader election among processes that are paused, cut off and killed: never may two write.
#include <catch2/catch.hpp>
#include <set>

#include "muster/k8s_client/lease.h"
#include "sim_world.h"

namespace muster::k8s {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

struct Candidate {
  Candidate(SimWorld* world, const std::string& name) : process(&world->executor, &world->server, name) {
    clock = std::make_unique<sim::SimClock>(&world->executor);
    // Wall clocks disagree; nothing may depend on them.
    clock->set_skew(seconds(static_cast<int64_t>(process.random.Below(600)) - 300));
    process.env.clock = clock.get();
    const LeaseOptions options{.ns = "p", .identity = name};
    LeaderElector::Callbacks callbacks;
    callbacks.started_leading = [this](uint64_t term) { terms.push_back(term); };
    callbacks.stopped_leading = [this] { stopped = true; };
    callbacks.new_leader = [this](const std::string& who) { leader = who; };
    elector = std::make_unique<LeaderElector>(process.env, process.client.get(), options, callbacks);
    elector->Start();
  }
  SimProcess process;
  std::unique_ptr<sim::SimClock> clock;
  std::vector<uint64_t> terms;
  bool stopped = false;
  std::string leader;
  std::unique_ptr<LeaderElector> elector;
};

TEST_CASE("the first of two leads, and the other knows") {
  SimWorld world(1);
  Candidate a(&world, "a");
  world.executor.RunFor(seconds(1));
  Candidate b(&world, "b");
  world.executor.RunFor(minutes(5));
  CHECK(a.elector->MayWrite());
  CHECK(a.elector->term() == 1);
  CHECK_FALSE(b.elector->leading());
  CHECK(b.leader == "a");
}

TEST_CASE("the standby takes over from a leader that died, within 15 s and one retry") {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    SimWorld world(seed);
    Candidate a(&world, "a");
    world.executor.RunFor(seconds(1));
    Candidate b(&world, "b");
    world.executor.RunFor(seconds(30));
    a.process.source->Close();
    const MonoTime died = world.executor.Mono();
    REQUIRE(world.executor.RunUntil([&] { return b.elector->leading(); }, seconds(60)));
    CHECK(world.executor.Mono() - died >= seconds(11));           // the last renewal may be 2 s old, and seen late
    CHECK(world.executor.Mono() - died <= milliseconds(24'000));  // seen up to 4.4 s late, then 15 s, then 4.4 s
    CHECK(b.elector->term() == 2);
  }
}

TEST_CASE("the standby takes over at once from a leader that released") {
  SimWorld world(1);
  Candidate a(&world, "a");
  world.executor.RunFor(seconds(1));
  Candidate b(&world, "b");
  world.executor.RunFor(seconds(30));
  bool released = false;
  a.elector->Release([&] { released = true; });
  REQUIRE(world.executor.RunUntil([&] { return b.elector->leading(); }, milliseconds(4'500)));
  CHECK(released);
  CHECK_FALSE(a.stopped);
  CHECK(b.elector->term() == 2);
}

TEST_CASE("a leader that is paused wakes unable to write, and stops", "[lease]") {
  SimWorld world(1);
  Candidate a(&world, "a");
  world.executor.RunFor(seconds(1));
  Candidate b(&world, "b");
  world.executor.RunFor(seconds(30));
  a.process.source->SetPaused(true);
  REQUIRE(world.executor.RunUntil([&] { return b.elector->leading(); }, seconds(60)));
  CHECK_FALSE(a.elector->MayWrite());
  a.process.source->SetPaused(false);
  CHECK_FALSE(a.elector->MayWrite());
  REQUIRE(world.executor.RunUntil([&] { return a.stopped; }, seconds(15)));
  CHECK(b.elector->leading());
}

TEST_CASE("a leader that nobody answers stops, and a new one is found when the server is back") {
  SimWorld world(1);
  Candidate a(&world, "a");
  world.executor.RunFor(seconds(1));
  Candidate b(&world, "b");
  world.executor.RunFor(seconds(30));
  world.server.SetDown(true);
  const MonoTime down = world.executor.Mono();
  REQUIRE(world.executor.RunUntil([&] { return !a.elector->MayWrite(); }, seconds(60)));
  CHECK(world.executor.Mono() - down <= seconds(10));
  REQUIRE(world.executor.RunUntil([&] { return a.stopped; }, seconds(60)));
  world.executor.RunFor(minutes(1));
  world.server.SetDown(false);
  REQUIRE(world.executor.RunUntil([&] { return b.elector->leading(); }, seconds(30)));
}

TEST_CASE("under pauses and faults at random, never may two write, and terms only grow", "[property]") {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    INFO("seed " << seed);
    SimWorld world(seed);
    SeededRandom chance = world.executor.NewRandom("test");
    sim::RandomFaults rates;
    rates.write_permille = 200;
    rates.read_permille = 200;
    rates.delay_max = seconds(12);
    world.server.faults().SetRandom(world.executor.NewRandom("faults"), rates);
    std::vector<std::unique_ptr<Candidate>> candidates;
    std::set<uint64_t> terms;
    int started = 0;
    const auto add = [&] { candidates.push_back(std::make_unique<Candidate>(&world, absl::StrCat("c", ++started))); };
    for (int i = 0; i < 3; ++i) add();
    uint64_t last_term = 0;
    const MonoTime end = world.executor.Mono() + minutes(20);
    MonoTime next = world.executor.Mono();
    while (world.executor.Mono() < end) {
      if (!world.executor.Step(next)) world.executor.RunFor(next - world.executor.Mono());
      int writers = 0;
      for (const auto& candidate : candidates) {
        if (!candidate->elector->MayWrite()) continue;
        ++writers;
        if (candidate->elector->term() == last_term) continue;
        REQUIRE(candidate->elector->term() > last_term);
        last_term = candidate->elector->term();
        terms.insert(last_term);
      }
      if (writers > 1) FAIL("two may write");
      if (world.executor.Mono() < next) continue;
      next = next + seconds(static_cast<int64_t>(1 + chance.Below(20)));
      const auto& one = candidates[chance.Below(candidates.size())];
      one->process.source->SetPaused(chance.Below(2) == 0);
      // Who stopped is started again, as a new process.
      for (auto& candidate : candidates) {
        if (!candidate->stopped) continue;
        candidate.reset();
        candidate = std::make_unique<Candidate>(&world, absl::StrCat("c", ++started));
      }
    }
    CHECK(terms.size() >= 3);
  }
}

}  // namespace
}  // namespace muster::k8s
