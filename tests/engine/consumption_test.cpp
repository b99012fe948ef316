// Admission fair sharing (kueue_semantics 9.12): amounts by hand with a sampling interval of half a half-life, so that
// in one interval a consumption falls to 1/sqrt(2) of what it was, and what is in use adds 1 - 1/sqrt(2) of it.
#include <rapidcheck.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "cluster.h"
#include "draws.h"

namespace muster::engine {

namespace {

using Names = std::vector<std::string>;
constexpr int64_t kCpus = 1'000'000;  // milli: a thousand cpus, so that rounding does not show

EngineOptions Afs() {
  EngineOptions options;
  AdmissionFairSharing& sharing = options.admission_fair_sharing.emplace();
  sharing.usage_half_life_time = std::chrono::seconds(600);
  sharing.usage_sampling_interval = std::chrono::seconds(300);
  return options;
}

ClusterQueue UsageBased(int64_t nominal) {
  ClusterQueue queue = CpuQueue("cq", "", nominal);
  queue.usage_based_admission = true;
  return queue;
}

LocalQueue Local(const std::string& name, int64_t weight_halves = 2) {
  LocalQueue queue;
  queue.ns = "ns";
  queue.name = name;
  queue.cluster_queue = "cq";
  queue.fair_weight = {weight_halves * 500'000'000};
  return queue;
}

Workload Thousands(const std::string& uid, const std::string& queue, int32_t pods, int64_t created = 1) {
  Workload workload = Gang(uid, queue, pods, created);
  workload.pod_sets[0].shape = CpuShape(kCpus);
  return workload;
}

struct World : Cluster {
  explicit World(const EngineOptions& options = Afs(), int64_t thousands = 2) : Cluster(options) {
    Apply(ClusterQueueChanged{UsageBased(thousands * kCpus)});
    Apply(LocalQueueChanged{Local("one")});
    Apply(LocalQueueChanged{Local("two")});
  }
  std::optional<LocalQueueConsumption> Of(const std::string& name) const {
    return engine.ViewLocalQueue("ns", name).consumption;
  }
  double Usage(const std::string& name) const {
    return static_cast<double>(Of(name)->numerator) / static_cast<double>(Of(name)->denominator);
  }
  int64_t Cpu(const std::string& name) const {
    const auto amounts = Of(name)->resources.amounts;
    return amounts.empty() ? 0 : amounts.at(0).second.value;
  }
};

}  // namespace

TEST_CASE("admissions alternate between LocalQueues that have consumed alike") {
  for (const bool fair : {false, true}) {
    World world(fair ? Afs() : EngineOptions{}, 4);
    for (const char* uid : {"a1", "a2", "a3", "a4"}) world.Submit(Thousands(uid, "one", 1, 1));
    for (const char* uid : {"b1", "b2", "b3", "b4"}) world.Submit(Thousands(uid, "two", 1, 2));
    // Equal at first, so the earlier; then each admission weighs on its own queue.
    CHECK(world.Run() == (fair ? Names{"a1", "b1", "a2", "b2"} : Names{"a1", "a2", "a3", "a4"}));
  }
}

TEST_CASE("a queue of twice the weight gets twice as much, and one of weight 0 what is left") {
  World world(Afs(), 7);
  world.Apply(LocalQueueChanged{Local("two", 4)});
  world.Apply(LocalQueueChanged{Local("zero", 0)});
  world.Submit(Thousands("z", "zero", 1, 1));
  for (const char* uid : {"a1", "a2", "a3"}) world.Submit(Thousands(uid, "one", 1, 2));
  for (const char* uid : {"b1", "b2", "b3"}) world.Submit(Thousands(uid, "two", 1, 3));
  // By consumption, of one and two: 0 and 0, 1 and 0, 1 and 1/2, 1 and 1, 2 and 1.
  CHECK(world.Run() == Names{"a1", "b1", "b2", "a2", "b3", "a3", "z"});
}

TEST_CASE("consumption follows usage by its half-life, sampled when the interval is over") {
  World world;
  CHECK_FALSE(world.Of("one").has_value());
  world.Submit(Thousands("w", "one", 2));
  CHECK(world.Run(At(100)) == Names{"w"});
  // At once what it adds in an interval: 2 - sqrt(2) thousand cpus.
  CHECK(world.Cpu("one") == 585'786);
  CHECK(world.Of("one")->resources.as_of == At(100));
  CHECK(std::abs(world.Usage("one") - 585.786) < 0.001);
  CHECK(world.engine.NextDue() == At(400));
  world.Run(At(399));
  CHECK(world.Cpu("one") == 585'786);
  // (2 - sqrt(2))/sqrt(2) + 2 - sqrt(2) = 1
  world.Run(At(400));
  CHECK(world.Cpu("one") == 1'000'000);
  CHECK(world.Of("one")->resources.as_of == At(400));
  CHECK(world.engine.NextDue() == At(700));
  world.Run(At(700));
  CHECK(world.Cpu("one") == 1'292'893);  // 1/sqrt(2) + 2 - sqrt(2)
  world.Finish("w");
  world.Run(At(1300));
  CHECK(world.Cpu("one") == 646'447);  // a half-life later, a half
  CHECK(world.Of("two")->resources == ConsumedResources{{}, At(100)});
  // Nothing is followed for ever.
  int rounds = 0;
  WallTime now = At(1300);
  for (; world.engine.NextDue().IsSet(); ++rounds) {
    now = world.engine.NextDue();
    world.Run(now);
    REQUIRE(rounds < 100);
  }
  CHECK(world.Of("one")->resources == ConsumedResources{{}, now});
}

TEST_CASE("who has consumed more waits until it is forgotten") {
  World world(Afs(), 1);
  world.Submit(Thousands("ran", "one", 1));
  CHECK(world.Run(At(100)) == Names{"ran"});
  world.Submit(Thousands("again", "one", 1, 2));
  world.Submit(Thousands("other", "two", 1, 3));
  world.Run(At(200));
  world.Finish("ran");
  CHECK(world.Run(At(201)) == Names{"other"});
}

TEST_CASE("an admission that is refused has consumed nothing") {
  World world(Afs(), 1);
  world.Submit(Thousands("w", "one", 1));
  const std::vector<Decision> decisions = world.engine.Decide(At(100));
  const auto* admit = std::get_if<Admit>(&decisions.at(0));
  REQUIRE(admit != nullptr);
  // As a penalty, which is not in the status yet.
  CHECK(world.Of("one")->resources.amounts.empty());
  CHECK(std::abs(world.Usage("one") - 292.893) < 0.001);
  world.Apply(ClaimRefused{"w", admit->claim, At(5000), "no"});
  CHECK(world.Usage("one") == 0);
}

TEST_CASE("after a restart consumption goes on from what the status says") {
  World world(Afs(), 1);
  LocalQueue one = Local("one");
  one.consumed = ConsumedResources{{{"cpu", Amount{kCpus}}}, At(100)};
  World after(Afs(), 1);
  after.Apply(LocalQueueDeleted{"ns", "one"});
  after.Apply(LocalQueueChanged{one});
  after.Submit(Thousands("early", "one", 1, 1));
  after.Submit(Thousands("late", "two", 1, 2));
  CHECK(after.Run(At(700)) == Names{"late"});
  CHECK(after.Cpu("one") == kCpus / 2);
  // What the own writes bring back is not read again.
  one.consumed = ConsumedResources{{{"cpu", Amount{7}}}, At(700)};
  after.Apply(LocalQueueChanged{one});
  after.Run(At(701));
  CHECK(after.Cpu("one") == kCpus / 2);
}

TEST_CASE("only queues whose scope says so are followed, from when on it does") {
  World world;
  world.Submit(Thousands("w", "one", 2));
  world.Run(At(100));
  CHECK(world.Of("one").has_value());
  world.Apply(ClusterQueueChanged{CpuQueue("cq", "", 2 * kCpus)});
  CHECK_FALSE(world.Of("one").has_value());
  CHECK_FALSE(world.engine.NextDue().IsSet());
  world.Apply(ClusterQueueChanged{UsageBased(2 * kCpus)});
  world.Run(At(1000));
  CHECK(world.Cpu("one") == 0);
  world.Run(At(1600));
  CHECK(world.Cpu("one") == kCpus);  // half of what is in use
  world.Apply(ClusterQueueDeleted{"cq"});
  CHECK_FALSE(world.Of("one").has_value());
  world.Apply(LocalQueueDeleted{"ns", "one"});
}

TEST_CASE("resources count by their weights, others by 1, each in its unit") {
  EngineOptions options = Afs();
  options.admission_fair_sharing->resource_weights = {{"cpu", 0}, {"gpu", 2'500'000'000}};
  World world(options);
  ClusterQueue queue = UsageBased(kCpus);
  for (const char* name : {"gpu", "memory"}) {
    queue.resource_groups[0].covered_resources.emplace_back(name);
    queue.resource_groups[0].flavors[0].resources.push_back({name, Amount{1000}, std::nullopt, std::nullopt});
  }
  world.Apply(ClusterQueueChanged{queue});
  Workload workload = Thousands("w", "one", 1);
  gang::Shape shape;
  shape.requests = {{"cpu", Amount{1000}}, {"gpu", Amount{4}}, {"memory", Amount{100}}};
  workload.pod_sets[0].shape = std::make_shared<const gang::Shape>(std::move(shape));
  world.Submit(workload);
  CHECK(world.Run() == Names{"w"});
  const double part = 1 - std::sqrt(0.5);
  CHECK(std::abs(world.Usage("one") - part * (4 * 2.5 + 100)) < 0.001);
}

TEST_CASE("with a half-life of zero nothing is remembered") {
  EngineOptions options = Afs();
  options.admission_fair_sharing->usage_half_life_time = Duration(0);
  World world(options);
  world.Submit(Thousands("a1", "one", 1, 1));
  world.Submit(Thousands("a2", "one", 1, 2));
  world.Submit(Thousands("b", "two", 1, 3));
  CHECK(world.Run() == Names{"a1", "a2"});
  CHECK(world.Usage("one") == 0);
}

TEST_CASE("in fixed point consumption stays within a unit of what real numbers give") {
  CHECK(rc::check([] {
    EngineOptions options = Afs();
    const int64_t half_life = Draw<int64_t>(1, 1'000'000);
    options.admission_fair_sharing->usage_half_life_time = std::chrono::seconds(half_life);
    options.admission_fair_sharing->usage_sampling_interval = std::chrono::seconds(1);
    World world(options, 2'000'000);
    world.Submit(Thousands("w", "one", 1'000'000));  // 10^12 base units
    int64_t now = 100;
    world.Run(At(now));
    const auto factor = [half_life](int64_t seconds) {
      return std::pow(0.5L, static_cast<long double>(seconds) / static_cast<long double>(half_life));
    };
    const long double in_use = 1e12L;
    long double expected = in_use * (1 - factor(1));
    for (int i = 0; i < 50; ++i) {
      const int64_t passed = Draw<int64_t>(1, 5000);
      now += passed;
      world.Run(At(now));
      expected = expected * factor(passed) + in_use * (1 - factor(passed));
      // Factors are in units of 2^-40: each sample may be off by 10^12 of them, which is a unit.
      RC_ASSERT(std::abs(static_cast<long double>(world.Cpu("one")) - expected) < 2.0L * (i + 2));
    }
  }));
}

// kueue_semantics 6.2: among those of one ClusterQueue the LocalQueue that consumed most goes before the priority.
TEST_CASE("whose LocalQueue has consumed most is the first to go, whatever the priorities that may go") {
  // "two" is admitted three times as much as "one": of each, 1 - 1/sqrt(2) counts as consumed at once.
  struct Case {
    EngineOptions options;
    int64_t weight_halves_of_two;
    int32_t priority_of_two;
    std::string victim;
  };
  EngineOptions both = Afs();
  both.fair_sharing.emplace();
  const Case kCases[] = {
      {EngineOptions{}, 2, 1, "a"},  // not looked at: the lower priority
      {Afs(), 2, 1, "b"},
      {both, 2, 1, "b"},
      {Afs(), 8, 1, "a"},  // with a weight of 4, "two" has consumed 3/4 of what "one" has
      {Afs(), 0, 1, "b"},  // with no weight, more than all others
      {Afs(), 2, 9, "a"},  // the first one may not go
      {both, 2, 9, "a"},
  };
  for (const Case& c : kCases) {
    CAPTURE(c.weight_halves_of_two, c.priority_of_two, c.victim);
    World world(c.options, 4);
    ClusterQueue queue = UsageBased(4 * kCpus);
    queue.within_cluster_queue = PreemptionPolicy::kLowerPriority;
    world.Apply(ClusterQueueChanged{queue});
    world.Apply(LocalQueueChanged{Local("two", c.weight_halves_of_two)});
    world.Submit(Thousands("a", "one", 1, 1));
    Workload b = Thousands("b", "two", 3, 2);
    b.priority = c.priority_of_two;
    world.Submit(b);
    REQUIRE(world.Run().size() == 2);
    Workload high = Thousands("high", "one", 1, 3);
    high.priority = 5;
    world.Submit(high);
    world.Run();
    CHECK(world.Preempted() == Names{c.victim + " for high"});
  }
}

TEST_CASE("of those whose LocalQueues have consumed alike, and of one LocalQueue, priority decides who goes") {
  World world(Afs(), 4);
  ClusterQueue queue = UsageBased(4 * kCpus);
  queue.within_cluster_queue = PreemptionPolicy::kLowerPriority;
  world.Apply(ClusterQueueChanged{queue});
  int64_t at = 1;
  for (const auto& [uid, local, priority] : {std::tuple{"a2", "one", 2}, std::tuple{"b1", "two", 1},
                                             std::tuple{"a3", "one", 3}, std::tuple{"b4", "two", 4}}) {
    Workload workload = Thousands(uid, local, 1, at++);
    workload.priority = priority;
    world.Submit(workload);
  }
  REQUIRE(world.Run().size() == 4);
  REQUIRE(world.Usage("one") == world.Usage("two"));
  Workload high = Thousands("high", "one", 3, 9);
  high.priority = 5;
  world.Submit(high);
  world.Run();
  CHECK(world.Preempted() == Names{"b1 for high", "a2 for high", "a3 for high"});
}

}  // namespace muster::engine
