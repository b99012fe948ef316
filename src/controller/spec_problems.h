// Objects of which something cannot be read: the log says so at once, /debug/readyz while it lasts, and a leader writes
// an Event on the object.
//
// Threading: used from the executor only.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/k8s_client/event_recorder.h"
#include "muster/k8s_client/object.h"
#include "muster/k8s_client/resources.h"

namespace muster::controller {

class SpecProblems {
 public:
  // REQUIRES: it outlives this.
  explicit SpecProblems(k8s::EventRecorder* events) : events_(events) {}

  // From here on Events are written, first on all that stands.
  void Lead();
  // The object is there; `problem` is the field that cannot be read, and its value, or empty.
  void Note(const k8s::Resource& resource, const k8s::ObjectMeta& meta, const std::string& problem);
  void Forget(const k8s::Resource& resource, const k8s::ObjectKey& key);
  // Of an object that is kept nowhere: told, and not noted.
  void Tell(const k8s::Resource& resource, const k8s::ObjectMeta& meta, const std::string& problem) const;
  void WriteEvent(const k8s::Resource& resource, const k8s::ObjectMeta& meta, const std::string& problem) const;

  // One for each kind: there may be thousands.
  std::vector<std::string> Standing() const;

 private:
  struct Problem {
    k8s::ObjectMeta meta;
    std::string text;
  };
  k8s::EventRecorder* events_;
  bool leads_ = false;
  // By kind.
  std::map<std::string_view, std::pair<const k8s::Resource*, std::map<k8s::ObjectKey, Problem>>> problems_;
};

}  // namespace muster::controller
