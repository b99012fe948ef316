#include "drills.h"

#include <catch2/catch.hpp>

namespace muster::controller {

using sim::At;
using sim::Fault;
using sim::Json;
using sim::Text;

std::string Way::Name() const { return "way " + std::to_string(static_cast<int>(kind)) + " " + std::to_string(status); }

const std::vector<Way>& AllWays() {
  static const std::vector<Way> ways = {{Fault::Kind::kRefuse, 0},           {Fault::Kind::kAnswer, 409},
                                        {Fault::Kind::kAnswer, 422},         {Fault::Kind::kAnswer, 429},
                                        {Fault::Kind::kAnswer, 500},         {Fault::Kind::kAnswer, 403},
                                        {Fault::Kind::kApplyAndAnswer, 500}, {Fault::Kind::kLoseRequest, 0},
                                        {Fault::Kind::kLoseAnswer, 0},       {Fault::Kind::kHang, 0},
                                        {Fault::Kind::kDelayRequest, 0},     {Fault::Kind::kDelayAnswer, 0}};
  return ways;
}

sim::FaultRule Strike(const Way& way, std::string_view verb, std::string_view resource, int times,
                      std::string body_contains) {
  sim::FaultRule rule;
  rule.user = World::kMuster;
  rule.verbs = {std::string(verb)};
  rule.resource = resource;
  rule.body_contains = std::move(body_contains);
  rule.times = times;
  rule.fault.kind = way.kind;
  rule.fault.status = way.status;
  rule.fault.delay = std::chrono::seconds(3);
  return rule;
}

WriteCounter::WriteCounter(World* world, sim::SimServer::Phase phase) : world_(world) {
  world->server.SetObserver([this, phase](const sim::ApiRequest& request, sim::SimServer::Phase at) {
    const bool counts = at == phase && request.IsWrite() && request.user == World::kMuster &&
                        request.Resource().find("events") == std::string::npos;
    if (counts) ++seen_;
  });
}

WriteCounter::~WriteCounter() { world_->server.SetObserver(nullptr); }

void ComesToRest(World& world, Process& muster, Duration settle) {
  world.RunFor(settle);
  muster.controller->engine()->Validate();
  const size_t before = world.server.writes().size();
  world.RunFor(std::chrono::minutes(2));
  std::map<std::string, int> writes = world.Writes(before);
  writes.erase("update leases");
  for (const auto& [write, count] : writes) UNSCOPED_INFO(write << ": " << count);
  CHECK(writes.empty());
}

void AtRest(World& world, Process& muster) {
  ComesToRest(world, muster, std::chrono::minutes(4));
  CHECK(Reserving(world) == 0);
  CHECK(Pending(world) == 0);
  for (const Json& workload : world.List("workloads", "team")) {
    INFO(workload.dump());
    CHECK(sim::HasCondition(workload, "Finished"));
  }
}

bool Suspended(const World& world, const std::string& job) {
  return sim::Flag(At(world.Get("jobs", "team", job), "spec", "suspend"));
}

int64_t Reserving(const World& world, const std::string& queue) {
  return sim::Number(At(world.Get("clusterqueues", "", queue), "status", "reservingWorkloads"), -1);
}

int64_t Pending(const World& world, const std::string& queue) {
  return sim::Number(At(world.Get("clusterqueues", "", queue), "status", "pendingWorkloads"), -1);
}

std::string ConditionOf(const Json& object, const std::string& type) {
  const Json& condition = sim::FindCondition(At(object, "status", "conditions"), type);
  if (condition.is_null()) return "";
  return Text(sim::Get(condition, "status")) + "/" + Text(sim::Get(condition, "reason"));
}

std::string MessageOf(const Json& object, const std::string& type) {
  return Text(sim::Get(sim::FindCondition(At(object, "status", "conditions"), type), "message"));
}

int64_t EvictionsIn(const Json& workload, const std::string& reason) {
  int64_t sum = 0;
  for (const Json& count : At(workload, "status", "schedulingStats", "evictions")) {
    if (reason.empty() || Text(sim::Get(count, "reason")) == reason) sum += sim::Number(sim::Get(count, "count"));
  }
  return sum;
}

}  // namespace muster::controller
