#include "rules.h"

#include <algorithm>
#include <map>
#include <regex>
#include <set>

namespace muster::tidy {
namespace {

constexpr size_t kFileLines = 800;
constexpr size_t kFunctionLines = 70;

bool IsCpp(const SourceFile& file) { return HasExtension(file, ".h") || HasExtension(file, ".cpp"); }

// The sources that people write and read; not data, not lock files.
bool IsSource(const SourceFile& file) {
  return IsCpp(file) || HasExtension(file, ".go") || HasExtension(file, ".cmake") || HasExtension(file, ".sh") ||
         HasExtension(file, "CMakeLists.txt") || HasExtension(file, "Dockerfile") || IsUnder(file, {"scripts", ".ci"});
}

std::string At(const SourceFile& file, size_t line, const std::string& what) {
  return file.path + ":" + std::to_string(line + 1) + ": " + what;
}

// Every line of `lines` where `pattern` is found.
Findings Search(const SourceFile& file, const std::vector<std::string>& lines, const std::string& pattern,
                const std::string& what) {
  const std::regex regex(pattern, std::regex::ECMAScript | std::regex::optimize);
  Findings findings;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].size() < 1000 && std::regex_search(lines[i], regex)) findings.push_back(At(file, i, what));
  }
  return findings;
}

// Which areas' headers a folder may include: design.md's arrows, and nothing that has crept into a CMakeLists.txt.
const std::map<std::string, std::set<std::string>, std::less<>>& Below() {
  static const std::map<std::string, std::set<std::string>, std::less<>> below = {
      {"core", {"core"}},
      {"quota", {"core", "quota"}},
      {"gang", {"core", "gang"}},
      {"queue", {"core", "queue"}},
      {"engine", {"core", "quota", "gang", "queue", "engine"}},
      {"k8s_client", {"core", "k8s_client"}},
      {"controller", {"core", "quota", "gang", "queue", "engine", "k8s_client", "controller"}},
      {"server", {"core", "quota", "gang", "queue", "engine", "server"}},
      {"sim", {"core", "quota", "gang", "queue", "engine", "k8s_client", "controller", "sim"}},
  };
  return below;
}

// "src/engine/x.cpp" and "include/muster/engine/x.h" are of area engine.
std::string AreaOf(const SourceFile& file) {
  static const std::regex kPath("^(?:src|include/muster)/([a-z0-9_]+)/|^(sim)/");
  std::smatch match;
  if (!std::regex_search(file.path, match, kPath)) return "";
  return match[1].matched ? match[1].str() : match[2].str();
}

}  // namespace

Findings HeadersSayHowTheyAreThreaded(const SourceFile& file) {
  if (!HasExtension(file, ".h") || !IsUnder(file, {"include", "sim", "tests/cluster/fixture"})) return {};
  for (const std::string& line : file.lines) {
    if (line.starts_with("// Threading: ")) return {};
  }
  return {At(file, 0, "no line '// Threading: ...'")};
}

Findings FilesAreShort(const SourceFile& file) {
  if (!IsSource(file) || file.lines.size() <= kFileLines) return {};
  return {At(file, kFileLines, "the file is longer than 800 lines")};
}

// By the layout that clang-format gives: what begins in the first column and ends with a brace is a function, unless
// it is one of the other things that do.
Findings FunctionsAreShort(const SourceFile& file) {
  if (!HasExtension(file, ".cpp") || !IsUnder(file, {"src", "sim", "tests/cluster/fixture"})) return {};
  static const std::regex kOther("^(inline )?(namespace|class|struct|enum|union|extern)\\b|= \\{$");
  Findings findings;
  size_t begin = 0;
  bool inside = false;
  for (size_t i = 0; i < file.code.size(); ++i) {
    const std::string& line = file.code[i];
    if (line.starts_with("}") && inside) {
      inside = false;
      if (i - begin > kFunctionLines) findings.push_back(At(file, begin, "the function is longer than 70 lines"));
    } else if (!line.empty() && !isspace(static_cast<unsigned char>(line[0])) && line[0] != '}') {
      begin = i;
      inside = !std::regex_search(line, kOther);
    }
  }
  return findings;
}

