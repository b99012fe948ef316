// The process is killed (-9) before each of its writes, after it, and while it is on its way; between a stop and the
// restoration; and at random moments. Another takes its place: every Job ends, and none starts more often than it was
// stopped for good reason.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>

#include "fixture/text.h"
#include "world.h"

namespace muster::campaign {
namespace {

using cluster::Cat;
using cluster::FaultProxy;
using cluster::Match;
using std::chrono::milliseconds;

enum class When : uint8_t {
  kBefore,    // the write never reaches the server
  kOnTheWay,  // it reaches the server when its sender is dead
  kAfter,     // the server has done it, and its sender never knew
};

const char* Name(When when) {
  switch (when) {
    case When::kBefore:
      return "before";
    case When::kOnTheWay:
      return "on-the-way";
    case When::kAfter:
      return "after";
  }
  return "";
}

struct Write {
  const char* name;
  Match (*match)(const std::string& ns, const std::string& job);
  int skip = 0;
  bool stops = false;  // its Job has to be stopped once for the write to be made
};

// In the order in which they are provoked: those that take longest first. The second status is that of the end.
constexpr Write kWrites[] = {{"restore", RestorePatch, 0, true}, {"finished", WorkloadStatus, 1},
                             {"stop", StopPatch, 0, true},       {"status", WorkloadStatus},
                             {"create", WorkloadCreate},         {"start", StartPatch}};

// The process is killed while all these writes are held, each for a Job of its own, and a renewal of the lease too.
class Killing {
 public:
  Killing(World& world, When when, std::vector<Write> writes)
      : world_(world), when_(when), writes_(std::move(writes)) {}

  void Do() {
    REQUIRE(world_.Await([&] { return World::Leads(world_.muster()); }));
    for (const Write& write : writes_) Prepare(write);
    for (const Write& write : writes_) {
      if (write.stops) REQUIRE(world_.Await([&] { return world_.Running(Ns(write), "it"); }));
    }
    for (const Write& write : writes_) Provoke(write);
    for (const FaultProxy::RuleId rule : rules_) REQUIRE(world_.Await([&] { return world_.proxy().Hits(rule) > 0; }));
    Hold(LeaseUpdate());
    REQUIRE(world_.proxy().AwaitHits(rules_.back()));
    world_.Kill();
    for (const FaultProxy::RuleId rule : rules_) world_.proxy().Remove(rule, /*forward=*/when_ == When::kOnTheWay);
    world_.Start(Lease::kHasty);
  }

  void AwaitEnd() {
    for (const Write& write : writes_) {
      INFO(Ns(write) << " " << world_.watched().Job(Ns(write), "it").Dump());
      if (write.stops) {
        REQUIRE(world_.Await([&] { return world_.Restored(Ns(write), "it"); }));
        world_.Reopen(Ns(write));
      }
    }
    for (const Write& write : writes_) {
      if (!write.stops) continue;
      INFO(Ns(write));
      REQUIRE(world_.Await([&] { return world_.Running(Ns(write), "it"); }));
      world_.LetEnd(Ns(write), "it");
    }
    for (const Write& write : writes_) REQUIRE(world_.AwaitEnd(Ns(write)));
  }

  std::vector<std::string> Namespaces() const {
    std::vector<std::string> namespaces;
    for (const Write& write : writes_) namespaces.push_back(Ns(write));
    return namespaces;
  }

  void Judge() {
    for (const Write& write : writes_) {
      const std::string ns = Ns(write);
      const Json workload = world_.Workload(ns, "it");
      INFO(ns << " " << workload.At("status").Dump());
      CHECK(world_.watched().Starts(ns, "it") == (write.stops ? 2 : 1));
      CHECK(World::Evictions(workload) == (write.stops ? 1 : 0));
      CHECK(world_.watched().Starts(ns, "next") == 1);
      CHECK(world_.watched().MostGpus(ns) == 2);
    }
  }

 private:
  std::string Ns(const Write& write) const { return Cat("kill-", Name(when_), "-", write.name); }

  void Hold(Match match, int skip = 0) {
    const cluster::Fault fault = when_ == When::kAfter ? cluster::HoldAnswer() : cluster::Hold();
    rules_.push_back(world_.proxy().Add(std::move(match), fault, skip, FaultProxy::kForEver));
  }

  // Everything that has to be there before the write can be provoked at once.
  void Prepare(const Write& write) {
    world_.MakeQueue(Ns(write), 2);
    Hold(write.match(Ns(write), "it"), write.skip);
    if (write.stops) Submit(write, kUntilLet);
  }

