#include "quota_tree.h"

#include <algorithm>

namespace muster::cli::model {

bool Less(const Share& a, const Share& b) {
  if (a.IsInfinite() != b.IsInfinite()) return b.IsInfinite();
  // borrowed / lendable / weight, of whole numbers.
  __extension__ using Wide = unsigned __int128;
  const auto part = [](const Share& one, const Share& other) {
    const int64_t weight = one.IsInfinite() ? 1 : std::max<int64_t>(other.weight_nanos, 1);
    return Wide(one.borrowed.value) * Wide(other.lendable.value) * Wide(weight);
  };
  return part(a, b) < part(b, a);
}

int QuotaTree::AddNode(const std::string& name, bool is_queue) {
  nodes_.push_back({});
  nodes_.back().name = name;
  nodes_.back().is_queue = is_queue;
  nodes_.back().weight_nanos = engine::FairWeight{}.nanos;
  return size() - 1;
}

void QuotaTree::AddQuotas(int node, const std::vector<engine::ResourceGroup>& groups) {
  for (const engine::ResourceGroup& group : groups) {
    for (const engine::FlavorQuotas& flavor : group.flavors) {
      for (const engine::ResourceQuota& quota : flavor.resources) {
        nodes_[static_cast<size_t>(node)].quotas[Intern(flavor.flavor, quota.resource)] = {
            quota.nominal, quota.borrowing_limit, quota.lending_limit};
      }
    }
  }
}

void QuotaTree::Build(const std::map<std::string, engine::ClusterQueue>& queues,
                      const std::map<std::string, engine::Cohort>& cohorts) {
  nodes_.clear();
  queues_.clear();
  cohorts_.clear();
  const auto cohort_of = [this](const std::string& name) {
    if (name.empty()) return -1;
    const auto [it, added] = cohorts_.emplace(name, 0);
    if (added) it->second = AddNode(name, false);
    return it->second;
  };
  for (const auto& [name, queue] : queues) {
    const int node = AddNode(name, true);
    queues_[name] = node;
    AddQuotas(node, queue.resource_groups);
    const int parent = cohort_of(queue.cohort);
    nodes_[static_cast<size_t>(node)].parent = parent;
    nodes_[static_cast<size_t>(node)].weight_nanos = queue.fair_weight.nanos;
  }
  for (const auto& [name, cohort] : cohorts) {
    const int node = cohort_of(name);
    const int parent = cohort_of(cohort.parent);
    AddQuotas(node, cohort.resource_groups);
    nodes_[static_cast<size_t>(node)].parent = parent;
    nodes_[static_cast<size_t>(node)].weight_nanos = cohort.fair_weight.nanos;
  }
  for (Node& node : nodes_) {
    int at = node.parent;
    for (int steps = 0; at >= 0 && steps <= size(); ++steps) at = nodes_[static_cast<size_t>(at)].parent;
    node.on_cycle = at >= 0;
  }
  for (Node& node : nodes_) {
    if (node.on_cycle) node.parent = -1;  // such a tree decides nothing
  }
  for (int i = 0; i < size(); ++i) {
    if (node(i).parent >= 0) nodes_[static_cast<size_t>(node(i).parent)].children.push_back(i);
  }
  for (Node& node : nodes_) {
    std::sort(node.children.begin(), node.children.end(), [this](int a, int b) {
      return std::pair(!this->node(a).is_queue, this->node(a).name) <
             std::pair(!this->node(b).is_queue, this->node(b).name);
    });
  }
}

Fr QuotaTree::Intern(const std::string& flavor, const std::string& resource) {
  const auto [it, added] = frs_.emplace(std::pair(flavor, resource), frs());
  if (added) names_.emplace_back(flavor, resource);
  return it->second;
}

Fr QuotaTree::FrOf(const std::string& flavor, const std::string& resource) const {
  return frs_.at(std::pair(flavor, resource));
}

int QuotaTree::QueueOf(const std::string& name) const {
  const auto it = queues_.find(name);
  return it == queues_.end() ? -1 : it->second;
}

int QuotaTree::RootOf(int node) const {
  while (this->node(node).parent >= 0) node = this->node(node).parent;
  return node;
}

std::vector<int> QuotaTree::QueuesBelow(int node) const {
  std::vector<int> queues;
  for (const auto& [name, queue] : queues_) {
    int at = queue;
    while (at >= 0 && at != node) at = this->node(at).parent;
    if (at == node) queues.push_back(queue);
  }
  return queues;
}

Quota QuotaTree::QuotaOf(int node, Fr fr) const {
  const auto it = this->node(node).quotas.find(fr);
  return it == this->node(node).quotas.end() ? Quota{} : it->second;
}

Amount QuotaTree::Subtree(int node, Fr fr) const {
  Amount sum = QuotaOf(node, fr).nominal;
  for (const int child : this->node(node).children) sum += Subtree(child, fr) - Local(child, fr);
  return sum;
}

Amount QuotaTree::Local(int node, Fr fr) const {
  const std::optional<Amount> limit = QuotaOf(node, fr).lending_limit;
  return limit.has_value() ? std::max(Amount{0}, Subtree(node, fr) - *limit) : Amount{0};
}

Amount QuotaTree::Potential(int node, Fr fr) const {
  const int parent = this->node(node).parent;
  if (parent < 0) return Subtree(node, fr);
  const Amount lent = Local(node, fr) + Potential(parent, fr);
  const std::optional<Amount> limit = QuotaOf(node, fr).borrowing_limit;
  return limit.has_value() ? std::min(lent, Subtree(node, fr) + *limit) : lent;
}

int QuotaTree::Height(int cohort) const {
  int height = 0;
  for (const int child : node(cohort).children) height = std::max(height, node(child).is_queue ? 1 : 1 + Height(child));
  return height;
}

void Usage::Add(int queue, const Amounts& amounts) {
  for (const auto& [fr, amount] : amounts) own_[static_cast<size_t>(queue)][fr] += amount;
}

void Usage::Remove(int queue, const Amounts& amounts) {
  for (const auto& [fr, amount] : amounts) own_[static_cast<size_t>(queue)][fr] -= amount;
}

Amount Usage::Used(int node, Fr fr) const {
  if (tree_->node(node).is_queue) {
    const Amounts& own = own_[static_cast<size_t>(node)];
    const auto it = own.find(fr);
    return it == own.end() ? Amount{0} : it->second;
  }
  Amount sum;
  for (const int child : tree_->node(node).children) {
    sum += std::max(Amount{0}, Used(child, fr) - tree_->Local(child, fr));
  }
  return sum;
}

Amount Usage::LocalAvailable(int node, Fr fr) const {
  return std::max(Amount{0}, tree_->Local(node, fr) - Used(node, fr));
}

Amount Usage::AvailableAt(int node, Fr fr) const {
  const int parent = tree_->node(node).parent;
  const Amount quota = tree_->Subtree(node, fr);
  const Amount used = Used(node, fr);
  if (parent < 0) return quota - used;
  const Amount local = tree_->Local(node, fr);
  Amount from_above = AvailableAt(parent, fr);
  if (const std::optional<Amount> limit = tree_->QuotaOf(node, fr).borrowing_limit; limit.has_value()) {
    from_above = std::min(from_above, (quota - local) - std::max(Amount{0}, used - local) + *limit);
  }
  return LocalAvailable(node, fr) + from_above;
}

Amount Usage::Available(int queue, Fr fr) const { return std::max(Amount{0}, AvailableAt(queue, fr)); }

bool Usage::Borrows(int node, Fr fr, Amount more) const { return Used(node, fr) + more > tree_->Subtree(node, fr); }

bool Usage::WithinQuota(int node, const std::set<Fr>& frs) const {
  return std::none_of(frs.begin(), frs.end(), [&](Fr fr) { return Borrows(node, fr, Amount{0}); });
}

bool Usage::Fits(int queue, const Amounts& amounts) const {
  return std::all_of(amounts.begin(), amounts.end(),
                     [&](const auto& entry) { return entry.second <= Available(queue, entry.first); });
}

Level Usage::LevelOf(int queue, Fr fr, Amount more) const {
  int at = tree_->node(queue).parent;
  if (at < 0) return {0, false};
  if (!Borrows(queue, fr, more)) return {0, true};
  Amount rest = more - LocalAvailable(queue, fr);
  while (true) {
    const int parent = tree_->node(at).parent;
    if (parent < 0 || !Borrows(at, fr, rest)) return {tree_->Height(at), parent >= 0};
    rest -= LocalAvailable(at, fr);
    at = parent;
  }
}

Share Usage::ShareOf(int node) const {
  const int parent = tree_->node(node).parent;
  Share most;
  if (parent < 0) return most;
  std::map<std::string, Amount> borrowed;  // by resource
  for (Fr fr = 0; fr < tree_->frs(); ++fr) {
    const Amount above = Used(node, fr) - tree_->Subtree(node, fr);
    if (above > Amount{0}) borrowed[tree_->NameOf(fr).second] += above;
  }
  for (const auto& [resource, amount] : borrowed) {
    Amount lendable;
    for (Fr fr = 0; fr < tree_->frs(); ++fr) {
      if (tree_->NameOf(fr).second == resource) lendable += tree_->Potential(parent, fr);
    }
    if (lendable <= Amount{0}) continue;
    const Share share{amount, lendable, tree_->node(node).weight_nanos};
    if (Less(most, share)) most = share;
  }
  return most;
}

}  // namespace muster::cli::model
