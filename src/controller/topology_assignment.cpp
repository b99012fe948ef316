#include "muster/controller/topology_assignment.h"

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace muster::controller {

using k8s::JsonValue;
using k8s::JsonWriter;

namespace {

using Domains = std::span<const gang::TopologyDomain>;

void WriteLevel(Domains domains, size_t level, JsonWriter* out) {
  const std::string& first = domains.front().values[level];
  size_t prefix = first.size();
  size_t suffix = first.size();
  size_t shortest = first.size();
  bool same = true;
  for (const gang::TopologyDomain& domain : domains) {
    const std::string& value = domain.values[level];
    same = same && value == first;
    shortest = std::min(shortest, value.size());
    const auto from_start = std::mismatch(
        first.begin(), first.begin() + static_cast<ptrdiff_t>(std::min(prefix, value.size())), value.begin());
    prefix = static_cast<size_t>(from_start.first - first.begin());
    const auto from_end = std::mismatch(
        first.rbegin(), first.rbegin() + static_cast<ptrdiff_t>(std::min(suffix, value.size())), value.rbegin());
    suffix = static_cast<size_t>(from_end.first - first.rbegin());
  }
  out->StartObject();
  if (same) {
    out->Field("universal", first).EndObject();
    return;
  }
  suffix = std::min(suffix, shortest - prefix);
  out->Key("individual").StartObject();
  if (prefix > 0) out->Field("prefix", std::string_view(first).substr(0, prefix));
  if (suffix > 0) out->Field("suffix", std::string_view(first).substr(first.size() - suffix));
  out->Key("roots").StartArray();
  for (const gang::TopologyDomain& domain : domains) {
    const std::string_view value = domain.values[level];
    out->String(value.substr(prefix, value.size() - prefix - suffix));
  }
  out->EndArray().EndObject().EndObject();
}

void WriteSlice(Domains domains, size_t levels, JsonWriter* out) {
  out->StartObject().Field("domainCount", static_cast<int64_t>(domains.size()));
  out->Key("valuesPerLevel").StartArray();
  for (size_t level = 0; level < levels; ++level) WriteLevel(domains, level, out);
  out->EndArray().Key("podCounts").StartObject();
  const int32_t count = domains.front().count;
  if (std::all_of(domains.begin(), domains.end(), [&](const auto& domain) { return domain.count == count; })) {
    out->Field("universal", count);
  } else {
    out->Key("individual").StartArray();
    for (const gang::TopologyDomain& domain : domains) out->Int(domain.count);
    out->EndArray();
  }
  out->EndObject().EndObject();
}

void ReadLevel(JsonValue value, std::span<gang::TopologyDomain> domains) {
  if (const JsonValue universal = value["universal"]; universal.present()) {
    for (gang::TopologyDomain& domain : domains) domain.values.push_back(universal.String());
    return;
  }
  const JsonValue individual = value["individual"];
  const JsonValue roots = individual["roots"];
  if (roots.size() != static_cast<int64_t>(domains.size())) {
    roots.Fail("must have one value for each domain");
    return;
  }
  const std::string prefix = individual["prefix"].String();
  const std::string suffix = individual["suffix"].String();
  size_t next = 0;
  roots.ForEach([&](JsonValue root) { domains[next++].values.push_back(prefix + root.String() + suffix); });
}

void ReadCounts(JsonValue counts, std::span<gang::TopologyDomain> domains) {
  if (const JsonValue universal = counts["universal"]; universal.present()) {
    for (gang::TopologyDomain& domain : domains) domain.count = universal.Count();
    return;
  }
  const JsonValue individual = counts["individual"];
  if (individual.size() != static_cast<int64_t>(domains.size())) {
    individual.Fail("must have one number for each domain");
    return;
  }
  size_t next = 0;
  individual.ForEach([&](JsonValue count) { domains[next++].count = count.Count(); });
}

// RETURNS: false where it cannot be read.
bool ReadSlice(JsonValue slice, size_t levels, std::vector<gang::TopologyDomain>* out) {
  const auto count = static_cast<size_t>(slice["domainCount"].Count());
  if (count == 0 || count > kSliceDomainsMax) {
    slice["domainCount"].Fail("must be from 1 to 100000");
    return false;
  }
  const JsonValue values = slice["valuesPerLevel"];
  if (values.size() != static_cast<int64_t>(levels)) {
    values.Fail("must have one entry for each level");
    return false;
  }
  std::vector<gang::TopologyDomain> domains(count);
  values.ForEach([&](JsonValue value) { ReadLevel(value, domains); });
  ReadCounts(slice["podCounts"], domains);
  if (std::any_of(domains.begin(), domains.end(), [&](const auto& domain) { return domain.values.size() != levels; })) {
    return false;
  }
  std::move(domains.begin(), domains.end(), std::back_inserter(*out));
  return true;
}

}  // namespace

void EncodeTopologyAssignment(const gang::TopologyAssignment& assignment, JsonWriter* out) {
  out->StartObject().Key("levels").StartArray();
  for (const std::string& level : assignment.levels) out->String(level);
  out->EndArray().Key("slices").StartArray();
  const Domains all(assignment.domains);
  for (size_t first = 0; first < all.size(); first += kSliceDomainsMax) {
    WriteSlice(all.subspan(first, std::min(kSliceDomainsMax, all.size() - first)), assignment.levels.size(), out);
  }
  out->EndArray().EndObject();
}

gang::TopologyAssignment DecodeTopologyAssignment(JsonValue value) {
  gang::TopologyAssignment assignment;
  value["levels"].ForEach([&](JsonValue level) { assignment.levels.push_back(level.String()); });
  bool readable = true;
  value["slices"].ForEach(
      [&](JsonValue slice) { readable = readable && ReadSlice(slice, assignment.levels.size(), &assignment.domains); });
  if (!readable) assignment.domains.clear();
  return assignment;
}

}  // namespace muster::controller
