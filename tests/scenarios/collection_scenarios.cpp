// What goes along with a deleted object, and what becomes of queued Jobs that are deleted in any state and manner.
// The rules of garbage collection are those of Kubernetes' documentation of owners and dependents; both worlds play
// them, so the simulator's collector is held against the real one.
#include <catch2/catch.hpp>

#include "stage.h"

namespace muster::scenarios {
namespace {

// ConfigMaps, which nobody but the garbage collector acts on.
class Maps {
 public:
  explicit Maps(Stage* stage, std::string ns = "") : stage_(stage), ns_(ns.empty() ? stage->ns() : std::move(ns)) {}

  std::string Path(const std::string& name = "") const {
    return "/api/v1/namespaces/" + ns_ + "/configmaps" + (name.empty() ? name : "/" + name);
  }
  Json Make(const std::string& name, const Json& owners = nullptr, const Json& finalizers = nullptr) {
    Json map = {{"apiVersion", "v1"}, {"kind", "ConfigMap"}, {"metadata", {{"name", name}}}};
    if (!owners.is_null()) map["metadata"]["ownerReferences"] = owners;
    if (!finalizers.is_null()) map["metadata"]["finalizers"] = finalizers;
    return stage_->Post(Path(), map);
  }
  static Json Reference(const Json& owner, bool blocks = false) {
    return {{"apiVersion", "v1"},
            {"kind", "ConfigMap"},
            {"name", At(owner, "metadata", "name")},
            {"uid", At(owner, "metadata", "uid")},
            {"blockOwnerDeletion", blocks}};
  }
  void Release(const std::string& name) { stage_->Patch(Path(name), {{"metadata", {{"finalizers", nullptr}}}}); }
  bool Deleted(const std::string& name) {
    return !At(stage_->Get(Path(name)), "metadata", "deletionTimestamp").is_null();
  }
  bool Gone(const std::string& name) { return stage_->Get(Path(name)).is_null(); }
  // The names of those that own it.
  std::vector<std::string> OwnersOf(const std::string& name) {
    const Json map = stage_->Get(Path(name));
    std::vector<std::string> names;
    for (const Json& owner : At(map, "metadata", "ownerReferences")) {
      names.push_back(Text(sim::Get(owner, "name")));
    }
    return names;
  }