Findings NothingIsLeftToDo(const SourceFile& file) {
  if (!IsSource(file) || IsUnder(file, {"tests/tidy"})) return {};
  return Search(file, file.lines, "\\b(TODO|FIXME|XXX|HACK)\\b|[Nn]ot (yet )?implemented", "something is left to do");
}

Findings NoTestIsHidden(const SourceFile& file) {
  if (!HasExtension(file, ".cpp") || !IsUnder(file, {"tests"}) || IsUnder(file, {"tests/tidy"})) return {};
  return Search(file, file.lines, "TEST_CASE.*\\[(\\.|!hide|!mayfail|!shouldfail)|\\b(DISABLED_|GTEST_SKIP|SKIP\\()",
                "a test that does not count");
}

Findings ExceptionsStayInAdapters(const SourceFile& file) {
  // cpprestsdk takes exceptions from the streams and stages that one hands it.
  static const std::vector<std::string_view> kAdapters = {"src/k8s_client/cpprest_calls.cpp"};
  if (!IsCpp(file) || !IsUnder(file, {"src", "include", "sim"}) || IsUnder(file, kAdapters)) return {};
  return Search(file, file.code, "\\bthrow\\b", "throw outside of the adapters to libraries that want it");
}

Findings AccountingIsInIntegers(const SourceFile& file) {
  const std::string area = AreaOf(file);
  if (!IsCpp(file) || !std::set<std::string>{"quota", "gang", "queue", "engine"}.contains(area)) return {};
  return Search(file, file.code, "\\b(double|float)\\b", "floating point in accounting");
}

Findings IncludesPointDown(const SourceFile& file) {
  const auto below = Below().find(AreaOf(file));
  if (!IsCpp(file) || below == Below().end()) return {};  // the command may use everything
  static const std::regex kInclude("^#include \"muster/([a-z0-9_]+)/");
  Findings findings;
  for (size_t i = 0; i < file.lines.size(); ++i) {
    std::smatch match;
    if (std::regex_search(file.lines[i], match, kInclude) && !below->second.contains(match[1].str())) {
      findings.push_back(At(file, i, below->first + " includes a header of " + match[1].str()));
    }
  }
  return findings;
}

Findings HeavyHeadersStayInSources(const SourceFile& file) {
  // simdjson with the warnings that it needs switched off, for the few sources that use it.
  static const std::vector<std::string_view> kWrappers = {"src/k8s_client/simdjson_text.h"};
  if (!HasExtension(file, ".h") || !IsUnder(file, {"include", "src", "sim"}) || IsUnder(file, kWrappers)) return {};
  return Search(file, file.lines,
                "^#include <(boost/(asio|beast)|cpprest|pplx|simdjson|rapidjson|yaml-cpp|CLI)[/.]",
                "a heavy header in a header");
}

Findings MemoryOrdersAreExplained(const SourceFile& file) {
  if (!IsCpp(file) || !IsUnder(file, {"src", "include", "sim"})) return {};
  Findings findings;
  for (size_t i = 0; i < file.code.size(); ++i) {
    if (file.code[i].find("memory_order") == std::string::npos) continue;
    bool explained = false;
    for (size_t back = 0; back <= 3 && back <= i; ++back) {
      explained |= file.notes[i - back].find("//") != std::string::npos;
    }
    if (!explained) findings.push_back(At(file, i, "a memory order without a comment that says why"));
  }
  return findings;
}

Findings LocksAreStandard(const SourceFile& file) {
  if (!IsCpp(file)) return {};
  return Search(file, file.code, "\\babsl::Mutex", "absl::Mutex, which ThreadSanitizer does not understand");
}

Findings NoPathOfSomeMachine(const SourceFile& file) {
  if (IsUnder(file, {"tests/tidy"})) return {};
  return Search(file, file.lines, "(^|[^a-zA-Z0-9_.])/(root|work|home/[a-z]+)/", "a path of somebody's machine");
}

Findings WhitespaceIsPlain(const SourceFile& file) {
  if (!IsSource(file)) return {};
  Findings findings = Search(file, file.lines, "[ \\t\\r]$", "white space at the end of the line");
  if (!HasExtension(file, ".go")) {
    const Findings tabs = Search(file, file.lines, "^ *\\t", "a tab for indentation");
    findings.insert(findings.end(), tabs.begin(), tabs.end());
  }
  return findings;
}

}  // namespace muster::tidy
