#include "muster/gang/requests.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <functional>

namespace muster::gang {

namespace {

void AddAll(ResourceList* sum, const ResourceList& more) {
  for (const auto& [name, quantity] : more) (*sum)[name] = (*sum)[name] + quantity;
}

void KeepSmaller(ResourceList* list, const ResourceList& other) {
  for (const auto& [name, quantity] : other) {
    const auto [it, inserted] = list->emplace(name, quantity);
    if (!inserted && quantity < it->second) it->second = quantity;
  }
}

// Notes `from` for each resource of `list` that is as in `other` and was not before.
void NoteSource(const ResourceList& before, const ResourceList& list, const ResourceList& other, std::string_view from,
                std::map<std::string, std::string, std::less<>>* sources) {
  for (const auto& [name, quantity] : other) {
    const auto old = before.find(name);
    const bool is_new = old == before.end() || !(old->second == list.find(name)->second);
    if (is_new) sources->insert_or_assign(name, std::string(from));
  }
}

void FillMissing(ResourceList* list, const ResourceList& defaults) { list->insert(defaults.begin(), defaults.end()); }

void FillFrom(ResourceRequirements* resources, const LimitRangeSummary::Type* type) {
  if (type == nullptr) return;
  FillMissing(&resources->limits, type->item.default_limits);
  FillMissing(&resources->requests, type->item.default_requests);
}

}  // namespace

void KeepGreater(ResourceList* list, const ResourceList& other) {
  for (const auto& [name, quantity] : other) {
    const auto [it, inserted] = list->emplace(name, quantity);
    if (!inserted && it->second < quantity) it->second = quantity;
  }
}

// ---- LimitRanges --------------------------------------------------------------------------------

void LimitRangeSummary::Add(std::string_view name, const LimitRange& range) {
  for (const LimitRangeItem& item : range) {
    Type& type = types_[item.type];
    LimitRangeItem& sum = type.item;
    const LimitRangeItem before = sum;
    sum.type = item.type;
    KeepSmaller(&sum.max, item.max);
    NoteSource(before.max, sum.max, item.max, name, &type.max_from);
    KeepGreater(&sum.min, item.min);
    NoteSource(before.min, sum.min, item.min, name, &type.min_from);
    FillMissing(&sum.default_limits, item.default_limits);
    FillMissing(&sum.default_requests, item.default_requests);
  }
}

const LimitRangeSummary::Type* LimitRangeSummary::Find(std::string_view type) const {
  const auto it = types_.find(type);
  return it == types_.end() ? nullptr : &it->second;
}

// ---- adjustment ---------------------------------------------------------------------------------

void AdjustResources(PodResources* pod, const LimitRangeSummary& limits, const ResourceList* class_overhead) {
  if (pod->overhead.empty() && class_overhead != nullptr) pod->overhead = *class_overhead;
  const LimitRangeSummary::Type* of_container = limits.Find("Container");
  for (auto* containers : {&pod->init_containers, &pod->containers}) {
    for (Container& container : *containers) {
      FillFrom(&container.resources, of_container);
      FillMissing(&container.resources.requests, container.resources.limits);
    }
  }
  if (!pod->pod_level.has_value()) return;
  FillFrom(&*pod->pod_level, limits.Find("Pod"));
  FillMissing(&pod->pod_level->requests, pod->pod_level->limits);
}

// ---- aggregation --------------------------------------------------------------------------------

bool IsPodLevel(std::string_view resource) {
  return resource == "cpu" || resource == "memory" || resource.starts_with("hugepages-");
}

namespace {

using Part = ResourceList ResourceRequirements::*;

// Without overhead.
ResourceList Aggregate(const PodResources& pod, Part part) {
  ResourceList running;
  for (const Container& container : pod.containers) AddAll(&running, container.resources.*part);
  ResourceList sidecars;
  ResourceList starting;  // the most that any init container needs, together with the sidecars before it
  for (const Container& container : pod.init_containers) {
    ResourceList moment;
    if (container.restartable) {
      AddAll(&running, container.resources.*part);
      AddAll(&sidecars, container.resources.*part);
      moment = sidecars;
    } else {
      moment = container.resources.*part;
      AddAll(&moment, sidecars);
    }
    KeepGreater(&starting, moment);
  }
  KeepGreater(&running, starting);
  if (pod.pod_level.has_value()) {
    for (const auto& [name, quantity] : (*pod.pod_level).*part) {
      if (IsPodLevel(name)) running[name] = quantity;
    }
  }
  return running;
}

}  // namespace

ResourceList PodRequests(const PodResources& pod) {
  ResourceList requests = Aggregate(pod, &ResourceRequirements::requests);
  AddAll(&requests, pod.overhead);
  return requests;
}

ResourceList PodLimits(const PodResources& pod) {
  ResourceList limits = Aggregate(pod, &ResourceRequirements::limits);
  for (const auto& [name, quantity] : pod.overhead) {
    const auto limit = limits.find(name);
    if (limit != limits.end() && !limit->second.IsZero()) limit->second = limit->second + quantity;
  }
  return limits;
}

ResourceList Configure(const ResourceList& requests, const RequestConfig& config) {
  ResourceList kept;
  for (const auto& [name, quantity] : requests) {
    const bool excluded = std::any_of(config.exclude_prefixes.begin(), config.exclude_prefixes.end(),
                                      [&name = name](const std::string& prefix) { return name.starts_with(prefix); });
    if (!excluded) kept.emplace(name, quantity);
  }
  ResourceList result = kept;
  ResourceList generated;
  for (const Transformation& transformation : config.transformations) {
    const auto input = kept.find(transformation.input);
    if (input == kept.end()) continue;
    Quantity base = input->second;
    const auto multiplier = kept.find(transformation.multiply_by);
    if (multiplier != kept.end()) base = base * multiplier->second;
    for (const auto& [output, factor] : transformation.outputs) {
      generated[output] = generated[output] + base * factor;
    }
    if (!transformation.retain) result.erase(transformation.input);
  }
  for (const auto& [name, quantity] : generated) {
    const Quantity& added = quantity.IsNegative() ? Quantity() : quantity;
    result[name] = result[name] + added;
  }
  return result;
}

std::map<std::string, Amount, std::less<>> ToAmounts(const ResourceList& requests) {
  std::map<std::string, Amount, std::less<>> amounts;
  for (const auto& [name, quantity] : requests) {
    amounts.emplace(name, std::max(Amount{0}, quantity.ToAmount(name)));
  }
  return amounts;
}

// ---- checks -------------------------------------------------------------------------------------

namespace {

std::string ContainerField(std::string_view list, size_t index) {
  return std::string(list).append("[").append(std::to_string(index)).append("].resources");
}

// What is wrong with a value and the limit that it should keep to.
using Report = std::function<void(const std::string& resource, const Quantity& value, const Quantity& limit)>;

// Calls for each resource of `values` that is above its limit.
void ForEachAbove(const ResourceList& values, const ResourceList& limits, const Report& report) {
  for (const auto& [name, value] : values) {
    const auto limit = limits.find(name);
    if (limit != limits.end() && limit->second < value) report(name, value, limit->second);
  }
}

void ForEachBelow(const ResourceList& values, const ResourceList& limits, const Report& report) {
  for (const auto& [name, limit] : limits) {
    const auto value = values.find(name);
    if (value != values.end() && value->second < limit) report(name, value->second, limit);
  }
}

void CheckRange(const ResourceList& least, const ResourceList& most, const LimitRangeSummary::Type& range,
                const std::string& field, std::vector<ResourceProblem>* problems) {
  ForEachAbove(most, range.item.max, [&](const std::string& resource, const Quantity& value, const Quantity& limit) {
    problems->push_back({field, resource, value, limit, false, range.max_from.at(resource)});
  });
  ForEachBelow(least, range.item.min, [&](const std::string& resource, const Quantity& value, const Quantity& limit) {
    problems->push_back({field, resource, value, limit, true, range.min_from.at(resource)});
  });
}

template <typename F>
void ForEachContainer(const PodResources& pod, F visit) {
  for (size_t i = 0; i < pod.init_containers.size(); ++i) {
    visit(pod.init_containers[i].resources, ContainerField("initContainers", i));
  }
  for (size_t i = 0; i < pod.containers.size(); ++i) {
    visit(pod.containers[i].resources, ContainerField("containers", i));
  }
}

}  // namespace

std::vector<ResourceProblem> RequestsAboveLimits(const PodResources& pod) {
  std::vector<ResourceProblem> problems;
  const auto check = [&](const ResourceRequirements& resources, const std::string& field) {
    ForEachAbove(resources.requests, resources.limits,
                 [&](const std::string& resource, const Quantity& value, const Quantity& limit) {
                   problems.push_back({absl::StrCat(field, ".requests"), resource, value, limit, false, ""});
                 });
  };
  ForEachContainer(pod, check);
  if (pod.pod_level.has_value()) check(*pod.pod_level, "resources");
  return problems;
}

std::vector<ResourceProblem> OutsideLimitRange(const PodResources& pod, const LimitRangeSummary& limits) {
  std::vector<ResourceProblem> problems;
  if (const LimitRangeSummary::Type* range = limits.Find("Container")) {
    ForEachContainer(pod, [&](const ResourceRequirements& resources, const std::string& field) {
      ResourceList least = resources.requests;
      KeepSmaller(&least, resources.limits);
      ResourceList most = resources.requests;
      KeepGreater(&most, resources.limits);
      CheckRange(least, most, *range, field, &problems);
    });
  }
  if (const LimitRangeSummary::Type* range = limits.Find("Pod")) {
    const ResourceList total = PodRequests(pod);
    CheckRange(total, total, *range, "resources", &problems);
  }
  return problems;
}

}  // namespace muster::gang
