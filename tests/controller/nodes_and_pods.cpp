#include "nodes_and_pods.h"

namespace muster::controller {

using sim::At;
using sim::Json;

void MakeNode(World& world, const std::string& name, const std::string& rack, int cpu) {
  world.Create({{"apiVersion", "v1"},
                {"kind", "Node"},
                {"metadata", {{"name", name}, {"labels", {{"tier", "std"}, {"rack", rack}, {kHost, name}}}}}});
  world.Patch("nodes", "", name,
              {{"status",
                {{"conditions", Json::parse(R"([{"type":"Ready","status":"True"}])")},
                 {"allocatable", {{"cpu", std::to_string(cpu)}, {"pods", "100"}}}}}},
              "status");
}

void MakePod(World& world, const std::string& job, int index, bool indexed, const std::string& node) {
  const Json object = world.Get("jobs", "team", job);
  Json pod = {{"apiVersion", "v1"}, {"kind", "Pod"}, {"metadata", At(object, "spec", "template", "metadata")}};
  pod["spec"] = At(object, "spec", "template", "spec");
  pod["metadata"]["name"] = job + "-" + std::to_string(index);
  pod["metadata"]["namespace"] = "team";
  if (indexed) pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] = std::to_string(index);
  pod["metadata"]["ownerReferences"] = Json::array({{{"apiVersion", "batch/v1"},
                                                     {"kind", "Job"},
                                                     {"name", job},
                                                     {"uid", At(object, "metadata", "uid")},
                                                     {"controller", true}}});
  if (!node.empty()) pod["spec"]["nodeName"] = node;
  world.Create(pod);
  world.Patch("pods", "team", job + "-" + std::to_string(index), {{"status", {{"phase", "Pending"}}}}, "status");
}

void MakeTopology(World& world) {
  world.Create({{"apiVersion", "kueue.x-k8s.io/v1beta2"},
                {"kind", "Topology"},
                {"metadata", {{"name", "racks"}}},
                {"spec", Json::parse(R"({"levels":[{"nodeLabel":"rack"},{"nodeLabel":"kubernetes.io/hostname"}]})")}});
}

void MakePlaces(World& world, const std::string& quota) {
  world.MakeQueues(quota);
  world.Patch("resourceflavors", "", "f", {{"spec", {{"topologyName", "racks"}}}});
  MakeTopology(world);
  MakeNode(world, "n1", "r1", 2);
  MakeNode(world, "n2", "r2", 2);
  MakeNode(world, "n3", "r2", 2);
  world.RunFor(std::chrono::seconds(1));
}

Json Asks(const std::string& annotation, const std::string& value) {
  return {{"spec",
           {{"completionMode", "Indexed"},
            {"template", {{"metadata", {{"annotations", {{"kueue.x-k8s.io/podset-" + annotation, value}}}}}}}}}};
}

bool Started(const World& world, const std::string& job) {
  const Json object = world.Get("jobs", "team", job);
  return object.is_object() && !sim::Flag(At(object, "spec", "suspend"));
}

}  // namespace muster::controller
