#include "muster/controller/pod_places.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>

namespace muster::controller {
namespace {

using gang::TopologyAssignment;

// Of each domain the rank after its last.
std::vector<int64_t> RankEnds(const TopologyAssignment& assignment) {
  std::vector<int64_t> ends;
  int64_t end = 0;
  for (const gang::TopologyDomain& domain : assignment.domains) ends.push_back(end += domain.count);
  return ends;
}

size_t DomainOfRank(const std::vector<int64_t>& ends, int64_t rank) {
  return static_cast<size_t>(std::upper_bound(ends.begin(), ends.end(), rank) - ends.begin());
}

// Each pod has a rank of its own, and those that have a place have the one of their rank.
bool GoByRank(const std::vector<int64_t>& ends, const std::vector<PodToPlace>& pods) {
  std::set<int64_t> seen;
  return std::all_of(pods.begin(), pods.end(), [&](const PodToPlace& pod) {
    return pod.rank.has_value() && *pod.rank < ends.back() && seen.insert(*pod.rank).second &&
           (pod.waits || pod.domain == DomainOfRank(ends, *pod.rank));
  });
}

}  // namespace

std::vector<std::optional<size_t>> ChoosePlaces(const TopologyAssignment& assignment,
                                                const std::vector<PodToPlace>& pods) {
  std::vector<std::optional<size_t>> chosen(pods.size());
  for (size_t i = 0; i < pods.size(); ++i) {
    if (!pods[i].waits) chosen[i] = pods[i].domain;
  }
  if (assignment.domains.empty()) return chosen;
  const std::vector<int64_t> ends = RankEnds(assignment);
  if (GoByRank(ends, pods)) {
    for (size_t i = 0; i < pods.size(); ++i) chosen[i] = DomainOfRank(ends, *pods[i].rank);
    return chosen;
  }
  std::vector<int64_t> free;
  for (const gang::TopologyDomain& domain : assignment.domains) free.push_back(domain.count);
  std::vector<size_t> waiting;
  for (size_t i = 0; i < pods.size(); ++i) {
    if (pods[i].waits) {
      waiting.push_back(i);
    } else if (pods[i].domain.has_value()) {
      --free[*pods[i].domain];
    }
  }
  const auto order = [&pods](size_t i) { return std::tuple(pods[i].rank.value_or(INT64_MAX), pods[i].name); };
  std::sort(waiting.begin(), waiting.end(), [&order](size_t a, size_t b) { return order(a) < order(b); });
  size_t next = 0;
  for (const size_t i : waiting) {
    while (next < free.size() && free[next] <= 0) ++next;
    if (next == free.size()) break;
    --free[next];
    chosen[i] = next;
  }
  return chosen;
}

}  // namespace muster::controller
