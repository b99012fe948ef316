#include "spec_problems.h"

#include <spdlog/spdlog.h>

#include "muster/controller/names.h"
#include "muster/core/log_fields.h"
#include "text.h"

namespace muster::controller {

void SpecProblems::Lead() {
  leads_ = true;
  for (const auto& [kind, entry] : problems_) {
    for (const auto& [key, problem] : entry.second) WriteEvent(*entry.first, problem.meta, problem.text);
  }
}

void SpecProblems::Note(const k8s::Resource& resource, const k8s::ObjectMeta& meta, const std::string& problem) {
  if (problem.empty()) return Forget(resource, meta.key());
  auto& [of, objects] = problems_[resource.kind];
  of = &resource;
  Problem& known = objects[meta.key()];
  const bool told = known.meta.uid == meta.uid && known.text == problem;
  known = {meta, problem};
  if (!told) Tell(resource, meta, problem);
}

void SpecProblems::Forget(const k8s::Resource& resource, const k8s::ObjectKey& key) {
  const auto it = problems_.find(resource.kind);
  if (it == problems_.end()) return;
  it->second.second.erase(key);
  if (it->second.second.empty()) problems_.erase(it);
}

void SpecProblems::Tell(const k8s::Resource& resource, const k8s::ObjectMeta& meta, const std::string& problem) const {
  spdlog::error(
      "an object cannot be read{}",
      LogFields({{"kind", std::string(resource.kind)}, {"object", meta.key().ToString()}, {"error", problem}}));
  if (leads_) WriteEvent(resource, meta, problem);
}

void SpecProblems::WriteEvent(const k8s::Resource& resource, const k8s::ObjectMeta& meta,
                              const std::string& problem) const {
  const std::string api_version =
      resource.group.empty() ? std::string(resource.version) : Cat(resource.group, "/", resource.version);
  events_->Record({api_version, std::string(resource.kind), meta.ns, meta.name, meta.uid}, kObjectReporter, "Warning",
                  "Misconfigured", "Read", problem);
}

std::vector<std::string> SpecProblems::Standing() const {
  std::vector<std::string> out;
  for (const auto& [kind, entry] : problems_) {
    const auto& [key, first] = *entry.second.begin();
    const size_t more = entry.second.size() - 1;
    out.push_back(Cat("cannot be read: ", kind, " ", key.ToString(), ": ", first.text,
                      more == 0 ? std::string() : Cat(" (and ", more, " more of kind ", kind, ")")));
  }
  return out;
}

}  // namespace muster::controller
