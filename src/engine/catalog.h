// What all trees share and none of them owns: names as ids, flavors, namespaces, and shapes translated to
// ids. Trees only read it while they decide.
//
// Threading: needs external synchronisation.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/core/interner.h"
#include "muster/core/string_map.h"
#include "muster/engine/objects.h"
#include "muster/gang/topology_book.h"
#include "muster/quota/flavor_resource.h"

namespace muster::engine {

using quota::FlavorId;
using quota::FlavorResource;
using quota::ResourceId;

// A shape with its resources as ids. One object for each shape in use.
struct CompiledShape {
  gang::ShapePtr shape;
  std::vector<std::pair<ResourceId, Amount>> requests;  // of one pod, in the order of the names
  uint64_t hash = 0;                                    // canonical
};
using CompiledShapePtr = std::shared_ptr<const CompiledShape>;

class Catalog {
 public:
  Catalog();

  FlavorId Flavor(std::string_view name);
  ResourceId Resource(std::string_view name) { return resources_.Intern(name); }
  const std::string& FlavorName(FlavorId id) const { return flavor_names_.Name(id); }
  const std::string& ResourceName(ResourceId id) const { return resources_.Name(id); }
  // REQUIRES: the names are of ids given before.
  FlavorResource Find(std::string_view flavor, std::string_view resource) const {
    return {flavor_names_.Find(flavor), resources_.Find(resource)};
  }
  ResourceId pods() const { return pods_; }

  // Null where no such flavor was applied.
  const ResourceFlavor* FindFlavor(FlavorId id) const;
  // RETURNS: whether anything changed.
  bool SetFlavor(const ResourceFlavor& flavor);
  bool RemoveFlavor(std::string_view name);

  // Null where no such check was applied.
  const AdmissionCheck* FindCheck(std::string_view name) const;
  // RETURNS: whether anything changed.
  bool SetCheck(const AdmissionCheck& check);
  bool RemoveCheck(std::string_view name) { return checks_.erase(name) > 0; }

  // No labels where the namespace is not known.
  const Labels& NamespaceLabels(std::string_view name) const;
  bool SetNamespace(const Namespace& ns);
  bool RemoveNamespace(std::string_view name);

  // Null where no such topology was applied.
  const gang::Topology* FindTopology(std::string_view name) const;
  bool SetTopology(const gang::Topology& topology);
  bool RemoveTopology(std::string_view name);

  CompiledShapePtr Compile(const gang::ShapePtr& shape);

  const StringMap<Labels>& namespaces() const { return namespaces_; }
  const StringMap<AdmissionCheck>& checks() const { return checks_; }
  const std::map<std::string, gang::Topology, std::less<>>& topologies() const { return topologies_; }
  // By id; absent ones are empty.
  const std::vector<std::unique_ptr<ResourceFlavor>>& flavors() const { return flavors_; }

 private:
  Interner<quota::FlavorTag> flavor_names_;
  Interner<quota::ResourceTag> resources_;
  ResourceId pods_;
  std::vector<std::unique_ptr<ResourceFlavor>> flavors_;
  StringMap<Labels> namespaces_;
  StringMap<AdmissionCheck> checks_;
  std::map<std::string, gang::Topology, std::less<>> topologies_;
  absl::flat_hash_map<const gang::Shape*, std::weak_ptr<const CompiledShape>> shapes_;
  size_t since_sweep_ = 0;
};

}  // namespace muster::engine