  void Submit(const Write& write, const char* run_seconds) {
    world_.Submit(Ns(write), {.name = "it", .pods = 2, .run_seconds = run_seconds});
    world_.Submit(Ns(write), {.name = "next", .pods = 2});  // has room only when the other has gone
  }

  void Provoke(const Write& write) { write.stops ? world_.Drain(Ns(write)) : Submit(write, "1"); }

  World& world_;
  const When when_;
  const std::vector<Write> writes_;
  std::vector<FaultProxy::RuleId> rules_;
};

TEST_CASE("Killed before a write, while it is on its way, or after it, the next process finds what is true") {
  World& world = Shared();
  const Run run(Lease::kHasty);
  std::vector<Killing> killings;
  for (const When when : {When::kBefore, When::kOnTheWay, When::kAfter}) {
    if (!Long()) {
      killings.emplace_back(world, when, std::vector<Write>(std::begin(kWrites), std::end(kWrites)));
      continue;
    }
    for (const Write& write : kWrites) killings.emplace_back(world, when, std::vector<Write>{write});
  }
  for (Killing& killing : killings) killing.Do();
  std::vector<std::string> namespaces;
  for (Killing& killing : killings) {
    killing.AwaitEnd();
    for (const std::string& ns : killing.Namespaces()) namespaces.push_back(ns);
  }
  world.CheckRecount(namespaces);
  for (Killing& killing : killings) killing.Judge();
}

// Who started again was stopped, and its Workload says so. One that was stopped in its last moments may have ended all
// the same.
void JudgeStarts(World& world, const std::string& ns) {
  const Snapshot seen = world.Look();
  for (const Json& workload : seen.workloads.at(ns)) {
    const std::string job = workload.At("metadata/ownerReferences/0/name").Str();
    INFO(ns << "/" << job << " " << workload.At("status").Dump());
    const int64_t evictions = World::Evictions(workload);
    CHECK(world.watched().Starts(ns, job) >= std::max<int64_t>(1, evictions));
    CHECK(world.watched().Starts(ns, job) <= 1 + evictions);
  }
}

// MUSTER_SEED begins the row of seeds anew.
uint32_t FirstSeed() {
  const char* given = std::getenv("MUSTER_SEED");
  return given == nullptr ? std::random_device()() % 1000000 : static_cast<uint32_t>(std::strtoul(given, nullptr, 10));
}

// user_pains H12
TEST_CASE("Killed at random moments") {
  World& world = Shared();
  const Run run(Lease::kHasty);
  world.MakeQueue("random", 8);
  world.MakeQueue("random-stops", 4);
  const int points = Long() ? 100 : 20;
  const uint32_t first = FirstSeed();
  for (int i = 0; i < points; ++i) {
    std::mt19937 random(first + static_cast<uint32_t>(i));
    const auto below = [&random](unsigned bound) { return random() % bound; };
    // Two in five die while they wait for their predecessor's lease to run out.
    const bool leads = below(5) > 1;
    if (leads) REQUIRE(world.Await([&] { return World::Leads(world.muster()); }));
    for (unsigned j = 0; j < 4; ++j) {
      world.Submit(
          j < 3 ? "random" : "random-stops",
          {.name = Cat("job-", i, "-", j), .pods = 1 + static_cast<int>(below(4)), .run_seconds = Cat(1 + below(4))});
    }
    if (i % 4 == 2) world.Drain("random-stops");
    if (i % 4 == 3) world.Reopen("random-stops");
    const milliseconds wait(below(2) == 0 ? below(300) : below(leads ? 3000 : 1500));
    std::printf("kill %d: seed %u, %s, %d ms after the last Job\n", i, first + static_cast<uint32_t>(i),
                leads ? "leading" : "starting", static_cast<int>(wait.count()));
    std::fflush(stdout);
    std::this_thread::sleep_for(wait);
    world.Kill();
    world.Start(Lease::kHasty);
  }
  world.Reopen("random-stops");
  for (const char* ns : {"random", "random-stops"}) REQUIRE(world.AwaitEnd(ns));
  world.CheckRecount({"random", "random-stops"});
  JudgeStarts(world, "random");
  JudgeStarts(world, "random-stops");
  CHECK(world.watched().Starts("random") == 3 * points);
  CHECK(world.watched().MostGpus("random") <= 8);
  CHECK(world.watched().MostGpus("random-stops") <= 4);
}

}  // namespace
}  // namespace muster::campaign
