#include "muster/controller/job.h"

#include <catch2/catch.hpp>

#include "muster/k8s_client/json_reader.h"
#include "test_jobs.h"

namespace muster::controller {
namespace {

// kueue_semantics 2.2: the pod count is parallelism, or completions if set and smaller.
TEST_CASE("A Job's pod count is its parallelism, or its completions if those are fewer") {
  const auto count = [](const char* counts) {
    JobJson json;
    json.counts = counts;
    return OriginalShape(MustDecode(json)).pod_count();
  };
  CHECK(count(R"("parallelism":3,"completions":10)") == 3);
  CHECK(count(R"("parallelism":5,"completions":2)") == 2);
  CHECK(count(R"("parallelism":4)") == 4);
  CHECK(count(R"("parallelism":0,"completions":2)") == 0);
}

// kueue_semantics 2.8; the numbers of the first three are those of the golden cases parallelism-lt-completions and
// completions-unset.
TEST_CASE("Pods that have ended and are not made again are reclaimable") {
  const auto reclaimable = [](const char* counts, const char* status, const char* extra = "") {
    JobJson json;
    json.counts = counts;
    json.status = status;
    json.extra_spec = extra;
    const Job job = MustDecode(json);
    return ReclaimablePods(job, CurrentShape(job));
  };
  const char* few = R"("parallelism":3,"completions":10)";
  CHECK(reclaimable(few, R"({"succeeded":7,"active":3})") == 0);
  CHECK(reclaimable(few, R"({"succeeded":8,"active":2})") == 1);
  CHECK(reclaimable(few, R"({"succeeded":9,"active":1})") == 2);
  CHECK(reclaimable(few, R"({"succeeded":10})") == 3);
  CHECK(reclaimable(R"("parallelism":4)", R"({"succeeded":1,"active":3})") == 1);
  CHECK(reclaimable(R"("parallelism":4)", R"({"succeeded":3,"active":1})") == 3);
  CHECK(reclaimable(R"("parallelism":4)", R"({"succeeded":9})") == 4);
  // One pod of two is still needed, however many more parallelism allows for.
  CHECK(reclaimable(R"("parallelism":5,"completions":2)", R"({"succeeded":1,"active":1})") == 1);
  CHECK(reclaimable(R"("parallelism":1,"completions":1)", R"({"succeeded":1})") == 0);

  SECTION("of an Indexed Job also those that failed for good, each index once") {
    const char* indexed = R"(,"completionMode":"Indexed")";
    const char* counts = R"("parallelism":4,"completions":6)";
    CHECK(reclaimable(counts, R"({"succeeded":3,"completedIndexes":"0-1,3","failedIndexes":"3-4"})", indexed) == 2);
    // Scaled down, it has no more indexes than completions.
    CHECK(reclaimable(counts, R"({"completedIndexes":"6-9,0"})", indexed) == 0);
    CHECK(reclaimable(counts, R"({"completedIndexes":"2-9"})", indexed) == 2);
    CHECK(reclaimable(counts, R"({"completedIndexes":"0,,x,1-,3-2,-1"})", indexed) == 0);
    CHECK(reclaimable(counts, R"({"succeeded":5})", indexed) == 0);
  }
  SECTION("but not what is seen to run") {
    CHECK(reclaimable(R"("parallelism":3,"completions":3)", R"({"succeeded":2,"active":1})") == 2);
    CHECK(reclaimable(R"("parallelism":3,"completions":3)", R"({"succeeded":2,"active":3})") == 0);
  }
}

TEST_CASE("Fields of the wrong type are named with the Job") {
  TextTable texts;
  JobJson json;
  json.counts = R"("parallelism":"two")";
  const auto job = DecodeJob(json.Text(), &texts);
  REQUIRE_FALSE(job.ok());
  CHECK_THAT(std::string(job.status().message()), Catch::Contains("team/train") && Catch::Contains("spec.parallelism"));
  CHECK_FALSE(DecodeJob("{", &texts).ok());
  CHECK_FALSE(DecodeJob("[]", &texts).ok());
}

TEST_CASE("A spoilt record does not make the Job unreadable") {
  JobJson json;
  json.annotations = R"({"muster.dev/admission":"{\"uid\":\"job-uid\",\"v\":7}"})";
  const Job job = MustDecode(json);
  CHECK(job.record == nullptr);
  CHECK_THAT(job.record_problem, Catch::Contains("version 7"));
  json.annotations = R"({"muster.dev/admission":"{\"uid\":\"someone\",\"v\":1}"})";
  CHECK(MustDecode(json).record_problem.empty());
}

