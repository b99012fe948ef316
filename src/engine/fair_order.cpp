#include "fair_order.h"

#include "nomination.h"

namespace muster::engine {

bool FairOrder::Contender::operator<(const Contender& other) const {
  if (borrows != other.borrows) return other.borrows;
  if (share != other.share) return share < other.share;
  return queue::Earlier()(&entry->workload->ticket, &other.entry->workload->ticket);
}

void FairOrder::Begin(std::vector<Entry>* entries) {
  contests_.clear();
  winner_ = nullptr;
  processed_ = nullptr;
  for (Entry& entry : *entries) Offer(entry.queue->node, &entry);
}

Entry* FairOrder::Next() {
  if (processed_ != nullptr) {
    Offer(processed_->queue->node, nullptr);
    for (const Victim& victim : processed_->assignment.preemption.victims) {
      Reconsider(victim.workload->claim->queue->node);
    }
  }
  processed_ = winner_;
  return winner_;
}

void FairOrder::Reconsider(quota::NodeId child) {
  const quota::NodeId cohort = tree_->ledger.Parent(child);
  if (cohort == quota::kNoNode) return;
  Contest& contest = contests_[cohort];
  const auto known = contest.by_child.find(child);
  if (known == contest.by_child.end()) {
    Reconsider(cohort);
  } else {
    Offer(child, known->second.entry);
  }
}

void FairOrder::Offer(quota::NodeId child, Entry* entry) {
  const quota::NodeId cohort = tree_->ledger.Parent(child);
  if (cohort == quota::kNoNode) {
    winner_ = entry;
    return;
  }
  Contest& contest = contests_[cohort];
  if (const auto known = contest.by_child.find(child); known != contest.by_child.end()) {
    contest.contenders.erase(known->second);
    contest.by_child.erase(known);
  }
  if (entry != nullptr) {
    const Contender contender = MakeContender(child, entry);
    contest.contenders.insert(contender);
    contest.by_child.emplace(child, contender);
  }
  // Even where the same wins as before, the usage of what is above may have changed.
  Offer(cohort, contest.contenders.empty() ? nullptr : contest.contenders.begin()->entry);
}

FairOrder::Contender FairOrder::MakeContender(quota::NodeId child, Entry* entry) {
  // What is kept for it is what it asks for.
  const WithoutRooms without(tree_, {entry->workload});
  quota::FairShares::Usage usage = entry->assignment.usage;
  for (quota::NodeId at = entry->queue->node; at != child; at = tree_->ledger.Parent(at)) {
    usage = tree_->shares.Lift(usage, quota::Book::kPlanned);
  }
  return {tree_->shares.Borrows(usage, quota::Book::kPlanned), tree_->shares.Of(child, quota::Book::kPlanned, usage),
          entry, child};
}

}  // namespace muster::engine
