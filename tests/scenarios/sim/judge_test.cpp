// The judge sees what it is there for.
#include "judge.h"

#include <catch2/catch.hpp>

namespace muster::scenarios {
namespace {

using sim::Json;

Json Queue(const std::string& name, int nominal, const std::string& cohort, int version, Json limits = Json::object()) {
  limits["name"] = "cpu";
  limits["nominalQuota"] = std::to_string(nominal);
  const Json flavor = {{"name", "a"}, {"resources", Json::array({limits})}};
  return {{"metadata", {{"name", name}, {"resourceVersion", std::to_string(version)}}},
          {"spec", {{"cohortName", cohort}, {"resourceGroups", Json::array({{{"flavors", Json::array({flavor})}}})}}}};
}

// A line about a Job whose uid is its name, with pods of 1 cpu. An empty claim: no record.
Json Line(const std::string& name, int version, bool suspended, int pods, const std::string& claim = "",
          const std::string& queue = "cq", int active = 0, const std::string& state = "started") {
  const Json container = {{"resources", {{"requests", {{"cpu", "1"}}}}}};
  Json job = {{"metadata",
               {{"name", name},
                {"uid", name},
                {"resourceVersion", std::to_string(version)},
                {"labels", {{"kueue.x-k8s.io/queue-name", "lq"}}}}},
              {"spec",
               {{"suspend", suspended},
                {"parallelism", pods},
                {"template", {{"spec", {{"containers", Json::array({container})}}}}}}},
              {"status", {{"active", active}}}};
  if (!claim.empty()) {
    const Json pod_set = {{"name", "main"}, {"count", pods}, {"flavors", {{"cpu", "a"}}}};
    const Json record = {{"claim", claim},
                         {"uid", name},
                         {"state", state},
                         {"clusterQueue", queue},
                         {"podSets", Json::array({pod_set})}};
    job["metadata"]["annotations"]["muster.dev/admission"] = record.dump();
    if (!suspended) job["spec"]["template"]["spec"]["nodeSelector"]["muster.dev/flavor"] = "a";
  }
  return {{"type", "MODIFIED"}, {"object", job}};
}

std::string Only(const Judge& judge, const std::vector<Json>& lines) {
  const std::vector<std::string> findings = judge.Findings(lines);
  return findings.empty() ? "none" : findings.size() == 1 ? findings[0] : "several";
}

TEST_CASE("The judge: a Job above the quota of its queue, counting those whose pods are still there") {
  Judge judge;
  judge.Queue(Queue("cq", 3, "", 1));
  const std::vector<Json> first = {Line("one", 2, true, 2), Line("one", 3, false, 2, "c1"), Line("two", 4, true, 2)};
  const auto then = [&](std::vector<Json> more) {
    more.insert(more.begin(), first.begin(), first.end());
    return Only(judge, more);
  };
  const std::string over = "Job two: cq uses 4 of a/cpu, at most 3";
  CHECK(then({Line("two", 9, false, 2, "c2")}) == over);
  const Json leaving = Line("one", 5, true, 2, "c1", "cq", 1, "stopped");
  CHECK(then({leaving, Line("two", 9, false, 2, "c2")}) == over);
  const Json left = Line("one", 6, true, 2, "c1", "cq", 0, "stopped");
  CHECK(then({leaving, left, Line("two", 9, false, 2, "c2")}) == "none");
  Json ended = Line("one", 6, false, 2, "c1");
  ended["object"]["status"]["conditions"] = Json::array({{{"type", "Complete"}, {"status", "True"}}});
  CHECK(then({ended, Line("two", 9, false, 2, "c2")}) == "none");
  Json deleted = Line("one", 6, false, 2, "c1");
  deleted["type"] = "DELETED";
  CHECK(then({deleted, Line("two", 9, false, 2, "c2")}) == "none");
  // A quota holds from its version on.
  judge.Queue(Queue("cq", 4, "", 9));
  CHECK(then({Line("two", 9, false, 2, "c2")}) == "none");
  CHECK(then({Line("two", 8, false, 2, "c2")}) == over);
  judge.QueueDeleted("cq", "12");
  CHECK(then({Line("two", 13, false, 2, "c2")}) == "Job two: started by ClusterQueue cq, which does not exist");
}

TEST_CASE("The judge: cohorts, borrowing limits and lending limits") {
  Judge judge;
  judge.Queue(Queue("poor", 1, "all", 1, {{"borrowingLimit", "2"}}));
  judge.Queue(Queue("rich", 4, "all", 1));
  const auto start = [&](const std::string& name, int pods, const std::string& queue) {
    return std::vector<Json>{Line(name, 2, true, pods), Line(name, 3, false, pods, "c-" + name, queue)};
  };
  CHECK(Only(judge, start("one", 3, "poor")) == "none");
  CHECK(Only(judge, start("one", 4, "poor")) == "Job one: poor uses 4 of a/cpu, at most 3");
  std::vector<Json> both = start("one", 3, "rich");
  const std::vector<Json> second = start("two", 3, "poor");
  both.insert(both.end(), second.begin(), second.end());
  CHECK(Only(judge, both) == "Job two: cohort all uses 6 of a/cpu, has 5");
  judge.Queue(Queue("rich", 4, "all", 2, {{"lendingLimit", "1"}}));
  CHECK(Only(judge, start("one", 3, "poor")) == "Job one: poor uses 3 of a/cpu, at most 2");
}

TEST_CASE("The judge: trees of cohorts, in which limits hold at each level") {
  const auto cohort = [](const std::string& name, const std::string& parent, int nominal, int version, Json limits) {
    Json object = Queue(name, nominal, "", version, std::move(limits));
    object["kind"] = "Cohort";
    object["spec"]["parentName"] = parent;
    return object;
  };
  Judge judge;
  judge.Cohort(cohort("root", "", 2, 1, Json::object()));
  judge.Cohort(cohort("team", "root", 1, 1, {{"borrowingLimit", "1"}}));
  judge.Queue(Queue("cq", 1, "team", 1));
  judge.Queue(Queue("other", 3, "root", 1));
  const auto start = [&](const std::string& name, int pods, const std::string& queue) {
    return std::vector<Json>{Line(name, 2, true, pods), Line(name, 3, false, pods, "1-" + name.substr(0, 1), queue)};
  };
  CHECK(Only(judge, start("1", 3, "cq")) == "none");  // 1, the team's 1, and 1 borrowed
  CHECK(Only(judge, start("1", 4, "cq")) == "Job 1: cq uses 4 of a/cpu, at most 3");
  std::vector<Json> both = start("1", 5, "other");
  const std::vector<Json> second = start("2", 3, "cq");
  both.insert(both.end(), second.begin(), second.end());
  CHECK(Only(judge, both) == "Job 2: cohort root uses 8 of a/cpu, has 7");
  judge.Cohort(cohort("root", "team", 2, 2, Json::object()));
  CHECK(Only(judge, start("1", 1, "cq")) == "Job 1: started by ClusterQueue cq, whose cohort is above itself");
  // Without its object the team has neither a quota nor a parent of its own; the root is below it now.
  judge.CohortDeleted("team", "3");
  CHECK(Only(judge, start("1", 6, "cq")) == "none");  // 1, the root's 2, and 3
  CHECK(Only(judge, start("1", 7, "cq")) == "Job 1: cq uses 7 of a/cpu, at most 6");
}

TEST_CASE("The judge: who decides may know of a change later, and answers for what it decided before") {
  Judge judge;
  judge.Queue(Queue("cq", 4, "", 1));
  judge.Queue(Queue("cq", 1, "", 5));
  const std::vector<Json> late = {Line("one", 4, true, 3), Line("one", 6, false, 3, "1-1")};
  CHECK(judge.Findings(late, [](int64_t) { return 4; }).empty());
  CHECK(judge.Findings(late, [](int64_t) { return 5; }).size() == 1);
  // The second was decided on first, and arrives later.
  const std::vector<Json> crossed = {Line("one", 2, true, 3), Line("two", 2, true, 3), Line("one", 3, false, 3, "1-2"),
                                     Line("two", 4, false, 3, "1-1")};
  CHECK(judge.Findings(crossed, [](int64_t version) { return version; }).empty());
  CHECK(Only(judge, crossed) == "Job two: cq uses 6 of a/cpu, at most 4");
}

TEST_CASE("The judge: a gang that was scaled down holds less, and has more pods for a while") {
  Judge judge;
  judge.Queue(Queue("cq", 4, "", 1));
  std::vector<Json> lines = {Line("one", 2, true, 4),
                             Line("one", 3, false, 4, "1-1"),
                             Line("one", 4, false, 4, "1-1", "cq", 4),
                             Line("one", 5, false, 2, "1-1", "cq", 4),
                             Line("two", 6, true, 2),
                             Line("two", 7, false, 2, "1-2")};
  CHECK(Only(judge, lines) == "none");
  lines.push_back(Line("one", 8, false, 2, "1-1", "cq", 5));
  CHECK(Only(judge, lines) == "Job one: has more pods than the gang");
}

TEST_CASE("The judge: records, claims and pods") {
  Judge judge;
  judge.Queue(Queue("cq", 9, "", 1));
  const Json made = Line("one", 2, true, 2);
  CHECK(judge.Findings({made, Line("one", 3, false, 2)}).front().starts_with("Job one: was started without a record"));
  CHECK(judge.Findings({made, Line("one", 3, false, 2, "c1", "cq", 0, "stopped")})
            .front()
            .starts_with("Job one: was started without a record"));
  CHECK(Only(judge, {Line("one", 2, false, 2, "c1")}) == "Job one: was created running");
  const Json started = Line("one", 3, false, 2, "c1");
  const Json stopped = Line("one", 4, true, 2, "c1", "cq", 0, "stopped");
  const Json suspended = Line("one", 4, true, 2, "c1");
  const Json again = Line("one", 5, false, 2, "c1");
  CHECK(Only(judge, {made, started, stopped, again}) == "Job one: was started twice by one claim");
  CHECK(Only(judge, {made, started, stopped, Line("one", 5, false, 2, "c2")}) == "none");
  CHECK(Only(judge, {made, started, suspended, again}) == "none");
  CHECK(StartsOf({made, started, suspended, again})["one"] == 2);
  CHECK(Only(judge, {made, Line("one", 3, true, 2, "", "cq", 1)}) == "Job one: has pods and was never started");
  CHECK(Only(judge, {made, started, Line("one", 4, false, 2, "c1", "cq", 3)}) ==
        "Job one: has more pods than the gang");
  Json bare = started;
  bare["object"]["spec"]["template"]["spec"].erase("nodeSelector");
  CHECK(judge.Findings({made, bare}).front() == "Job one: runs without its flavor's label");
  Json fewer = started;
  fewer["object"]["spec"]["parallelism"] = 1;
  CHECK(Only(judge, {made, fewer}) == "Job one: was started with another count than recorded");
}

}  // namespace
}  // namespace muster::scenarios