 private:
  Stage* stage_;
  std::string ns_;
};

using Names = std::vector<std::string>;
const Json kHeld = Json::array({"example.com/hold"});

SCENARIO_ON_WORLDS(collected,
                   "What is owned goes with the last of its owners; references to the others are taken out") {
  Maps maps(&stage);
  const Json a = maps.Make("a");
  const Json b = maps.Make("b");
  const Json child = maps.Make("child", Json::array({Maps::Reference(a)}));
  maps.Make("grandchild", Json::array({Maps::Reference(child)}));
  maps.Make("shared", Json::array({Maps::Reference(a), Maps::Reference(b)}));
  stage.Delete(maps.Path("a"));
  stage.AwaitGone(maps.Path("child"));
  stage.AwaitGone(maps.Path("grandchild"));
  stage.Await("b alone owns what was shared", [&] { return maps.OwnersOf("shared") == Names{"b"}; });
  stage.Delete(maps.Path("b"));
  stage.AwaitGone(maps.Path("shared"));
}

SCENARIO_ON_WORLDS(foreground, "In the foreground an owner waits for those that block it, and for no others") {
  Maps maps(&stage);
  const Json owner = maps.Make("owner");
  const Json other = maps.Make("other");
  const Json blocker = maps.Make("blocker", Json::array({Maps::Reference(owner, true)}), kHeld);
  maps.Make("below", Json::array({Maps::Reference(blocker, true)}));
  maps.Make("free", Json::array({Maps::Reference(owner)}), kHeld);
  maps.Make("shared", Json::array({Maps::Reference(owner, true), Maps::Reference(other)}));
  stage.Delete(maps.Path("owner"), "Foreground");
  stage.Await("who is owned by it alone is deleted", [&] { return maps.Deleted("blocker") && maps.Deleted("free"); });
  stage.AwaitGone(maps.Path("below"));
  stage.Await("the other owner keeps what is shared", [&] { return maps.OwnersOf("shared") == Names{"other"}; });
  stage.world().Pass(std::chrono::seconds(2));
  CHECK(maps.Deleted("owner"));
  CHECK_FALSE(maps.Gone("owner"));
  CHECK_FALSE(maps.Deleted("shared"));
  maps.Release("blocker");
  stage.AwaitGone(maps.Path("blocker"));
  stage.AwaitGone(maps.Path("owner"));
  CHECK(maps.Deleted("free"));
  CHECK_FALSE(maps.Gone("free"));
  maps.Release("free");
  stage.AwaitGone(maps.Path("free"));
}

SCENARIO_ON_WORLDS(orphaned, "Orphans lose the reference to their owner, and stay") {
  Maps maps(&stage);
  const Json owner = maps.Make("owner");
  const Json other = maps.Make("other");
  maps.Make("child", Json::array({Maps::Reference(owner)}));
  maps.Make("shared", Json::array({Maps::Reference(owner, true), Maps::Reference(other)}));
  stage.Delete(maps.Path("owner"), "Orphan");
  stage.AwaitGone(maps.Path("owner"));
  CHECK(maps.OwnersOf("child").empty());
  CHECK(maps.OwnersOf("shared") == Names{"other"});
  stage.world().Pass(std::chrono::seconds(2));
  CHECK_FALSE(maps.Gone("child"));
}

SCENARIO_ON_WORLDS(dangling, "Who names an owner that is not there, or another of its name, goes") {
  Maps maps(&stage);
  const Json first = maps.Make("owner");
  stage.Delete(maps.Path("owner"));
  stage.AwaitGone(maps.Path("owner"));
  maps.Make("owner");  // another
  maps.Make("child", Json::array({Maps::Reference(first)}));
  stage.AwaitGone(maps.Path("child"));
  // An owner is looked for in the namespace of what it owns.
  const std::string elsewhere = stage.ns() + "-elsewhere";
  stage.Post("/api/v1/namespaces", {{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", {{"name", elsewhere}}}});
  const Json there = Maps(&stage, elsewhere).Make("there");
  maps.Make("stranger", Json::array({Maps::Reference(there)}));
  stage.AwaitGone(maps.Path("stranger"));
  CHECK_FALSE(maps.Gone("owner"));
}

// user_pains H7. The queue has room for one gang, so that whoever comes next shows whether quota was given back.
void DeleteInEachState(Stage& stage, const std::string& propagation) {
  stage.DeletesWhileEvicting();
  stage.MakeQueue({.quotas = {{.nominal = 2}}});
  const auto next = [&](const std::string& name) {
    stage.Submit({.name = name, .pods = 2});
    stage.AwaitRunning(name);
  };
  const auto remove = [&](const std::string& name) {
    stage.Delete(stage.JobPath(name), propagation);
    stage.AwaitGone(stage.JobPath(name));
  };
  next("admitted");
  stage.Submit({.name = "pending", .pods = 2});
  stage.AwaitWaiting("pending");
  remove("pending");
  remove("admitted");
  next("evicting");
  stage.EditClusterQueue("cq", {{"stopPolicy", "HoldAndDrain"}});
  stage.Await("it is stopped", [&] { return stage.Suspended("evicting"); });
  remove("evicting");
  stage.EditClusterQueue("cq", {{"stopPolicy", "None"}});
  stage.Submit({.name = "finished", .pods = 2, .seconds = "0.2"});
  stage.AwaitFinished("finished");
  remove("finished");
  next("last");
  stage.Await("what is gone holds nothing", [&] {
    const Json status = sim::Get(stage.Get(stage.ClusterQueue("cq")), "status");
    return Number(sim::Get(status, "reservingWorkloads")) == 1 && Number(sim::Get(status, "pendingWorkloads")) == 0;
  });
  // Of those that are left without a Job, all are finished, and nothing keeps them.
  const std::string workloads = "/apis/kueue.x-k8s.io/v1beta2/namespaces/" + stage.ns() + "/workloads";
  stage.Await("no Workload waits for a Job that is gone", [&] {
    int owned = 0;
    for (const Json& workload : stage.List(workloads)) {
      if (At(workload, "metadata").contains("finalizers")) return false;
      const bool orphan = At(workload, "metadata", "ownerReferences").empty();
      if (orphan && !sim::HasCondition(workload, "Finished")) return false;
      owned += orphan ? 0 : 1;
    }
    return owned == 1;
  });
}

SCENARIO_ON_WORLDS(deleted_background, "Deleted in the background in any state, a Job leaves no quota taken") {
  DeleteInEachState(stage, "Background");
}
SCENARIO_ON_WORLDS(deleted_in_front, "Deleted in the foreground in any state, a Job leaves no quota taken") {
  DeleteInEachState(stage, "Foreground");
}
SCENARIO_ON_WORLDS(deleted_orphaning, "Deleted with its pods set free in any state, a Job leaves no quota taken") {
  DeleteInEachState(stage, "Orphan");
}

}  // namespace
}  // namespace muster::scenarios
