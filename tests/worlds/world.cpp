#include "world.h"

namespace muster::scenarios {

std::vector<Json> Flavors() {
  const auto flavor = [](const std::string& name) {
    return Json{{"apiVersion", "kueue.x-k8s.io/v1beta2"},
                {"kind", "ResourceFlavor"},
                {"metadata", {{"name", name}}},
                {"spec", {{"nodeLabels", {{"muster.dev/flavor", name}}}}}};
  };
  Json tainted = flavor("tainted");
  const Json taint = {{"key", "dedicated"}, {"value", "batch"}, {"effect", "NoSchedule"}};
  Json toleration = taint;
  toleration["operator"] = "Equal";
  tainted["spec"]["nodeTaints"] = Json::array({taint});
  tainted["spec"]["tolerations"] = Json::array({toleration});
  return {flavor("a"), flavor("b"), tainted};
}

}  // namespace muster::scenarios
