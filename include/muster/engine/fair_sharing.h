// What makes queues share fairly: by what they borrow now (fair sharing, among ClusterQueues and Cohorts) and by
// what they used in the past (admission fair sharing, among LocalQueues of one ClusterQueue).
//
// Source: kueue_semantics 1.9, 5.8, 6.3, 9.12.
// Threading: values.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "muster/core/amount.h"
#include "muster/core/product.h"
#include "muster/core/time.h"

namespace muster::engine {

// When a workload of another queue may be evicted. "The preemptor's share" is that of the preemptor's side of the
// smallest subtree with both queues, with the preemptor in it.
enum class PreemptionStrategy : uint8_t {
  kLessThanOrEqualToFinalShare,  // it is at most the other side's without the victim
  kLessThanInitialShare,         // it is less than the other side's with the victim
};

struct FairSharing {
  // In the order they are tried; one or both.
  std::vector<PreemptionStrategy> preemption_strategies = {PreemptionStrategy::kLessThanOrEqualToFinalShare,
                                                           PreemptionStrategy::kLessThanInitialShare};
  friend bool operator==(const FairSharing&, const FairSharing&) = default;
};

struct AdmissionFairSharing {
  Duration usage_half_life_time{};                             // of what was consumed; zero: nothing is remembered
  Duration usage_sampling_interval = std::chrono::minutes(5);  // more than zero
  // By resource, in units of 1/1'000'000'000, not negative. Others weigh 1.
  std::vector<std::pair<std::string, int64_t>> resource_weights;
  friend bool operator==(const AdmissionFairSharing&, const AdmissionFairSharing&) = default;
};

// What a LocalQueue has consumed by `as_of`, of each resource, in base units; sorted by resource.
struct ConsumedResources {
  std::vector<std::pair<std::string, Amount>> amounts;
  WallTime as_of;
  friend bool operator==(const ConsumedResources&, const ConsumedResources&) = default;
};

struct LocalQueueConsumption {
  ConsumedResources resources;
  // What decides who goes first, as a fraction: cpus, bytes and devices by the weights of resources, with what
  // admissions under way add, divided by the weight of the queue. The denominator is 0 with weight 0: it goes last.
  Wide numerator = 0;
  Wide denominator = 1;
};

// A weighted share as status and metrics show it.
struct WeightedShare {
  int64_t permille = 0;  // rounded up; INT64_MAX for who borrows with weight 0
  // Of which that is 1000 × borrowed / lendable / weight.
  uint64_t borrowed = 0;
  uint64_t lendable = 1;
  uint64_t weight_nanos = 1;  // in units of 1/1'000'000'000
  friend bool operator==(const WeightedShare&, const WeightedShare&) = default;
};

}  // namespace muster::engine
