// ResourceQuotas of namespaces, as the real API server enforces them: no gang is cut by one. The job controller tells
// of each pod that was refused, so that one which was cut shows.
#include <atomic>
#include <catch2/catch.hpp>
#include <string>
#include <thread>
#include <vector>

#include "fixture/text.h"
#include "team.h"

namespace muster::cluster {
namespace {

constexpr char kGpus[] = "requests.nvidia.com/gpu";

void SetQuota(Team* team, const std::string& hard, int gpus) {
  const std::string spec = Cat(R"({"spec": {"hard": {)", Quote(hard), R"(: ")", gpus, R"("}}})");
  ApiClient& api = team->ground().api();
  if (api.Get(team->Path("resourcequotas/limits")).ok()) {
    REQUIRE(api.MergePatch(team->Path("resourcequotas/limits"), spec).ok());
  } else {
    const ApiResponse created =
        api.Create(team->Path("resourcequotas"), Cat(R"({"metadata": {"name": "limits"}, )", spec.substr(1)));
    INFO(created.text);
    REQUIRE(created.status == 201);
  }
  // It is enforced once its status says so.
  REQUIRE(Eventually([&] {
    return api.Get(team->Path("resourcequotas/limits")).json.At("status/hard")[hard].Str() == std::to_string(gpus);
  }));
}

std::string Used(Team* team, const std::string& of) {
  return team->ground().api().Get(team->Path("resourcequotas/limits")).json.At("status/used")[of].Str();
}

// What the job controller tells of pods that a ResourceQuota did not let in. Another refusal, as of a status that was
// changed meanwhile, cuts nothing: the pod is made again at once.
std::vector<std::string> Refused(Team* team) {
  std::vector<std::string> refused;
  for (const Json& event :
       team->ground().api().Get(team->Path("events") + "?fieldSelector=reason%3DFailedCreate").json["items"].Items()) {
    const std::string message = event["message"].Str();
    UNSCOPED_INFO(message);
    if (message.find("exceeded quota") != std::string::npos) refused.push_back(message);
  }
  return refused;
}

std::string Code(Team* team, const std::string& job) {
  return team->WorkloadOf(job).At("status/conditions").Find("type", "muster.dev/Waiting")["reason"].Str();
}

Gang Brief(int pods) {
  return {.pods = pods, .annotations = {{"muster.dev/start-seconds", "0.05"}, {"muster.dev/run-seconds", "0.2"}}};
}

}  // namespace

// D9
TEST_CASE("A gang of eight in a namespace that lets in four waits and holds nothing, until that is raised or goes") {
  Team team(Ground::Shared(), "limited", {Gpus(8), Gpus(8)});
  SetQuota(&team, kGpus, 4);
  team.Create("gang", {.pods = 8});
  REQUIRE(Eventually([&] {
    return team.WaitsFor("gang") ==
           "exceeded quota: limits, requested: requests.nvidia.com/gpu=8, used: requests.nvidia.com/gpu=0, limited: "
           "requests.nvidia.com/gpu=4";
  }));
  CHECK(Code(&team, "gang") == "ResourceQuota");
  CHECK(team.HasNoPods("gang"));
  // Those that get in start behind it, and not beyond what is left.
  team.Create("small", {.pods = 3});
  REQUIRE(Eventually([&] { return team.Runs("small", 3); }));
  team.CreateBare("stranger", Gpus(1));
  REQUIRE(Eventually([&] { return Used(&team, kGpus) == "4"; }));
  team.Create("one", {.pods = 1});
  REQUIRE(Eventually([&] { return Code(&team, "one") == "ResourceQuota"; }));
  CHECK(team.Suspended("gang"));
  // What a pod that goes had used wakes it.
  team.DeletePod("stranger");
  REQUIRE(Eventually([&] { return team.Runs("one", 1); }));
  SetQuota(&team, kGpus, 12);
  REQUIRE(Eventually([&] { return team.Runs("gang", 8); }));
  CHECK(Eventually([&] { return Used(&team, kGpus) == "12"; }));
  team.Create("late", {.pods = 2});
  REQUIRE(Eventually([&] { return Code(&team, "late") == "ResourceQuota"; }));
  REQUIRE(team.ground().api().Delete(team.Path("resourcequotas/limits")).ok());
  REQUIRE(Eventually([&] { return team.Runs("late", 2); }));
  CHECK(Refused(&team).empty());
}

// What ended pods had used is free after seconds only: ten namespaces at once, five times.
TEST_CASE("Gangs that race for what a namespace lets in: none is ever cut") {
  Ground& ground = Ground::Shared();
  Teams teams;
  for (int i = 0; i < 10; ++i) {
    const std::vector<Amounts> nodes(i == 0 ? 1 : 0, Gpus(100));
    SetQuota(&teams.Add(ground, Cat("contended-", i), nodes, {.nodes_of = "contended-0"}), "pods", 6);
  }
  for (int round = 0; round < 5; ++round) {
    CAPTURE(round);
    std::atomic<int> created = 0;
    const auto create = [&](const std::string& job) {
      for (Team* team : teams) created += team->TryCreate(job, Brief(4)).status == 201 ? 1 : 0;
    };
    const std::string a = Cat("a-", round);
    const std::string b = Cat("b-", round);
    std::thread other([&] { create(b); });
    create(a);
    other.join();
    REQUIRE(created == 20);
    for (Team* team : teams) REQUIRE(Eventually([&] { return team->Completed(a) && team->Completed(b); }));
  }
  for (Team* team : teams) CHECK(Refused(team).empty());
}

TEST_CASE("A gang whose namespace is full evicts nobody, however urgent it is") {
  Ground& ground = Ground::Shared();
  REQUIRE(ground.cluster()
              .ApplyText("apiVersion: kueue.x-k8s.io/v1beta2\nkind: WorkloadPriorityClass\nmetadata: {name: urgent}\n"
                         "value: 1000\n")
              .ok());
  Team team(ground, "peaceful", {Gpus(4)}, {.quota = Gpus(4), .preemption = "LowerPriority"});
  SetQuota(&team, "pods", 5);
  team.Create("low", {.pods = 4});
  REQUIRE(Eventually([&] { return team.Runs("low", 4); }));
  team.Create("urgent", {.pods = 2, .priority = "urgent"});
  REQUIRE(Eventually([&] { return Code(&team, "urgent") == "ResourceQuota"; }));
  std::this_thread::sleep_for(std::chrono::seconds(6));  // longer than its pods could count twice
  CHECK(Code(&team, "urgent") == "ResourceQuota");
  CHECK(team.Runs("low", 4));
  CHECK(team.Evictions("low", "Preempted") == 0);
  SetQuota(&team, "pods", 6);
  REQUIRE(Eventually([&] { return team.Runs("urgent", 2); }));
  CHECK(Eventually([&] { return team.Evictions("low", "Preempted") == 1; }));
}

}  // namespace muster::cluster
