// A node as placement sees it.
//
// Threading: values.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "muster/core/amount.h"
#include "muster/core/labels.h"
#include "muster/gang/shape.h"

namespace muster::gang {

struct Node {
  std::string name;
  Labels labels;
  std::vector<Taint> taints;
  bool unschedulable = false;                              // cordoned
  bool ready = false;                                      // condition Ready is True
  std::map<std::string, Amount, std::less<>> allocatable;  // `pods` among them
  friend bool operator==(const Node&, const Node&) = default;
};

}  // namespace muster::gang
