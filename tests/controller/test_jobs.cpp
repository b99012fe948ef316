#include "test_jobs.h"

#include <catch2/catch.hpp>

namespace muster::controller {

Job MustDecode(const std::string& json) {
  static TextTable texts;
  auto job = DecodeJob(json, &texts);
  INFO(job.status().ToString());
  REQUIRE(job.ok());
  return *std::move(job);
}

FlavorMap Flavors() {
  engine::ResourceFlavor blue;
  blue.name = "blue";
  blue.node_labels = {{"pool", "blue"}, {"zone", "z1"}};
  gang::Toleration dedicated;
  dedicated.key = "dedicated";
  dedicated.op = "Equal";
  dedicated.value = "batch";
  dedicated.effect = "NoSchedule";
  gang::Toleration spot;
  spot.key = "spot";
  spot.op = "Exists";
  blue.tolerations = {dedicated, spot};
  return {{"blue", blue}};
}

engine::Admission BlueAdmission(int32_t count) {
  engine::PodSetAssignment pods;
  pods.name = "main";
  pods.count = count;
  pods.flavors = {{"cpu", "blue"}};
  pods.usage = {{"cpu", Amount{1000 * count}}};
  return {"cq", {pods}};
}

}  // namespace muster::controller
