#include "config_values.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cctype>
#include <vector>

namespace muster::cli {
namespace {

bool IsLower(char c) { return c >= 'a' && c <= 'z'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsAlphanumeric(char c) { return IsLower(c) || IsDigit(c) || (c >= 'A' && c <= 'Z'); }

// The name part of a label key, and a label value.
bool IsLabelText(std::string_view text) {
  return !text.empty() && text.size() <= 63 && IsAlphanumeric(text.front()) && IsAlphanumeric(text.back()) &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return IsAlphanumeric(c) || c == '-' || c == '_' || c == '.'; });
}

bool IsDnsLabel(std::string_view text) {
  const auto edge = [](char c) { return IsLower(c) || IsDigit(c); };
  return !text.empty() && text.size() <= 63 && edge(text.front()) && edge(text.back()) &&
         std::all_of(text.begin(), text.end(), [edge](char c) { return edge(c) || c == '-'; });
}

bool IsDnsSubdomain(std::string_view text) {
  if (text.size() > 253) return false;
  while (true) {
    const size_t dot = text.find('.');
    // A label of a subdomain has no length limit of its own in Kubernetes, only the whole.
    const std::string_view label = text.substr(0, dot);
    if (label.empty() || !IsDnsLabel(label.substr(0, 63)) ||
        !IsDnsLabel(label.substr(label.size() > 63 ? label.size() - 63 : 0))) {
      return false;
    }
    if (dot == std::string_view::npos) return true;
    text = text.substr(dot + 1);
  }
}

}  // namespace

std::string CheckQualifiedName(std::string_view text) {
  const size_t slash = text.find('/');
  const std::string_view name = slash == std::string_view::npos ? text : text.substr(slash + 1);
  if (IsLabelText(name) && (slash == std::string_view::npos || IsDnsSubdomain(text.substr(0, slash)))) return {};
  return "must be a label key: a name of at most 63 letters, digits, '-', '_' and '.', with an optional DNS prefix "
         "and '/'";
}

std::string CheckLabelValue(std::string_view text) {
  if (text.empty() || IsLabelText(text)) return {};
  return "must be a label value: at most 63 letters, digits, '-', '_' and '.'";
}

std::string CheckDnsLabel(std::string_view text) {
  if (IsDnsLabel(text)) return {};
  return "must be a DNS label: at most 63 lower-case letters, digits and '-'";
}

std::string CheckDnsSubdomain(std::string_view text) {
  if (IsDnsSubdomain(text)) return {};
  return "must be a DNS name: lower-case letters, digits, '-' and '.', at most 253";
}

std::string CheckUserName(std::string_view text) {
  const auto control = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
  if (!text.empty() && text.size() <= 253 && std::none_of(text.begin(), text.end(), control)) return {};
  return "must be the name of a user, such as system:serviceaccount:NAMESPACE:NAME";
}

std::string CheckKind(std::string_view text) {
  if (!text.empty() && text.size() <= 63 && text.front() >= 'A' && text.front() <= 'Z' &&
      std::all_of(text.begin(), text.end(), IsAlphanumeric)) {
    return {};
  }
  return "must be the kind of an object, such as JobSet";
}

std::string CheckEndpointName(std::string_view text) {
  const auto good = [](char c) { return IsAlphanumeric(c) || c == '-' || c == '_'; };
  if (!text.empty() && text.size() <= 63 && std::all_of(text.begin(), text.end(), good)) return {};
  return "must be one path segment of letters, digits, '-' and '_', without '/'";
}

bool ParseInteger(std::string_view text, int64_t* out) {
  const std::string_view digits = text.starts_with('-') ? text.substr(1) : text;
  if (digits.empty() || digits.size() > 18 || !std::all_of(digits.begin(), digits.end(), IsDigit)) return false;
  return absl::SimpleAtoi(absl::string_view(text.data(), text.size()), out);
}

bool ParseDecimal(std::string_view text, double* out) {
  const std::string_view digits = text.starts_with('-') ? text.substr(1) : text;
  if (digits.empty() || digits.size() > 40 || std::count(digits.begin(), digits.end(), '.') > 1 || digits == "." ||
      !std::all_of(digits.begin(), digits.end(), [](char c) { return IsDigit(c) || c == '.'; })) {
    return false;
  }
  return absl::SimpleAtod(absl::string_view(text.data(), text.size()), out);
}

bool LooksLikeNumber(std::string_view text) {
  double ignored = 0;
  if (ParseDecimal(text.starts_with('+') ? text.substr(1) : text, &ignored)) return true;
  if (text.starts_with("0x") || text.starts_with("0o")) return true;
  // 1e3, .inf and .nan are numbers to YAML.
  const bool number_like =
      !text.empty() && (IsDigit(text.front()) || text.front() == '.' || text.front() == '-' || text.front() == '+');
  return number_like && absl::SimpleAtod(absl::string_view(text.data(), text.size()), &ignored);
}

bool LooksLikeBool(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower == "true" || lower == "false" || lower == "yes" || lower == "no" || lower == "on" || lower == "off";
}

std::string OneLine(std::string_view text, size_t bytes_max) {
  std::string line;
  for (const char c : text) {
    if (line.size() >= bytes_max) return line + "...";
    line.push_back(static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c);
  }
  return line;
}

std::string ShowValue(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kNull:
      return "null";
    case YamlNode::Kind::kSequence:
      return absl::StrCat("a list of ", node.items.size());
    case YamlNode::Kind::kMap:
      return absl::StrCat("a map of ", node.entries.size());
    case YamlNode::Kind::kScalar:
      break;
  }
  const std::string text = OneLine(node.text, 60);
  return node.plain ? text : absl::StrCat("\"", text, "\"");
}

std::string NearestName(std::string_view text, const std::vector<std::string_view>& candidates) {
  const auto same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
  };
  std::string_view best;
  size_t best_distance = std::max<size_t>(2, text.size() / 4) + 1;
  if (text.size() > 64) return {};
  for (const std::string_view candidate : candidates) {
    // Levenshtein's distance, case aside, one row at a time.
    std::vector<size_t> row(candidate.size() + 1);
    for (size_t j = 0; j < row.size(); ++j) row[j] = j;
    for (size_t i = 1; i <= text.size(); ++i) {
      size_t diagonal = std::exchange(row[0], i);
      for (size_t j = 1; j < row.size(); ++j) {
        const size_t substituted = diagonal + (same(text[i - 1], candidate[j - 1]) ? 0 : 1);
        diagonal = row[j];
        row[j] = std::min({substituted, row[j] + 1, row[j - 1] + 1});
      }
    }
    if (row.back() < best_distance) {
      best_distance = row.back();
      best = candidate;
    }
  }
  return std::string(best);
}

}  // namespace muster::cli
