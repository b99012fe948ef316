// The tool over the recorded cases, and over input that is not what it should be.
#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <sstream>
#include <string>
#include <utility>

namespace muster {

namespace {

struct Run {
  int exit_code = -1;
  std::string output;  // both streams
};

Run Shell(const std::string& command) {
  Run run;
  FILE* pipe = ::popen(std::string("(").append(command).append(") 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  char buffer[4096];
  while (const size_t n = std::fread(buffer, 1, sizeof buffer, pipe)) run.output.append(buffer, n);
  run.exit_code = WEXITSTATUS(::pclose(pipe));
  return run;
}

const std::string kTool = std::string(MUSTER_BIN_DIR) + "/muster-conformance";

Run OnCases(const std::string& name, const std::string& option = "") {
  std::string command = "zcat " MUSTER_SOURCE_DIR "/tests/conformance/";
  return Shell(command.append(name).append(".jsonl.gz | ").append(kTool).append(option).append(" -"));
}

// One queue of 2 cpu, one gang of 1 cpu: it is admitted.
const std::string kCase =
    R"({"id":"x","category":"c","config":{},"objects":{)"
    R"("namespaces":[{"metadata":{"name":"n"}}],"resourceFlavors":[{"metadata":{"name":"f"}}],)"
    R"("clusterQueues":[{"metadata":{"name":"q"},"spec":{"namespaceSelector":{},"resourceGroups":[)"
    R"({"coveredResources":["cpu"],"flavors":[{"name":"f","resources":[{"name":"cpu","nominalQuota":"2"}]}]}]}}],)"
    R"("localQueues":[{"metadata":{"name":"l","namespace":"n"},"spec":{"clusterQueue":"q"}}],)"
    R"("workloads":[{"metadata":{"name":"w","namespace":"n","uid":"u","creationTimestamp":"2025-01-01T00:00:00Z"},)"
    R"("spec":{"queueName":"l","podSets":[{"name":"main","count":1,"template":{"spec":{"containers":[)"
    R"({"resources":{"requests":{"cpu":"1"}}}]}}}]}}]},)"
    R"("steps":[{"time":"2025-01-01T02:00:00Z","evicted":[],)"
    R"("admitted":{"w":{"clusterQueue":"q","podSets":[{"name":"main","count":COUNT,"flavors":{"cpu":"f"}}]}},)"
    R"("usage":{"q":{"f":{"cpu":"1"}}}}]})";

std::string CaseWithCount(const std::string& count) {
  std::string text = kCase;
  text.replace(text.find("COUNT"), 5, count);
  return text;
}

Run OnText(const std::string& text) {
  std::string command = "printf '%s\\n' '";
  return Shell(command.append(text).append("' | ").append(kTool).append(" -"));
}

}  // namespace

TEST_CASE("every recorded case is decided as the reference decided it, or otherwise by a rule") {
  struct File {
    const char* name;
    int cases;
    int by_rule;  // at most: each is a row of docs/kueue-compatibility.md
  };
  const File files[] = {{"01-single-cq", 138, 0},         {"02-flat-cohort", 138, 0},    {"03-hierarchical", 138, 0},
                        {"04-preempt-within-cq", 138, 4}, {"05-reclaim-cohort", 138, 2}, {"06-flavors", 138, 0},
                        {"07-podsets-partial", 138, 2},   {"08-fair-sharing", 128, 6},   {"09-mixed-multistep", 96, 6},
                        {"10-queue-policy", 138, 1},      {"11-topology", 200, 15},      {"12-requests", 400, 0}};
  for (const File& file : files) {
    const Run run = OnCases(file.name);
    INFO(run.output);
    CHECK(run.exit_code == 0);
    CHECK(run.output.ends_with(std::string("\n").append(std::to_string(file.cases)).append(" passed, 0 failed\n")));
    int by_rule = 0;
    int as_recorded = 0;
    int timing = 0;
    int judged = 0;
    std::istringstream lines(run.output);
    for (std::string line; std::getline(lines, line);) {
      if (line.find(" cases by rule: ") != std::string::npos) by_rule += std::stoi(line);
      if (line.ends_with(" cases as recorded")) as_recorded = std::stoi(line);
      if (line.find(" steps depend on timing; ") != std::string::npos)
        timing = std::stoi(line.substr(line.find("; ") + 2));
      if (line.ends_with(" passes judged")) judged = std::stoi(line);
    }
    CHECK(by_rule <= file.by_rule);
    CHECK(as_recorded + by_rule + timing >= file.cases);
    // At least one for each play of a case with steps.
    CHECK((judged >= 2 * file.cases) == (std::string(file.name) != "12-requests"));
  }
}

// Where a ClusterQueue has several resource groups, the flavors of one pod have labels there that no machine can have
// all together: 06, 07 and 09 are left out.
TEST_CASE("with machines that have room for all, recorded cases are decided as without them") {
  for (const char* name : {"01-single-cq", "02-flat-cohort", "03-hierarchical", "04-preempt-within-cq",
                           "05-reclaim-cohort", "08-fair-sharing", "10-queue-policy"}) {
    const Run with = OnCases(name, " --machines");
    INFO(with.output);
    CHECK(with.exit_code == 0);
    CHECK(with.output == OnCases(name).output);
  }
}

TEST_CASE("where the reference goes round for ever, Muster comes to rest and leaves nobody waiting who fits") {
  for (const auto& [name, cases] :
       {std::pair("livelocks", 3), std::pair("busyloops", 68), std::pair("busyloops-topology", 17)}) {
    const Run run = OnCases(name, " --property");
    INFO(run.output);
    CHECK(run.exit_code == 0);
    CHECK(run.output.ends_with(std::string("\n").append(std::to_string(cases)).append(" passed, 0 failed\n")));
  }
}

// Each case is played twice, in one pass.
TEST_CASE("a difference is named with file, line, case and step, and fails the run") {
  CHECK(OnText(CaseWithCount("1")).output ==
        "c                        1 passed, 0 failed\n"
        "1 cases as recorded\n"
        "2 passes judged\n"
        "1 passed, 0 failed\n");
  const Run run = OnText(CaseWithCount("1") + "\n" + CaseWithCount("2"));
  CHECK(run.exit_code == 1);
  CHECK(run.output ==
        "standard input:2: x: step 0 admitted: expected, not found: w in q, 2 of main cpu=f\n"
        "standard input:2: x: step 0 admitted: found, not expected: w in q, 1 of main cpu=f\n"
        "c                        1 passed, 1 failed\n"
        "1 cases as recorded\n"
        "4 passes judged\n"
        "1 passed, 1 failed\n");
}

TEST_CASE("input that cannot be read ends the run with code 2, and says where and why") {
  const Run missing = Shell(kTool + " /nowhere/cases.jsonl");
  CHECK(missing.exit_code == 2);
  CHECK(missing.output == "/nowhere/cases.jsonl: cannot be opened\n");
  CHECK(Shell(kTool).exit_code == 2);
  const Run option = Shell(kTool + " --no-such-option -");
  CHECK(option.exit_code == 2);
  CHECK(option.output == "unknown option --no-such-option\n");

  const Run garbage = OnText(CaseWithCount("1") + "\n{\"id\":");
  CHECK(garbage.exit_code == 2);
  CHECK(garbage.output.find("standard input:2: ") == 0);

  const Run neither = OnText(R"({"id":"y","category":"c"})");
  CHECK(neither.exit_code == 2);
  CHECK(neither.output == "standard input:1: case y has neither steps nor totals\n");

  std::string wrong = CaseWithCount("1");
  wrong.replace(wrong.find("\"cpu\":\"1\""), 9, "\"cpu\":\"one\"");
  const Run quantity = OnText(wrong);
  CHECK(quantity.exit_code == 2);
  CHECK(quantity.output.find("requests.cpu") != std::string::npos);
  CHECK(quantity.output.find("\"one\" is not a quantity") != std::string::npos);

  std::string action = CaseWithCount("1");
  action.replace(action.find("\"evicted\""), 9, "\"actions\":[{\"explode\":\"w\"}],\"evicted\"");
  const Run unknown = OnText(action);
  CHECK(unknown.exit_code == 2);
  CHECK(unknown.output.find("actions[0].explode") != std::string::npos);
}

}  // namespace muster
