// The tree keeps what it promises; and each rule finds a planted fault.

#include <catch2/catch.hpp>

#include "rules.h"
#include "source_file.h"

namespace muster::tidy {
namespace {

using Rule = Findings (*)(const SourceFile&);

const std::vector<SourceFile>& Tree() {
  static const std::vector<SourceFile> tree = ReadTree(MUSTER_SOURCE_DIR);
  return tree;
}

Findings Check(Rule rule) {
  Findings all;
  for (const SourceFile& file : Tree()) {
    const Findings findings = rule(file);
    all.insert(all.end(), findings.begin(), findings.end());
  }
  return all;
}

Findings CheckText(Rule rule, const std::string& path, const std::string& text) { return rule(MakeFile(path, text)); }

TEST_CASE("The tree keeps its promises") {
  REQUIRE(Tree().size() > 50);
  CHECK(Check(HeadersSayHowTheyAreThreaded) == Findings{});
  CHECK(Check(FilesAreShort) == Findings{});
  CHECK(Check(FunctionsAreShort) == Findings{});
  CHECK(Check(NothingIsLeftToDo) == Findings{});
  CHECK(Check(NoTestIsHidden) == Findings{});
  CHECK(Check(ExceptionsStayInAdapters) == Findings{});
  CHECK(Check(AccountingIsInIntegers) == Findings{});
  CHECK(Check(IncludesPointDown) == Findings{});
  CHECK(Check(HeavyHeadersStayInSources) == Findings{});
  CHECK(Check(MemoryOrdersAreExplained) == Findings{});
  CHECK(Check(DrawsAreInOrder) == Findings{});
  CHECK(Check(LocksAreStandard) == Findings{});
  CHECK(Check(NoPathOfSomeMachine) == Findings{});
  CHECK(Check(WhitespaceIsPlain) == Findings{});
}

TEST_CASE("Draws that a compiler may reorder are found") {
  const auto found = [](const std::string& text) { return CheckText(DrawsAreInOrder, "sim/a.cpp", text); };
  for (const char* text :
       {"f(AnyName(), AnyName());", "f(1,\n OneIn(2));\nint a = Draw(b) + Draw(c);", "f(g(OneIn(2)), {OneIn(2)});",
        "f(OneIn(2) ? 1 : 2, OneIn(2));", "return *rc::gen::arbitrary() == *rc::gen::arbitrary();",
        "f([&] { f(OneIn(2), OneIn(2)); });", "f(AnyName(), {{a, {{b, OneIn(2)}}}});"}) {
    INFO(text);
    CHECK(found(text).size() == 1);
  }
  CHECK(found("int a;\n\nf(OneIn(2),\n  OneIn(2));") ==
        Findings{"sim/a.cpp:4: two draws in one expression, in no order"});
  for (const char* text :
       {"Below(OneIn(2) ? 1 : 2);", "if (OneIn(2)) a = Below(3);", "T a = {AnyName(), AnyName()};",
        "a = OneIn(2) ? Below(2) : Below(3);", "f(OneIn(2)); f(OneIn(2));", "return OneIn(2) && OneIn(3);",
        "a[Below(2)] = Below(3);", "f(AnyName(), [&] { OneIn(2); });", "if (Draw(a) == b) { f(Draw(c)); }"}) {
    INFO(text);
    CHECK(found(text).empty());
  }
  CHECK(CheckText(DrawsAreInOrder, "src/a.cpp", "f(AnyName(), AnyName());").empty());
}

TEST_CASE("Comments and literals are told from code") {
  const SourceFile file = MakeFile("a.cpp",
                                   "int a = 1'000;  // throw\n"
                                   "auto b = \"throw \\\" throw\"; char c = '\"';\n"
                                   "/* throw\n   throw */ int d;\n"
                                   "auto e = R\"x(throw \" )\" throw)x\"; f(); // end\n");
  for (const std::string& line : file.code) CHECK(line.find("throw") == std::string::npos);
  CHECK(file.code.at(0).starts_with("int a = 1'000;"));
  CHECK(file.code.at(1).ends_with("; char c = ' ';"));
  CHECK(file.code.at(3).ends_with(" int d;"));
  CHECK(file.code.at(4).find("; f();") != std::string::npos);
  CHECK(file.notes.at(0) == std::string(16, ' ') + "// throw");
  CHECK(file.notes.at(3).ends_with("throw */       "));
}

TEST_CASE("Each rule finds what it is for, where it is, and leaves the rest alone") {
  const auto lines = [](size_t count, const std::string& line) {
    std::string text;
    for (size_t i = 0; i < count; ++i) text += line + "\n";
    return text;
  };
  CHECK(CheckText(HeadersSayHowTheyAreThreaded, "include/muster/core/a.h", "// A.\n").size() == 1);
  CHECK(CheckText(HeadersSayHowTheyAreThreaded, "include/muster/core/a.h", "// A.\n// Threading: values.\n").empty());
  CHECK(CheckText(HeadersSayHowTheyAreThreaded, "src/core/a.h", "// A.\n").empty());

  CHECK(CheckText(FilesAreShort, "src/a.cpp", lines(801, "x")).size() == 1);
  CHECK(CheckText(FilesAreShort, "src/a.cpp", lines(800, "x")).empty());
  CHECK(CheckText(FilesAreShort, "go.sum", lines(801, "x")).empty());

  const auto enclose = [&](std::string head, size_t length) {
    return head.append(" {\n").append(lines(length, "  G();")).append("}\n");
  };
  const auto function = [&](size_t length) { return enclose("void F()", length); };
  CHECK(CheckText(FunctionsAreShort, "src/a.cpp", enclose("\nvoid F()", 70)) ==
        Findings{"src/a.cpp:2: the function is longer than 70 lines"});
  CHECK(CheckText(FunctionsAreShort, "src/a.cpp", function(69)).empty());
  CHECK(CheckText(FunctionsAreShort, "src/a.cpp", enclose("class C", 90)).empty());
  CHECK(CheckText(FunctionsAreShort, "src/a.cpp", enclose("namespace n", 90)).empty());

  CHECK(CheckText(NothingIsLeftToDo, "src/a.cpp", "int a;\n// TODO: b\n") ==
        Findings{"src/a.cpp:2: something is left to do"});
  CHECK(CheckText(NothingIsLeftToDo, "scripts/x", "# FIXME\n# not implemented\n").size() == 2);
  CHECK(CheckText(NothingIsLeftToDo, "scripts/x", "mktemp x.XXXXXX\n").empty());

  CHECK(CheckText(NoTestIsHidden, "tests/a/a_test.cpp", "TEST_CASE(\"x\", \"[.]\") {}\n").size() == 1);
  CHECK(CheckText(NoTestIsHidden, "tests/a/a_test.cpp", "TEST_CASE(\"x\", \"[slow]\") {}\n").empty());

  CHECK(CheckText(ExceptionsStayInAdapters, "src/core/a.cpp", "throw 1;\n").size() == 1);
  CHECK(CheckText(ExceptionsStayInAdapters, "src/core/a.cpp", "// throw\n").empty());
  CHECK(CheckText(ExceptionsStayInAdapters, "src/k8s_client/cpprest_calls.cpp", "throw 1;\n").empty());

  CHECK(CheckText(AccountingIsInIntegers, "src/quota/a.cpp", "double a;\n").size() == 1);
  CHECK(CheckText(AccountingIsInIntegers, "include/muster/engine/a.h", "float a;\n").size() == 1);
  CHECK(CheckText(AccountingIsInIntegers, "src/server/a.cpp", "double a;\n").empty());

  CHECK(CheckText(IncludesPointDown, "src/quota/a.cpp", "#include \"muster/engine/engine.h\"\n").size() == 1);
  CHECK(CheckText(IncludesPointDown, "include/muster/engine/a.h", "#include \"muster/k8s_client/client.h\"\n").size() ==
        1);
  CHECK(CheckText(IncludesPointDown, "src/engine/a.cpp", "#include \"muster/quota/ledger.h\"\n").empty());

  CHECK(CheckText(HeavyHeadersStayInSources, "include/muster/core/a.h", "#include <boost/asio.hpp>\n").size() == 1);
  CHECK(CheckText(HeavyHeadersStayInSources, "src/k8s_client/a.h", "#include <simdjson.h>\n").size() == 1);
  CHECK(CheckText(HeavyHeadersStayInSources, "src/k8s_client/a.cpp", "#include <simdjson.h>\n").empty());

  CHECK(CheckText(MemoryOrdersAreExplained, "src/gang/a.cpp", "x.load(std::memory_order_acquire);\n").size() == 1);
  CHECK(CheckText(MemoryOrdersAreExplained, "src/gang/a.cpp",
                  "// Pairs with the release in Put.\nx.load(std::memory_order_acquire);\n")
            .empty());

  CHECK(CheckText(LocksAreStandard, "src/a.cpp", "absl::Mutex m;\n").size() == 1);
  CHECK(CheckText(NoPathOfSomeMachine, "docs/a.md", "see /root/x\n").size() == 1);
  CHECK(CheckText(NoPathOfSomeMachine, "docs/a.md", "src/root/x and network/work/x\n").empty());
  CHECK(CheckText(WhitespaceIsPlain, "src/a.cpp", "a \n\tb\nc\n").size() == 2);
  CHECK(CheckText(WhitespaceIsPlain, "a.go", "\tb\n").empty());
}

}  // namespace
}  // namespace muster::tidy
