// Label and field selectors of list and watch requests. Written apart from the product's own, so that a
// fault there cannot hide here.
//
// Threading: values.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>
#include <vector>

#include "muster/sim/json.h"
#include "muster/sim/kinds.h"

namespace muster::sim {

class Selector {
 public:
  // ON FAILURE: InvalidArgument in the server's words (HTTP 400).
  static absl::StatusOr<Selector> Parse(const Kind& kind, std::string_view label_selector,
                                        std::string_view field_selector);
  bool Matches(const Json& object) const;
  bool empty() const { return labels_.empty() && fields_.empty(); }

 private:
  struct LabelTerm {
    enum class Op { kIn, kNotIn, kExists, kAbsent, kGreater, kLess };
    std::string key;
    Op op = Op::kIn;
    std::vector<std::string> values;
  };
  struct FieldTerm {
    std::string field;
    std::string value;
    bool equal = true;
  };
  static bool MatchesLabel(const LabelTerm& term, const Json& labels);

  std::vector<LabelTerm> labels_;
  std::vector<FieldTerm> fields_;
};

}  // namespace muster::sim