TEST_CASE("The template's text is shared by equal Jobs and kept of suspended ones only") {
  TextTable texts;
  JobJson json;
  const auto a = DecodeJob(json.Text(), &texts);
  const auto b = DecodeJob(json.Text(), &texts);
  REQUIRE(a->spec_rest != nullptr);
  CHECK(a->spec_rest == b->spec_rest);
  CHECK(texts.size() == 1);
  json.suspend = "false";
  CHECK(DecodeJob(json.Text(), &texts)->spec_rest == nullptr);
  CHECK(DecodeJob(json.Text(), &texts, true)->spec_rest == a->spec_rest);
}

// kueue_semantics 2.1: 0 < v < pods count.
TEST_CASE("The least parallelism is above zero and below the pod count") {
  const auto min = [](const char* value) {
    JobJson json;
    json.counts = R"("parallelism":6)";
    json.annotations = std::string(R"({"kueue.x-k8s.io/job-min-parallelism":")") + value + "\"}";
    return MinParallelism(MustDecode(json));
  };
  CHECK(**min("2") == 2);
  CHECK(**min("5") == 5);
  for (const char* wrong : {"0", "6", "-1", "x", "2.5", "99999999999"}) {
    const auto result = min(wrong);
    REQUIRE_FALSE(result.ok());
    CHECK_THAT(std::string(result.status().message()), Catch::Contains(wrong));
  }
  CHECK_FALSE(MinParallelism(MustDecode(JobJson{}))->has_value());
}

TEST_CASE("The longest execution is a number of seconds above zero") {
  JobJson json;
  json.labels = R"({"kueue.x-k8s.io/queue-name":"lq","kueue.x-k8s.io/max-exec-time-seconds":"4"})";
  CHECK(**MaxExecutionSeconds(MustDecode(json)) == 4);
  json.labels = R"({"kueue.x-k8s.io/max-exec-time-seconds":"0"})";
  CHECK_FALSE(MaxExecutionSeconds(MustDecode(json)).ok());
}

TEST_CASE("Pods are gone once the job controller has suspended and none is active") {
  JobJson json;
  const auto gone = [&json](const char* status, bool strict = false) {
    json.status = status;
    return PodsGone(MustDecode(json), strict);
  };
  const char* done = R"({"active":0,"terminating":1,"conditions":[{"type":"Suspended","status":"True"}]})";
  CHECK(gone(done));
  CHECK_FALSE(gone(done, true));
  CHECK_FALSE(gone(R"({"active":1,"conditions":[{"type":"Suspended","status":"True"}]})"));
  CHECK_FALSE(gone(R"({"active":0,"conditions":[{"type":"Suspended","status":"False"}]})"));
  CHECK_FALSE(gone("{}"));
  json.suspend = "false";
  CHECK_FALSE(gone(done));
}

TEST_CASE("A Job has ended when it is Complete or Failed, not before") {
  JobJson json;
  json.status = R"({"conditions":[{"type":"SuccessCriteriaMet","status":"True"},{"type":"Failed","status":"False"}]})";
  CHECK(MustDecode(json).Outcome() == nullptr);
  json.status = R"({"conditions":[{"type":"Failed","status":"True","message":"why"}]})";
  REQUIRE(MustDecode(json).Outcome() != nullptr);
  CHECK_FALSE(MustDecode(json).Succeeded());
}

TEST_CASE("A hash of JSON depends on values and their order in lists, not on keys' order or spacing") {
  const auto hash = [](const char* text) {
    k8s::JsonDocument document(text);
    return CanonicalHash(document.root());
  };
  CHECK(hash(R"({"a":1,"b":[1,2]})") == hash(R"({ "b": [1, 2], "a": 1 })"));
  CHECK(hash(R"({"a":1,"b":null})") == hash(R"({"a":1})"));
  CHECK(hash(R"([1,2])") != hash(R"([2,1])"));
  CHECK(hash(R"({"a":1})") != hash(R"({"a":"1"})"));
  CHECK(hash(R"({"a":{"b":1}})") != hash(R"({"a":1,"b":1})"));
}

}  // namespace
}  // namespace muster::controller
