// A packing of several shapes that leaves pods over, made whole by exchanges of machines' mixes.
//
// Which pod is where is of no matter, only how many of each shape all mixes hold together. A machine that exchanges its
// mix gives up pods of some shapes for pods of others, and does so where that lowers the price of what is missing. When
// no exchange does, first a chain of them is looked for, in which one makes up for what another costs: best first, over
// the numbers of pods missing that lie between. Else what is missing grows a little dearer; those machines then change
// first that lose least by it, and only as many as are needed. The prices prove a no, too: if the best mixes of all
// machines are together worth less than what is wanted, no mixes hold it.
//
// Source: Moser, Jokanovic and Shiratori, "An algorithm for the multidimensional multiple-choice knapsack problem"
// (1997) for exchanges led by Lagrange multipliers; Bertsekas, "Network Optimization" (1998), chapter 7, for prices
// raised by small steps; Eisenbrand and Weismantel, "Proximity results and faster algorithms for integer programming
// using the Steinitz lemma" (2018) for chains: whatever separates two packings can be done in an order in which no sum
// between is far off, so few of them need be looked at.
// Threading: used by one thread; deterministic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace muster::gang {

using PodCounts = std::vector<int64_t>;  // by shape

// Machines that can take the same mixes.
struct MixGroup {
  size_t shapes = 0;
  std::vector<int64_t> pods;      // [mix][shape]
  std::vector<int64_t> machines;  // by mix: how many of them have it
  bool all_mixes = true;          // no mix that cannot be added to is missing

  const int64_t* Mix(size_t i) const { return pods.data() + i * shapes; }
};

class MixRepair {
 public:
  enum class End : uint8_t {
    kWhole,
    kCannotBe,  // proven
    kNotFound,
  };

  // Exchanges mixes in `groups`, which must outlive it. What all mixes hold together must be a number of 64 bits.
  MixRepair(std::vector<MixGroup>* groups, PodCounts wanted, PodCounts prices);

  End Run(int64_t step_limit);

  // One a mix or a link of a chain that is looked at.
  int64_t steps() const { return steps_; }
  // The fewest pods that were missing.
  int64_t missing() const { return missing_; }

 private:
  struct Exchange {
    size_t group;
    size_t from;
    size_t to;
  };
  struct Link {
    PodCounts missing;
    size_t before;    // the link that it follows; 0, the first, follows none
    size_t exchange;  // of exchanges_
  };

  bool OutOfSteps() const { return steps_ >= step_limit_; }
  __int128 ValueOf(const int64_t* mix) const;
  // The price of what is missing, where it is more than nothing.
  __int128 PriceOf(const PodCounts& missing) const;
  // What is missing after the exchange of one machine's mix.
  void Apply(const Exchange& exchange, PodCounts* missing) const;
  void Do(const Exchange& exchange);

  // Exchanges one machine's mix after the other while the price falls. RETURNS: whether it did.
  bool Improve(size_t group);
  // RETURNS: whether exchanges that lower the price together were found, and done.
  bool Chain();
  void ListExchanges();
  bool HasMachineFor(const Exchange& exchange, const std::vector<Link>& links, size_t at) const;
  // REQUIRES: something is missing.
  void Raise();
  bool ProvenMissing();

  std::vector<MixGroup>& groups_;
  PodCounts wanted_;
  PodCounts prices_;
  PodCounts short_;                  // what is missing; below zero, so many are over
  std::vector<Exchange> exchanges_;  // that a chain may have
  int64_t missing_ = 0;
  int64_t steps_ = 0;
  int64_t step_limit_ = 0;
};

}  // namespace muster::gang
