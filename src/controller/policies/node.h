// A YAML or JSON value made of strings, lists and maps: all that an admission policy consists of. Maps keep the
// order of insertion in YAML and are sorted in the canonical form.
//
// Threading: values.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace muster::controller {

class Node {
 public:
  using List = std::vector<Node>;
  using Map = std::vector<std::pair<std::string, Node>>;

  Node(std::string text) : value_(std::move(text)) {}  // NOLINT: implicit, so that literals nest
  Node(const char* text) : value_(std::string(text)) {}
  Node(List list) : value_(std::move(list)) {}
  Node(Map map) : value_(std::move(map)) {}

  // The value as a block of YAML; each line is indented by `indent` and ends with a newline.
  std::string ToYaml(int indent) const;
  // JSON without spaces, keys sorted: equal values give equal text.
  std::string ToCanonicalJson() const;

 private:
  std::variant<std::string, List, Map> value_;
};

Node::List StringList(const std::vector<std::string>& values);

}  // namespace muster::controller
