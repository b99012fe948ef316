// What the simulated API server knows of a kind of object: as much as decides how it is stored.
//
// Threading: values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace muster::sim {

struct Kind {
  // What makes metadata.generation grow.
  enum class Generation : uint8_t {
    kNone,         // the kind has no generation
    kFixed,        // 1 for ever
    kSpec,         // a change of spec
    kAllButStatus  // a change of anything but metadata and, where it is a subresource, status: custom resources
  };

  std::string group;  // empty: core
  std::string plural;
  std::string kind;
  std::vector<std::string> versions;  // served; all show the same fields (conversion None). First: preferred
  bool namespaced = true;
  bool status_subresource = false;
  bool custom = false;  // defined by a CRD
  Generation generation = Generation::kNone;
  bool update_needs_version = false;  // PUT without resourceVersion is refused
  bool create_on_update = false;      // PUT of an absent object creates it
  bool orphans_by_default = false;    // DELETE without a propagation policy

  // "jobs.batch"; of the core group "namespaces".
  std::string Qualified() const { return group.empty() ? plural : plural + "." + group; }
  // "Job.batch".
  std::string QualifiedKind() const { return group.empty() ? kind : kind + "." + group; }
  std::string ApiVersion(std::string_view version) const {
    return group.empty() ? std::string(version) : group + "/" + std::string(version);
  }
  bool Serves(std::string_view version) const;
};

// A CRD's kind with the defaults of one: status subresource, generation, version needed.
Kind CustomKind(std::string group, std::string plural, std::string kind, std::vector<std::string> versions,
                bool namespaced, bool status_subresource = true);

// Every kind that Muster or its tests touch, Kueue's CRDs among them.
std::vector<Kind> DefaultKinds();

}  // namespace muster::sim
