#include "catalog.h"

namespace muster::engine {

Catalog::Catalog() : pods_(resources_.Intern("pods")) {}

FlavorId Catalog::Flavor(std::string_view name) {
  const FlavorId id = flavor_names_.Intern(name);
  if (id.value >= flavors_.size()) flavors_.resize(id.value + 1);
  return id;
}

const ResourceFlavor* Catalog::FindFlavor(FlavorId id) const { return flavors_[id.value].get(); }

bool Catalog::SetFlavor(const ResourceFlavor& flavor) {
  std::unique_ptr<ResourceFlavor>& slot = flavors_[Flavor(flavor.name).value];
  if (slot != nullptr && *slot == flavor) return false;
  slot = std::make_unique<ResourceFlavor>(flavor);
  return true;
}

bool Catalog::RemoveFlavor(std::string_view name) {
  std::unique_ptr<ResourceFlavor>& slot = flavors_[Flavor(name).value];
  if (slot == nullptr) return false;
  slot.reset();
  return true;
}

const AdmissionCheck* Catalog::FindCheck(std::string_view name) const {
  const auto it = checks_.find(name);
  return it == checks_.end() ? nullptr : &it->second;
}

bool Catalog::SetCheck(const AdmissionCheck& check) {
  const auto [it, inserted] = checks_.try_emplace(check.name, check);
  if (inserted) return true;
  if (it->second == check) return false;
  it->second = check;
  return true;
}

const Labels& Catalog::NamespaceLabels(std::string_view name) const {
  static const Labels kNone;
  const auto it = namespaces_.find(name);
  return it == namespaces_.end() ? kNone : it->second;
}

bool Catalog::SetNamespace(const Namespace& ns) {
  const auto [it, inserted] = namespaces_.try_emplace(ns.name, ns.labels);
  if (inserted) return true;
  if (it->second == ns.labels) return false;
  it->second = ns.labels;
  return true;
}

bool Catalog::RemoveNamespace(std::string_view name) {
  const auto it = namespaces_.find(name);
  if (it == namespaces_.end()) return false;
  namespaces_.erase(it);
  return true;
}

const gang::Topology* Catalog::FindTopology(std::string_view name) const {
  const auto it = topologies_.find(name);
  return it == topologies_.end() ? nullptr : &it->second;
}

bool Catalog::SetTopology(const gang::Topology& topology) {
  const auto [it, inserted] = topologies_.try_emplace(topology.name, topology);
  if (inserted) return true;
  if (it->second == topology) return false;
  it->second = topology;
  return true;
}

bool Catalog::RemoveTopology(std::string_view name) {
  const auto it = topologies_.find(name);
  if (it == topologies_.end()) return false;
  topologies_.erase(it);
  return true;
}

CompiledShapePtr Catalog::Compile(const gang::ShapePtr& shape) {
  if (const auto it = shapes_.find(shape.get()); it != shapes_.end()) {
    // A dead entry may be of another shape that once had this address.
    if (CompiledShapePtr known = it->second.lock(); known != nullptr) return known;
  }
  auto compiled = std::make_shared<CompiledShape>();
  compiled->shape = shape;
  compiled->requests.reserve(shape->requests.size());
  for (const auto& [name, amount] : shape->requests) compiled->requests.emplace_back(Resource(name), amount);
  StateHash hash;
  gang::AddToHash(*shape, &hash);
  compiled->hash = hash.value();
  shapes_[shape.get()] = compiled;
  if (++since_sweep_ > shapes_.size() / 2 + 64) {
    since_sweep_ = 0;
    absl::erase_if(shapes_, [](const auto& entry) { return entry.second.expired(); });
  }
  return compiled;
}

}  // namespace muster::engine
