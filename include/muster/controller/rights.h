// What Muster has to be allowed by the cluster. config/rbac grants it; a process that lacks some of it says which.
//
// Threading: pure functions.
#pragma once

#include <string>
#include <vector>

#include "muster/controller/options.h"

namespace muster::controller {

struct Right {
  std::string verb;
  std::string group;
  std::string resource;  // "workloads/status"
  std::string ns;        // empty: everywhere
  std::string name;      // empty: of any object
};

// "patch jobs.batch/status", with the namespace and the name where the right is about no more than that.
std::string ToString(const Right& right);

std::vector<Right> RequiredRights(const Options& options);

}  // namespace muster::controller
