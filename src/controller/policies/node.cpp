#include "policies/node.h"

#include <absl/strings/ascii.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>

#include <algorithm>
#include <array>

namespace muster::controller {
namespace {

// A JSON string; also a double-quoted YAML scalar.
std::string Quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\r':
        out += "\\r";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          static constexpr char kHex[] = "0123456789abcdef";
          out += "\\u00";
          out.push_back(kHex[static_cast<unsigned char>(c) >> 4]);
          out.push_back(kHex[static_cast<unsigned char>(c) & 0xf]);
        } else {
          out.push_back(c);
        }
    }
  }
  return out + "\"";
}

// Whether YAML reads `text` as itself, a string, without quotes.
bool IsPlain(std::string_view text) {
  static constexpr std::array<std::string_view, 10> kWords = {"true", "false", "null", "yes", "no",
                                                              "on",   "off",   "y",    "n",   "nan"};
  if (text.empty() || !absl::ascii_isalpha(static_cast<unsigned char>(text.front()))) return false;
  for (const char c : text) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '-' && c != '/' && c != '_')
      return false;
  }
  const std::string lower = absl::AsciiStrToLower(std::string(text));
  return std::find(kWords.begin(), kWords.end(), lower) == kWords.end();
}

// Long or many-lined text reads best as a block, which takes it as it is: only its first character and control
// characters could mislead a parser.
bool IsBlock(std::string_view text) {
  if (text.size() < 2 || text.front() == ' ' || text.front() == '\n' || text.back() == '\n') return false;
  if (text.find_first_of("\t\r") != std::string_view::npos) return false;
  return text.find_first_of("\n\"\\") != std::string_view::npos || (text.size() > 60 && text.find(' ') < text.size());
}

std::string Indent(int count) { return std::string(static_cast<size_t>(count), ' '); }

std::string YamlScalar(std::string_view text, int indent) {
  if (IsPlain(text)) return std::string(text);
  if (!IsBlock(text)) return Quoted(text);
  std::string out = "|-";
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(std::string(text), '\n'))) {
    absl::StrAppend(&out, "\n", line.empty() ? "" : Indent(indent), line);
  }
  return out;
}

}  // namespace

std::string Node::ToYaml(int indent) const {
  if (const auto* text = std::get_if<std::string>(&value_)) {
    return absl::StrCat(Indent(indent), YamlScalar(*text, indent + 2), "\n");
  }
  std::string out;
  if (const auto* list = std::get_if<List>(&value_)) {
    if (list->empty()) return Indent(indent) + "[]\n";
    for (const Node& item : *list) {
      // The first line of the item moves up behind its dash.
      std::string block = item.ToYaml(indent + 2);
      block[static_cast<size_t>(indent)] = '-';
      out += block;
    }
    return out;
  }
  const Map& map = std::get<Map>(value_);
  if (map.empty()) return Indent(indent) + "{}\n";
  for (const auto& [key, value] : map) {
    absl::StrAppend(&out, Indent(indent), IsPlain(key) ? key : Quoted(key), ":");
    if (const auto* text = std::get_if<std::string>(&value.value_)) {
      absl::StrAppend(&out, " ", YamlScalar(*text, indent + 2), "\n");
    } else if (const auto* nested = std::get_if<Map>(&value.value_)) {
      out += nested->empty() ? " {}\n" : absl::StrCat("\n", value.ToYaml(indent + 2));
    } else {
      out += std::get<List>(value.value_).empty() ? " []\n" : absl::StrCat("\n", value.ToYaml(indent));
    }
  }
  return out;
}

std::string Node::ToCanonicalJson() const {
  if (const auto* text = std::get_if<std::string>(&value_)) return Quoted(*text);
  std::string out;
  if (const auto* list = std::get_if<List>(&value_)) {
    for (const Node& item : *list) absl::StrAppend(&out, out.empty() ? "" : ",", item.ToCanonicalJson());
    return absl::StrCat("[", out, "]");
  }
  std::vector<const Map::value_type*> sorted;
  for (const auto& entry : std::get<Map>(value_)) sorted.push_back(&entry);
  std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) { return a->first < b->first; });
  for (const auto* entry : sorted) {
    absl::StrAppend(&out, out.empty() ? "" : ",", Quoted(entry->first), ":", entry->second.ToCanonicalJson());
  }
  return absl::StrCat("{", out, "}");
}

Node::List StringList(const std::vector<std::string>& values) { return {values.begin(), values.end()}; }

}  // namespace muster::controller
