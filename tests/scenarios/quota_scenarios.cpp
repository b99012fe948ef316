// What is charged, and what there is: cohorts that shrink and grow, quotas below what is in use, the size of pods.
// What is right is kueue_semantics sections 3 and 5.1, with the numbers counted by hand; the numbers of user_pains
// stand at each.
#include <catch2/catch.hpp>

#include "stage.h"

namespace muster::scenarios {
namespace {

// A Job of one pod with these containers, and whatever else its pod has.
Json JobOf(const std::string& name, Json containers, const Json& pod = Json::object()) {
  Json job = Stage::JobObject({.name = name});
  Json& spec = job["spec"]["template"]["spec"];
  spec["containers"] = std::move(containers);
  for (const auto& [key, value] : pod.items()) spec[key] = value;
  return job;
}
Json Container(const std::string& name, const Json& resources) {
  return {{"name", name}, {"image", "train:1"}, {"resources", resources}};
}
Json Requests(const std::string& cpu) { return {{"requests", {{"cpu", cpu}}}}; }

// A2: 5 + 5, of which one member goes.
SCENARIO_ON_WORLDS(idle_member, "A member that is deleted takes its quota along, and who runs above the rest runs on") {
  stage.MakeQueue({.name = "one", .quotas = {{.nominal = 5}}, .cohort = "all", .local_queue = "one"});
  stage.MakeQueue({.name = "idle", .quotas = {{.nominal = 5}}, .cohort = "all", .local_queue = ""});
  stage.Submit({.name = "large", .pods = 8, .queue = "one"});
  stage.AwaitRunning("large");
  stage.DeleteClusterQueue("idle");
  stage.Submit({.name = "next", .pods = 8, .queue = "one"});
  stage.AwaitWaiting("next", "ExceedsMaxQuota");
  CHECK_FALSE(stage.Suspended("large"));
  stage.AwaitUsage("one", 8, 3);
  stage.Delete(stage.JobPath("large"));
  stage.Submit({.name = "fits", .pods = 5, .queue = "one"});
  stage.AwaitRunning("fits");
  CHECK(stage.Starts("next") == 0);
}

// A3: a child Cohort with 6 of its own, and a queue with 2 under the root.
SCENARIO_ON_WORLDS(child_cohort, "A child Cohort that is deleted takes its own quota out of those above it") {
  stage.MakeCohort("root", "", {});
  stage.MakeCohort("child", "root", {{.nominal = 6}});
  stage.MakeQueue({.quotas = {{.nominal = 2}}, .cohort = "root"});
  stage.Submit({.name = "before", .pods = 5});
  stage.AwaitRunning("before");
  stage.Delete(stage.JobPath("before"));
  stage.AwaitUsage("cq", 0);
  stage.DeleteCohort("child");
  stage.world().Pass(std::chrono::seconds(2));
  stage.Submit({.name = "after", .pods = 5});
  stage.AwaitWaiting("after", "ExceedsMaxQuota");
  stage.Submit({.name = "small", .pods = 2});
  stage.AwaitRunning("small");
}

// A5: 3 of 9 are used when it becomes 1.
SCENARIO_ON_WORLDS(below_usage, "Quota below what is in use is not borrowed where there is nobody to borrow from") {
  stage.MakeQueue({.quotas = {{.nominal = 9}}});
  stage.Submit({.name = "running", .pods = 3});
  stage.AwaitRunning("running");
  stage.SetQuota("cq", {{.nominal = 1}});
  stage.Submit({.name = "next"});
  stage.AwaitWaiting("next");
  stage.AwaitUsage("cq", 3, 0);
  CHECK_FALSE(stage.Suspended("running"));
  stage.Check("above its quota");
  stage.Delete(stage.JobPath("running"));
  stage.AwaitRunning("next");
}

// A6: 4 of the Cohort, and 2 + 2.
SCENARIO_ON_WORLDS(cohort_adds, "A Cohort's own quota is added to that of its members, and is no cap") {
  stage.MakeCohort("all", "", {{.nominal = 4}});
  stage.MakeQueue({.name = "one", .quotas = {{.nominal = 2}}, .cohort = "all", .local_queue = "one"});
  stage.MakeQueue({.name = "two", .quotas = {{.nominal = 2}}, .cohort = "all", .local_queue = "two"});
  stage.Submit({.name = "first", .pods = 4, .queue = "one"});
  stage.AwaitRunning("first");
  stage.Submit({.name = "second", .pods = 4, .queue = "two"});
  stage.AwaitRunning("second");
  stage.Submit({.name = "third", .queue = "two"});
  stage.AwaitWaiting("third");  // 4 + 4 of 8
}

// A10. Preemption aside.
SCENARIO_ON_WORLDS(asks_nothing, "Who asks for none of a resource does not need quota for it") {
  stage.MakeQueue({.quotas = {{.nominal = 2}}});
  const Json none = {{"requests", {{"cpu", "1"}, {"nvidia.com/gpu", "0"}}}, {"limits", {{"nvidia.com/gpu", "0"}}}};
  stage.Post(stage.JobsPath(), JobOf("train", Json::array({Container("main", none)})));
  stage.AwaitRunning("train");
  stage.AwaitUsage("cq", 1);
}

// A13: 9, of which 3 are used; 20 pods, 4 at least.
SCENARIO_ON_WORLDS(partial_usage, "A gang that starts with fewer pods is charged for those, and frees them at once") {
  stage.MakeQueue({.quotas = {{.nominal = 9}}});
  stage.Submit({.name = "small", .pods = 3});
  stage.AwaitRunning("small");
  stage.Submit({.name = "train", .pods = 20, .annotations = {{"kueue.x-k8s.io/job-min-parallelism", "4"}}});
  stage.AwaitRunning("train");
  CHECK(Number(At(stage.Job("train"), "spec", "parallelism")) == 6);
  stage.AwaitUsage("cq", 9);
  stage.Delete(stage.JobPath("small"));
  stage.AwaitUsage("cq", 6);
  stage.Submit({.name = "next", .pods = 3});
  stage.AwaitRunning("next");
  stage.EditClusterQueue("cq", {{"stopPolicy", "HoldAndDrain"}});
  stage.AwaitStopped("train");
  CHECK(Number(At(stage.Job("train"), "spec", "parallelism")) == 20);
  stage.AwaitUsage("cq", 0);
}

// A15: a sidecar of 1 runs beside the init container of 3 after it: 4, more than 1 + 1.
SCENARIO_ON_WORLDS(pod_size, "A pod is charged what the scheduler would count, after a restart too") {
  stage.MakeQueue({.name = "three", .quotas = {{.nominal = 3}}, .local_queue = "three"});
  stage.MakeQueue({.name = "four", .quotas = {{.nominal = 4}}, .local_queue = "four"});
  Json sidecar = Container("sidecar", Requests("1"));
  sidecar["restartPolicy"] = "Always";
  const Json init = Json::array({sidecar, Container("init", Requests("3"))});
  Json job = JobOf("no-room", Json::array({Container("main", Requests("1"))}), {{"initContainers", init}});
  const auto post = [&](const std::string& name, const std::string& queue) {
    job["metadata"]["name"] = name;
    job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = queue;
    stage.Post(stage.JobsPath(), job);
  };
  post("no-room", "three");
  stage.AwaitWaiting("no-room", "ExceedsMaxQuota");
  post("room", "four");
  stage.AwaitRunning("room");
  stage.AwaitUsage("four", 4);
  stage.Crash();
  post("behind", "four");
  stage.AwaitWaiting("behind");
  stage.AwaitUsage("four", 4);
}

// A15: only limits are set; the namespace's default; the overhead of a RuntimeClass.
SCENARIO_ON_WORLDS(pod_defaults, "Limits, the namespace's defaults and the overhead of a RuntimeClass are charged") {
  stage.MakeQueue({.quotas = {{.nominal = 9}}});
  stage.Post(stage.JobsPath(), JobOf("limits", Json::array({Container("main", {{"limits", {{"cpu", "2"}}}})})));
  stage.AwaitRunning("limits");
  stage.AwaitUsage("cq", 2);
  const Json bounds = {{"type", "Container"}, {"default", {{"cpu", "4"}}}, {"defaultRequest", {{"cpu", "3"}}}};
  stage.Post("/api/v1/namespaces/" + stage.ns() + "/limitranges", {{"apiVersion", "v1"},
                                                                   {"kind", "LimitRange"},
                                                                   {"metadata", {{"name", "bounds"}}},
                                                                   {"spec", {{"limits", Json::array({bounds})}}}});
  stage.world().Pass(std::chrono::seconds(2));
  stage.Post(stage.JobsPath(), JobOf("default", Json::array({Container("main", Json::object())})));
  stage.AwaitRunning("default");
  stage.AwaitUsage("cq", 5);
  stage.Post("/apis/node.k8s.io/v1/runtimeclasses", {{"apiVersion", "node.k8s.io/v1"},
                                                     {"kind", "RuntimeClass"},
                                                     {"metadata", {{"name", stage.ns() + "-heavy"}}},
                                                     {"handler", "heavy"},
                                                     {"overhead", {{"podFixed", {{"cpu", "1"}}}}}});
  stage.world().Pass(std::chrono::seconds(2));
  stage.Post(stage.JobsPath(), JobOf("heavy", Json::array({Container("main", Requests("2"))}),
                                     {{"runtimeClassName", stage.ns() + "-heavy"}}));
  stage.AwaitRunning("heavy");
  stage.AwaitUsage("cq", 8);
}

// A19: room for two; each that ends lets exactly one more start.
SCENARIO_ON_WORLDS(one_more, "When one ends, exactly one more starts") {
  stage.MakeQueue({.quotas = {{.nominal = 2}}});
  const std::vector<std::string> names = {"one", "two", "three", "four"};
  for (const std::string& name : names) {
    stage.Submit({.name = name});
    stage.NextSecond();
  }
  stage.AwaitRunning("one");
  stage.AwaitRunning("two");
  const auto running = [&] {
    int count = 0;
    for (const std::string& name : names) {
      const Json job = stage.Job(name);
      count += !job.is_null() && !Flag(At(job, "spec", "suspend")) ? 1 : 0;
    }
    return count;
  };
  for (const auto& [ends, starts] : {std::pair("two", "three"), std::pair("one", "four")}) {
    stage.Delete(stage.JobPath(ends));
    stage.AwaitRunning(starts);
    CHECK(running() == 2);
  }
}

// H14: 4 completions, 2 at a time.
SCENARIO_ON_WORLDS(more_completions, "A Job that runs few of its pods at a time is charged for those") {
  stage.MakeQueue({.quotas = {{.nominal = 2}}});
  stage.Submit({.name = "train", .pods = 2, .spec = {{"completions", 4}}});
  stage.AwaitRunning("train");
  stage.AwaitUsage("cq", 2);
  stage.Delete(stage.JobPath("train"));
  stage.Submit({.name = "short", .pods = 2, .seconds = "0.2", .spec = {{"completions", 4}}});
  stage.AwaitFinished("short");
  CHECK(Number(At(stage.Job("short"), "status", "succeeded")) == 4);
  CHECK(stage.Starts("short") == 1);
}

}  // namespace
}  // namespace muster::scenarios
