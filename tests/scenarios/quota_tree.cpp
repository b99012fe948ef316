#include "quota_tree.h"

#include <algorithm>
#include <optional>
#include <set>

namespace muster::scenarios {
namespace {

using sim::Get;
using sim::Json;
using sim::Number;
using sim::Text;

int64_t Amount(const Json& quantity) { return quantity.is_string() ? std::stoll(Text(quantity)) : Number(quantity); }

std::optional<int64_t> Find(const QuotaTree::Amounts& amounts, const std::string& key) {
  const auto it = amounts.find(key);
  return it == amounts.end() ? std::nullopt : std::optional(it->second);
}

}  // namespace

QuotaTree::Node QuotaTree::Read(const Json& object) {
  Node node;
  const bool cohort = Text(Get(object, "kind")) == "Cohort";
  node.parent = Text(sim::At(object, "spec", cohort ? "parentName" : "cohortName"));
  for (const Json& group : sim::At(object, "spec", "resourceGroups")) {
    for (const Json& flavor : Get(group, "flavors")) {
      for (const Json& resource : Get(flavor, "resources")) {
        const std::string key = Text(Get(flavor, "name")) + "/" + Text(Get(resource, "name"));
        node.nominal[key] = Amount(Get(resource, "nominalQuota"));
        if (resource.contains("borrowingLimit")) node.borrowing[key] = Amount(resource["borrowingLimit"]);
        if (resource.contains("lendingLimit")) node.lending[key] = Amount(resource["lendingLimit"]);
      }
    }
  }
  return node;
}

const QuotaTree::Node& QuotaTree::At(const Place& place) const {
  static const Node kOnlyNamed;
  const auto& nodes = place.queue ? queues_ : cohorts_;
  const auto it = nodes.find(place.name);
  return it == nodes.end() ? kOnlyNamed : it->second;
}

bool QuotaTree::OnCycle(const std::string& queue) const {
  std::set<std::string> seen;
  for (std::string at = queues_.at(queue).parent; !at.empty(); at = At({false, at}).parent) {
    if (!seen.insert(at).second) return true;
  }
  return false;
}

template <typename F>
int64_t QuotaTree::SumOfChildren(const std::string& cohort, F amount) const {
  int64_t sum = 0;
  for (const auto& [name, node] : queues_) {
    if (node.parent == cohort) sum += amount(Place{true, name});
  }
  for (const auto& [name, node] : cohorts_) {
    if (node.parent == cohort) sum += amount(Place{false, name});
  }
  return sum;
}

int64_t QuotaTree::Subtree(const Place& place, const std::string& key) const {
  const int64_t own = Find(At(place).nominal, key).value_or(0);
  if (place.queue) return own;
  return own + SumOfChildren(place.name, [&](const Place& child) { return Subtree(child, key) - Local(child, key); });
}

// What it does not lend.
int64_t QuotaTree::Local(const Place& place, const std::string& key) const {
  const auto lending = Find(At(place).lending, key);
  return lending.has_value() ? std::max<int64_t>(0, Subtree(place, key) - *lending) : 0;
}

int64_t QuotaTree::Used(const Place& place, const std::string& key) const {
  if (place.queue) {
    const auto of_queue = usage_->find(place.name);
    return of_queue == usage_->end() ? 0 : Find(of_queue->second, key).value_or(0);
  }
  return SumOfChildren(place.name,
                       [&](const Place& child) { return std::max<int64_t>(0, Used(child, key) - Local(child, key)); });
}

int64_t QuotaTree::AvailableAt(const Place& place, const std::string& key) const {
  if (IsRoot(place)) return Subtree(place, key) - Used(place, key);
  int64_t from_parent = AvailableAt(Parent(place), key);
  if (const auto borrowing = Find(At(place).borrowing, key)) {
    const int64_t lent_back = std::max<int64_t>(0, Used(place, key) - Local(place, key));
    from_parent = std::min(from_parent, Subtree(place, key) - Local(place, key) - lent_back + *borrowing);
  }
  return std::max<int64_t>(0, Local(place, key) - Used(place, key)) + from_parent;
}

int64_t QuotaTree::PotentialAt(const Place& place, const std::string& key) const {
  if (IsRoot(place)) return Subtree(place, key);
  const int64_t all = Local(place, key) + PotentialAt(Parent(place), key);
  const auto borrowing = Find(At(place).borrowing, key);
  return borrowing.has_value() ? std::min(all, Subtree(place, key) + *borrowing) : all;
}

int64_t QuotaTree::Available(const std::string& queue, const std::string& key) const {
  return AvailableAt({true, queue}, key);
}

int64_t QuotaTree::Potential(const std::string& queue, const std::string& key) const {
  return PotentialAt({true, queue}, key);
}

std::string QuotaTree::Excess(const std::string& queue, const std::string& key) const {
  if (Available(queue, key) >= 0) return "";
  const auto of_key = " of " + key;
  if (const int64_t most = Potential(queue, key); Used({true, queue}, key) > most) {
    return queue + " uses " + std::to_string(Used({true, queue}, key)) + of_key + ", at most " + std::to_string(most);
  }
  // The lowest one that is too full.
  for (Place at = Parent({true, queue}); !at.name.empty(); at = Parent(at)) {
    const int64_t most = IsRoot(at) ? Subtree(at, key) : PotentialAt(at, key);
    if (Used(at, key) <= most && !IsRoot(at)) continue;
    return "cohort " + at.name + " uses " + std::to_string(Used(at, key)) + of_key + ", has " + std::to_string(most);
  }
  return queue + " uses too much" + of_key;
}

}  // namespace muster::scenarios
