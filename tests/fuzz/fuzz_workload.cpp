// Any bytes are either an error, or a Workload whose status reads back as it is written, and which is shown as waiting
// by one write.
#include <utility>

#include "muster/controller/adoption.h"
#include "muster/controller/projection.h"
#include "muster/controller/workload.h"
#include "muster/core/check.h"

namespace {

using muster::controller::Workload;
using muster::controller::WorkloadStatus;

// What is read from the patch that writes `status` where there was none.
WorkloadStatus Written(const Workload& workload, const WorkloadStatus& status) {
  Workload bare = workload;
  bare.status = {};
  const std::string patch = muster::controller::EncodeStatusPatch(bare, status);
  if (patch.empty()) return {};
  auto again = muster::controller::DecodeWorkload(patch);
  MUSTER_CHECK_MSG(again.ok(), std::string(again.status().message()));
  return std::move(again->status);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto workload = muster::controller::DecodeWorkload(text);
  if (!workload.ok()) {
    MUSTER_CHECK(!workload.status().message().empty());
    return 0;
  }
  const auto held = muster::controller::FindHeld(*workload);
  MUSTER_CHECK(held.ok() || !held.status().message().empty());
  // Times finer than the API keeps are cut once, and only once.
  const WorkloadStatus once = Written(*workload, workload->status);
  MUSTER_CHECK(Written(*workload, once) == once);

  muster::controller::WorkloadFacts facts;
  facts.active = workload->active;
  facts.reason.emplace();
  const muster::WallTime now{1'800'000'000'000'000'000};
  const WorkloadStatus shown = muster::controller::ProjectStatus(once, 1, facts, now);
  MUSTER_CHECK(muster::controller::ProjectStatus(shown, 2, facts, now) == shown);
  return 0;
}
