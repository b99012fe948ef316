// What differs between Kubernetes 1.30 and 1.36, found out at the start (README, "Kubernetes versions").
#include <catch2/catch.hpp>

#include "muster/controller/policies.h"
#include "world.h"

namespace muster::controller {
namespace {

using sim::At;
using sim::Json;
using std::chrono::seconds;

sim::ServerOptions Version(int minor, bool mutating_policies) {
  sim::ServerOptions options;
  options.minor_version = minor;
  options.mutating_policies = mutating_policies;
  return options;
}

sim::ControllerOptions KeepsStartTime() {
  sim::ControllerOptions options;
  options.keeps_start_time = true;
  return options;
}

std::vector<std::string> Problems(World& world, Options options = World::DefaultOptions()) {
  Process& muster = world.Start("a", options);
  REQUIRE(world.RunUntil([&] { return muster.controller->health().leading; }));
  world.RunFor(seconds(5));
  return muster.controller->health().problems;
}

TEST_CASE("nothing is said of an API server that has all") {
  World world;
  CHECK(Problems(world).empty());
}

TEST_CASE("an API server without mutating policies is told of, once, and they are not missed one by one") {
  World world(1, true, Version(33, false));
  Options options = World::DefaultOptions();
  options.check_policies = true;
  const std::vector<std::string> problems = Problems(world, options);
  std::vector<std::string> expected = {
      "Kubernetes 1.33 does not serve MutatingAdmissionPolicy v1: queued Jobs must be created with suspend: true and "
      "a queue name, fields that the API versions name differently are not kept equal, and a v1beta1 client that "
      "replaces a Workload's status drops what it does not know"};
  // None of the policies is installed here.
  for (const PolicyExpectation& policy : ExpectedPolicies(PolicyOptionsOf(options))) {
    if (policy.kind.starts_with("Validating")) expected.push_back(policy.kind + " " + policy.name + " is missing");
  }
  expected.emplace_back(
      "policies are put in force by applying what \"muster policies\" prints with Muster's configuration");
  CHECK(problems == expected);
}

TEST_CASE("1.36 with mutating policies turned off is told of too, and a version that is too old by its number") {
  World off(1, true, Version(36, false));
  REQUIRE(Problems(off).size() == 1);
  World old(1, true, Version(29, false));
  CHECK(Problems(old) ==
        std::vector<std::string>{"Kubernetes 1.29 is too old: 1.30 is the oldest that Muster works with"});
}

struct Evicted {
  int status_writes = 0;
  Duration until_restored{0};
};

// A gang is started and deactivated again: how its template is restored.
Evicted Evict(World& world) {
  world.Start("a");
  world.MakeQueues("4");
  world.MakeJob("job-0", 2, 600);
  const auto job = [&] { return world.Get("jobs", "team", "job-0"); };
  REQUIRE(world.RunUntil([&] { return sim::Number(At(job(), "status", "active")) == 2; }));
  const Json workload = world.WorkloadOf("job-0");
  const size_t before = world.server.writes().size();
  world.Patch("workloads", "team", sim::Text(At(workload, "metadata", "name")), {{"spec", {{"active", false}}}});
  REQUIRE(world.RunUntil([&] { return sim::HasCondition(job(), "Suspended"); }));
  const WallTime stopped = world.executor.Now();
  REQUIRE(world.RunUntil([&] { return !At(job(), "spec", "template", "spec").contains("nodeSelector"); }));
  return {world.Writes(before)["patch jobs/status"], world.executor.Now() - stopped};
}

TEST_CASE("up to 1.35 the start time of a stopped Job is cleared by a write, without waiting for anybody") {
  World world(1, true, Version(35, true), KeepsStartTime());
  const Evicted evicted = Evict(world);
  CHECK(evicted.status_writes == 1);
  CHECK(evicted.until_restored < seconds(2));
}

TEST_CASE("from 1.36 on the job controller clears it, and Muster only where it does not in time") {
  World world(1, true, Version(36, true));
  CHECK(Evict(world).status_writes == 0);
  World slow(1, true, Version(36, true), KeepsStartTime());
  const Evicted evicted = Evict(slow);
  CHECK(evicted.status_writes == 1);
  CHECK(evicted.until_restored >= seconds(2));
}

}  // namespace
}  // namespace muster::controller
