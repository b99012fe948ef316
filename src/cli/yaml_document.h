// One YAML document as a tree that keeps lines and duplicate keys, which yaml-cpp's own tree loses.
//
// Threading: values and pure functions.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace muster::cli {

struct YamlNode {
  enum class Kind : uint8_t { kNull, kScalar, kSequence, kMap };
  struct Entry;

  Kind kind = Kind::kNull;
  int line = 0;        // from 1
  std::string text;    // of a scalar
  bool plain = false;  // a scalar without quotes: it may be a number or a truth value
  std::vector<YamlNode> items;
  std::vector<Entry> entries;  // in the order of the file, duplicates included
};

struct YamlNode::Entry {
  std::string key;
  int line = 0;
  YamlNode value;
};

struct YamlProblem {
  int line = 0;
  std::string message;
};

// Exactly one document. Anchors, aliases and tags are refused, and so is a document that is larger or more
// deeply nested than any sensible configuration.
std::variant<YamlNode, YamlProblem> ParseYaml(std::string_view text);

}  // namespace muster::cli
