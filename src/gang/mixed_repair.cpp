#include "mixed_repair.h"

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <utility>

namespace muster::gang {

namespace {

// So often in a row prices are raised in vain.
constexpr int kRaises = 64;
// By this part of it the price of what is missing most is raised, and others less: those machines that lose least must
// be told from the next.
constexpr int64_t kRaise = 16;
// Prices are numbers of so many bits at most.
constexpr int kPriceBits = 40;
// A chain is for the last few pods; prices bring in more of them sooner.
constexpr int64_t kMissingForChain = 32;
constexpr int64_t kStepsForChain = 40'000;
// Of exchanges that come to the same a chain may have so many.
constexpr int kSameExchanges = 4;

int64_t PodsOf(const PodCounts& missing) {
  return std::accumulate(missing.begin(), missing.end(), int64_t{0},
                         [](int64_t sum, int64_t pods) { return sum + std::max(int64_t{0}, pods); });
}

}  // namespace

MixRepair::MixRepair(std::vector<MixGroup>* groups, PodCounts wanted, PodCounts prices)
    : groups_(*groups), wanted_(std::move(wanted)), prices_(std::move(prices)), short_(wanted_) {
  for (const MixGroup& group : groups_) {
    for (size_t i = 0; i < group.machines.size(); ++i) {
      for (size_t k = 0; k < short_.size(); ++k) short_[k] -= group.machines[i] * group.Mix(i)[k];
    }
  }
  missing_ = PodsOf(short_);
}

// ---- prices -------------------------------------------------------------------------------------

__int128 MixRepair::ValueOf(const int64_t* mix) const {
  __int128 value = 0;
  for (size_t k = 0; k < prices_.size(); ++k) value += __int128{mix[k]} * prices_[k];
  return value;
}

__int128 MixRepair::PriceOf(const PodCounts& missing) const {
  __int128 price = 0;
  for (size_t k = 0; k < prices_.size(); ++k) price += __int128{std::max(int64_t{0}, missing[k])} * prices_[k];
  return price;
}

void MixRepair::Raise() {
  std::vector<__int128> part(prices_.size(), 0);  // of what is wanted, in 2^40ths, is missing
  for (size_t k = 0; k < prices_.size(); ++k) {
    if (short_[k] > 0) part[k] = (__int128{short_[k]} << 40) / wanted_[k] + 1;
  }
  const __int128 greatest = *std::max_element(part.begin(), part.end());
  for (size_t k = 0; k < prices_.size(); ++k) {
    if (short_[k] > 0) prices_[k] += static_cast<int64_t>(part[k] * prices_[k] / greatest) / kRaise + 1;
  }
  while (*std::max_element(prices_.begin(), prices_.end()) >> kPriceBits > 0) {
    for (int64_t& price : prices_) price = std::max(int64_t{1}, price / 2);
  }
}

bool MixRepair::ProvenMissing() {
  __int128 most = 0;
  for (const MixGroup& group : groups_) {
    if (!group.all_mixes) return false;
    __int128 best = 0;
    int64_t machines = 0;
    for (size_t i = 0; i < group.machines.size(); ++i) {
      best = std::max(best, ValueOf(group.Mix(i)));
      machines += group.machines[i];
    }
    steps_ += static_cast<int64_t>(group.machines.size());
    most += best * machines;
  }
  return most < ValueOf(wanted_.data());
}

// ---- exchanges ----------------------------------------------------------------------------------

void MixRepair::Apply(const Exchange& exchange, PodCounts* missing) const {
  const int64_t* from = groups_[exchange.group].Mix(exchange.from);
  const int64_t* to = groups_[exchange.group].Mix(exchange.to);
  for (size_t k = 0; k < missing->size(); ++k) (*missing)[k] += from[k] - to[k];
}

void MixRepair::Do(const Exchange& exchange) {
  --groups_[exchange.group].machines[exchange.from];
  ++groups_[exchange.group].machines[exchange.to];
  Apply(exchange, &short_);
}

bool MixRepair::Improve(size_t group) {
  const std::vector<int64_t>& machines = groups_[group].machines;
  bool any = false;
  PodCounts missing;
  __int128 price = PriceOf(short_);
  for (size_t from = 0; from < machines.size(); ++from) {
    while (machines[from] > 0 && !OutOfSteps()) {
      Exchange best{group, from, from};
      for (size_t to = 0; to < machines.size(); ++to) {
        missing = short_;
        Apply({group, from, to}, &missing);
        const __int128 after = PriceOf(missing);
        if (after < price) {
          price = after;
          best.to = to;
        }
      }
      steps_ += static_cast<int64_t>(machines.size());
      if (best.to == from) break;
      Do(best);
      any = true;
    }
  }
  return any;
}

// ---- chains -------------------------------------------------------------------------------------

void MixRepair::ListExchanges() {
  exchanges_.clear();
  absl::flat_hash_map<PodCounts, int> same;
  PodCounts change;
  const int64_t limit = std::min(step_limit_, steps_ + kStepsForChain);  // each may be kept
  for (size_t g = 0; g < groups_.size(); ++g) {
    const size_t mixes = groups_[g].machines.size();
    for (size_t from = 0; from < mixes && steps_ < limit; ++from) {
      if (groups_[g].machines[from] == 0) continue;
      for (size_t to = 0; to < mixes; ++to) {
        ++steps_;
        change.assign(short_.size(), 0);
        Apply({g, from, to}, &change);
        if (to != from && ++same[change] <= kSameExchanges) exchanges_.push_back({g, from, to});
      }
    }
  }
}

// Of the machines with the mix that is given up, those of the links up to `at` have changed already.
bool MixRepair::HasMachineFor(const Exchange& exchange, const std::vector<Link>& links, size_t at) const {
  int64_t machines = groups_[exchange.group].machines[exchange.from];
  for (; at != 0; at = links[at].before) {
    const Exchange& done = exchanges_[links[at].exchange];
    if (done.group == exchange.group && done.from == exchange.from) --machines;
  }
  return machines > 0;
}

bool MixRepair::Chain() {
  using Open = std::pair<__int128, size_t>;  // price, link
  ListExchanges();
  const __int128 price_now = PriceOf(short_);
  std::vector<Link> links = {{short_, 0, 0}};
  absl::flat_hash_set<PodCounts> seen = {short_};
  std::priority_queue<Open, std::vector<Open>, std::greater<>> open;
  open.push({price_now, 0});
  PodCounts missing;
  const int64_t limit = std::min(step_limit_, steps_ + kStepsForChain);
  while (!open.empty() && steps_ < limit) {
    const size_t at = open.top().second;
    open.pop();
    for (size_t i = 0; i < exchanges_.size(); ++i) {
      ++steps_;
      if (!HasMachineFor(exchanges_[i], links, at)) continue;
      missing = links[at].missing;
      Apply(exchanges_[i], &missing);
      if (!seen.insert(missing).second) continue;
      links.push_back({missing, at, i});
      const __int128 price = PriceOf(missing);
      if (price < price_now) {
        for (size_t link = links.size() - 1; link != 0; link = links[link].before) {
          Do(exchanges_[links[link].exchange]);
        }
        return true;
      }
      open.push({price, links.size() - 1});
    }
  }
  return false;
}

// ---- the answer ---------------------------------------------------------------------------------

MixRepair::End MixRepair::Run(int64_t step_limit) {
  step_limit_ = step_limit;
  absl::flat_hash_set<PodCounts> without_chain;
  for (int raises = 0; raises < kRaises && !OutOfSteps();) {
    bool any = true;
    while (any) {
      any = false;
      for (size_t group = 0; group < groups_.size(); ++group) any |= Improve(group);
    }
    const int64_t missing = PodsOf(short_);
    if (missing == 0) return End::kWhole;
    if (missing < missing_) {
      missing_ = missing;
      raises = 0;
    }
    if (OutOfSteps()) break;
    if (ProvenMissing()) return End::kCannotBe;
    if (missing <= kMissingForChain && !without_chain.contains(short_)) {
      if (Chain()) continue;
      without_chain.insert(short_);
    }
    Raise();
    ++raises;
  }
  return End::kNotFound;
}

}  // namespace muster::gang
