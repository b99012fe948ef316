#include "selectors.h"

#include <absl/strings/numbers.h>

#include <algorithm>

#include "object_meta.h"
#include "text.h"

namespace muster::sim {
namespace {

// Splits at commas that are not inside parentheses.
std::vector<std::string> SplitTerms(std::string_view text) {
  std::vector<std::string> terms;
  std::string term;
  int depth = 0;
  for (const char c : text) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (c == ',' && depth == 0) {
      terms.push_back(std::move(term));
      term.clear();
    } else {
      term += c;
    }
  }
  if (!term.empty() || !terms.empty()) terms.push_back(std::move(term));
  return terms;
}

// "(a, b)" -> {a, b}. RETURNS: false where it is no such list.
bool ParseValues(std::string_view text, std::vector<std::string>* values) {
  const std::string list = Trim(text);
  if (!list.starts_with('(') || !list.ends_with(')')) return false;
  for (const std::string& value : Split(std::string_view(list).substr(1, list.size() - 2), ',')) {
    values->push_back(Trim(value));
  }
  return true;
}

std::string FieldOf(const Json& object, const std::string& field) {
  const Json* place = &object;
  for (const std::string& part : Split(field, '.')) place = &Get(*place, part);
  return place->is_string() ? Text(*place) : place->is_null() ? "" : Dump(*place);
}

bool IsSelectable(const Kind& kind, const std::string& field) {
  if (field == "metadata.name" || (field == "metadata.namespace" && kind.namespaced)) return true;
  if (kind.plural == "jobs") return field == "status.successful";
  if (kind.plural == "namespaces") return field == "status.phase";
  if (kind.plural == "nodes") return field == "spec.unschedulable";
  if (kind.plural == "pods") return field == "spec.nodeName" || field == "status.phase";
  if (kind.plural == "events") return field.starts_with("regarding.") || field == "reason" || field == "type";
  return false;
}

}  // namespace

absl::StatusOr<Selector> Selector::Parse(const Kind& kind, std::string_view label_selector,
                                         std::string_view field_selector) {
  Selector result;
  for (const std::string& text : SplitTerms(label_selector)) {
    const std::string term = Trim(text);
    LabelTerm parsed;
    const std::vector<std::string> words = Split(term, ' ');
    const size_t equals = term.find_first_of("!=<>", 1);
    if (term.starts_with('!')) {
      parsed = {Trim(std::string_view(term).substr(1)), LabelTerm::Op::kAbsent, {}};
    } else if (words.size() > 1 && (words[1].starts_with("in") || words[1].starts_with("notin"))) {
      parsed.key = words[0];
      parsed.op = words[1].starts_with("in") ? LabelTerm::Op::kIn : LabelTerm::Op::kNotIn;
      const size_t open = term.find('(');
      if (open == std::string::npos || !ParseValues(term.substr(open), &parsed.values)) {
        return absl::InvalidArgumentError(Concat("unable to parse requirement: ", term));
      }
    } else if (equals != std::string::npos) {
      const char op = term[equals];
      parsed.key = Trim(term.substr(0, equals));
      parsed.op = op == '!'   ? LabelTerm::Op::kNotIn
                  : op == '>' ? LabelTerm::Op::kGreater
                  : op == '<' ? LabelTerm::Op::kLess
                              : LabelTerm::Op::kIn;
      parsed.values = {Trim(term.substr(term.find_first_not_of("!=<>", equals) == std::string::npos
                                            ? term.size()
                                            : term.find_first_not_of("!=<>", equals)))};
    } else {
      parsed = {term, LabelTerm::Op::kExists, {}};
    }
    const bool values_are_labels = std::ranges::all_of(parsed.values, IsLabelValue);
    if (!IsQualifiedName(parsed.key) || !values_are_labels) {
      return absl::InvalidArgumentError(Concat("unable to parse requirement: ", term));
    }
    result.labels_.push_back(std::move(parsed));
  }
  for (const std::string& term : SplitTerms(field_selector)) {
    const size_t at = term.find_first_of("!=");
    if (at == std::string::npos) {
      return absl::InvalidArgumentError(Concat("invalid selector: '", term, "'; can't understand '", term, "'"));
    }
    const size_t value = term.find_first_not_of("!=", at);
    FieldTerm parsed{term.substr(0, at), value == std::string::npos ? "" : term.substr(value), term[at] == '='};
    if (!IsSelectable(kind, parsed.field)) {
      return absl::InvalidArgumentError("field label not supported: " + parsed.field);
    }
    result.fields_.push_back(std::move(parsed));
  }
  return result;
}

bool Selector::MatchesLabel(const LabelTerm& term, const Json& labels) {
  const Json& value = Get(labels, term.key);
  const std::string text = Text(value);
  const bool listed = std::ranges::find(term.values, text) != term.values.end();
  int64_t have = 0;
  int64_t bound = 0;
  switch (term.op) {
    case LabelTerm::Op::kIn:
      return !value.is_null() && listed;
    case LabelTerm::Op::kNotIn:
      return value.is_null() || !listed;
    case LabelTerm::Op::kExists:
      return !value.is_null();
    case LabelTerm::Op::kAbsent:
      return value.is_null();
    case LabelTerm::Op::kGreater:
    case LabelTerm::Op::kLess:
      if (!absl::SimpleAtoi(text, &have) || !absl::SimpleAtoi(term.values[0], &bound)) return false;
      return term.op == LabelTerm::Op::kGreater ? have > bound : have < bound;
  }
  return false;
}

bool Selector::Matches(const Json& object) const {
  const Json& labels = At(object, "metadata", "labels");
  for (const LabelTerm& term : labels_) {
    if (!MatchesLabel(term, labels)) return false;
  }
  for (const FieldTerm& term : fields_) {
    std::string value = FieldOf(object, term.field);
    if (term.field == "status.successful") value = std::to_string(Number(At(object, "status", "succeeded")));
    if ((value == term.value) != term.equal) return false;
  }
  return true;
}

}  // namespace muster::sim
