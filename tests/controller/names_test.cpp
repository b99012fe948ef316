#include "muster/controller/names.h"

#include <catch2/catch.hpp>

namespace muster::controller {
namespace {

// Names recorded from the reference (golden cases simple-run-complete, long-names).
TEST_CASE("A Workload is named by its owner's kind, name and a hash of its identity") {
  CHECK(WorkloadName("Job", "batch", "train", "2100f838-5894-4f49-990a-a46a0253172d") == "job-train-0d852");
  // Of generation 4 of an elastic Job: the SHA-1 of the same with "\n4" at its end.
  CHECK(WorkloadName("Job", "batch", "train", "2100f838-5894-4f49-990a-a46a0253172d", "4") == "job-train-1e31a");
  CHECK(WorkloadName("Job", "batch", "mix", "db2c37fe-0d87-4faf-b8ab-b76b91e4521e") == "job-mix-284b0");
}

// user_pains G14
TEST_CASE("A long owner name is cut so that the name has at most 253 bytes") {
  const std::string name = WorkloadName("Job", "batch", std::string(300, 'x'), "u");
  CHECK(name.size() == 253);
  CHECK(name.substr(0, 247) == "job-" + std::string(243, 'x'));
  CHECK(name[247] == '-');
}

TEST_CASE("Label values and DNS labels are told from what is neither") {
  CHECK(IsDnsLabel("gpu-queue1"));
  CHECK_FALSE(IsDnsLabel("gpu.queue"));
  CHECK_FALSE(IsDnsLabel("-a"));
  CHECK_FALSE(IsDnsLabel(""));
  CHECK_FALSE(IsDnsLabel(std::string(64, 'a')));
  CHECK(IsLabelValue("A.b_c-9"));
  CHECK(IsLabelValue(""));
  CHECK_FALSE(IsLabelValue("a/b"));
  CHECK_FALSE(IsLabelValue("a."));
}

}  // namespace
}  // namespace muster::controller
