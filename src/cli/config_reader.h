// Holds a document against the schema, and hands out what it found. Errors are collected, never thrown; a
// value that was reported is not handed out.
//
// Threading: needs external synchronisation.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config_schema.h"
#include "muster/cli/configuration.h"
#include "muster/core/labels.h"
#include "muster/core/quantity.h"
#include "muster/core/time.h"
#include "yaml_document.h"

namespace muster::cli {

class ConfigReader {
 public:
  // Checks the whole document. REQUIRES: it is a map, and outlives the reader.
  explicit ConfigReader(const YamlNode& document);

  // A value that is set and of the right type; `path` as in errors, e.g. "metrics.bindAddress".
  std::optional<std::string> String(const std::string& path) const;
  std::optional<bool> Bool(const std::string& path) const;
  std::optional<int64_t> Int(const std::string& path) const;
  std::optional<double> Number(const std::string& path) const;
  std::optional<Duration> Time(const std::string& path) const;
  // Elements that are text, with their paths; empty where the list is not set.
  std::vector<std::pair<std::string, std::string>> Strings(const std::string& path) const;
  // The paths of a list's elements that have the right type.
  std::vector<std::string> Elements(const std::string& path) const;
  // A field of an element, which has to be there: fails otherwise, and where `check` finds something wrong.
  std::string Required(const std::string& path, std::string (*check)(std::string_view));
  // Entries of a map of truth values, with their paths.
  std::vector<std::pair<std::string, bool>> Bools(const std::string& path) const;
  // Entries of a map of quantities, with their paths and keys.
  struct QuantityEntry {
    std::string path;
    std::string key;
    Quantity value;
  };
  std::vector<QuantityEntry> Quantities(const std::string& path) const;
  // Elements of a list that are objects: their paths.
  std::vector<std::string> Objects(const std::string& path) const;
  // Checked as the API server checks a metav1.LabelSelector.
  std::optional<LabelSelector> Selector(const std::string& path);
  bool IsSet(const std::string& path) const { return found_.contains(path); }
  bool v1beta1() const { return v1beta1_; }

  // An error about the value at `path`, or about the place where it would stand.
  void Fail(const std::string& path, std::string message);
  // The same where `problem` is not empty.
  void FailIf(const std::string& path, std::string problem);
  void Note(std::string note) { notes_.push_back(std::move(note)); }

  // By line.
  std::vector<ConfigError> TakeErrors();
  std::vector<std::string> TakeNotes() { return std::move(notes_); }

 private:
  void Walk(const YamlNode& node, const Field& field, const std::string& path, bool settled);
  void WalkObject(const YamlNode& node, const Field& field, const std::string& path, bool settled);
  void WalkMap(const YamlNode& node, const Field& field, const std::string& path, bool settled);
  bool CheckType(const YamlNode& node, const Field& field, const std::string& path);
  void CheckSupport(const YamlNode& node, const Field& field, const std::string& path);
  void FailAt(const YamlNode& node, const std::string& path, std::string message);
  Requirement ReadRequirement(const std::string& path);
  const YamlNode* Find(const std::string& path) const;
  std::string UnknownField(const std::string& key, const Field& parent, const Field* other_version) const;

  bool v1beta1_ = false;
  std::map<std::string, const YamlNode*> found_;  // by path; only what has the right type
  std::map<std::string, int> lines_;              // of all keys
  std::vector<ConfigError> errors_;
  std::vector<std::string> notes_;
};

}  // namespace muster::cli
