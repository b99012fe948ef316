#include "muster/controller/job_patch.h"

#include <catch2/catch.hpp>

#include "muster/sim/json.h"
#include "muster/sim/json_patch.h"
#include "test_jobs.h"

namespace muster::controller {
namespace {

using sim::At;
using sim::Json;

StartOrder Order(int32_t count = 2) {
  StartOrder order;
  order.claim = {1, 5};
  order.admission = BlueAdmission(count);
  order.reserved_at = {1'767'225'600'000'000'000};
  order.local_queue = "lq";
  order.workload = "job-train-0d852";
  return order;
}

// The Job after the patch, as the API server would have it. REQUIRES: the patch applies.
std::string Applied(const std::string& job, const std::string& patch) {
  Json document = Json::parse(job);
  const absl::Status status = sim::ApplyJsonPatch(patch, &document);
  INFO(patch);
  INFO(status.ToString());
  REQUIRE(status.ok());
  document["metadata"]["generation"] = document["metadata"]["generation"].get<int64_t>() + 1;
  return document.dump();
}

bool Applies(const Json& job, const std::string& patch) {
  Json document = job;
  return sim::ApplyJsonPatch(patch, &document).ok();
}

std::string Start(const std::string& json, int32_t count = 2) {
  const auto patch = BuildStart(MustDecode(json), Order(count), Flavors());
  INFO(patch.status().ToString());
  REQUIRE(patch.ok());
  return patch->body;
}

TEST_CASE("A start unsuspends, injects and records in one patch") {
  for (const char* annotations : {"", R"({"example.com/owner":"alice"})"}) {
    JobJson json;
    json.annotations = annotations;
    const std::string after = Applied(json.Text(), Start(json.Text()));
    const Job job = MustDecode(after);
    CHECK_FALSE(job.suspend);
    CHECK(job.view.node_selector == Labels{{"pool", "blue"}, {"zone", "z1"}});
    CHECK(job.view.tolerations == Flavors().at("blue").tolerations);
    CHECK(job.view.annotations == Labels{{"kueue.x-k8s.io/workload", "job-train-0d852"}});
    CHECK(job.view.labels.at("kueue.x-k8s.io/cluster-queue-name") == "cq");
    CHECK(job.parallelism == 2);
    REQUIRE(job.record != nullptr);
    CHECK(job.record->claim == engine::ClaimId{1, 5});
    CHECK(job.record->state == Record::State::kStarted);
    CHECK(job.record->admission == BlueAdmission(2));
    CHECK(job.meta.annotations.size() == (annotations[0] == '\0' ? 1 : 2));
    CHECK(OriginalShape(job).view == MustDecode(json).view);
  }
}

TEST_CASE("What a start tests is in the encoding that the API server compares") {
  // The simulator compares as kube-apiserver 1.36.3 does; tests/k8s_cluster tries both on the same texts.
  const std::string odd = GENERATE(R"(a<b && c>d)", R"(\u2028 \u2029)", R"(\u0001 \b \t \n \f \r \u001b \u001f \u007f)",
                                   R"(\"q\" \\u001B / é)");
  JobJson json;
  json.annotations = R"({"kueue.x-k8s.io/elastic-job":")" + odd + R"("})";
  REQUIRE(MustDecode(json).meta.annotations.at("kueue.x-k8s.io/elastic-job") == Json::parse('"' + odd + '"'));
  CHECK(Applies(Json::parse(json.Text()), Start(json.Text())));
  json.annotations = R"({"muster.dev/admission":")" + odd + R"("})";  // a record of nobody
  CHECK(Applies(Json::parse(json.Text()), Start(json.Text())));
}

TEST_CASE("A start is void once anything that it was decided on has changed") {
  JobJson json;
  json.annotations = R"({"example.com/owner":"alice"})";
  const std::string patch = Start(json.Text());
  const Json job = Json::parse(json.Text());
  REQUIRE(Applies(job, patch));
  const auto refused = [&](auto change) {
    Json changed = job;
    change(&changed);
    // A later look at the Job tells as much.
    CHECK(StartStillFits(MustDecode(json), MustDecode(changed.dump())) == Applies(changed, patch));
    return !Applies(changed, patch);
  };
  CHECK(refused([](Json* j) { (*j)["metadata"]["uid"] = "another"; }));
  CHECK(refused([](Json* j) { (*j)["metadata"]["generation"] = 4; }));
  CHECK(refused([](Json* j) { (*j)["spec"]["suspend"] = false; }));
  CHECK(refused([](Json* j) { (*j)["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "other"; }));
  CHECK(refused([](Json* j) { (*j)["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = "high"; }));
  CHECK(refused([](Json* j) { (*j)["metadata"]["annotations"]["kueue.x-k8s.io/job-min-parallelism"] = "1"; }));
  CHECK(refused([](Json* j) { (*j)["metadata"]["annotations"]["muster.dev/admission"] = "{}"; }));
  CHECK(refused([](Json* j) { (*j)["metadata"].erase("annotations"); }));
  // What it does not depend on may change: the job controller writes the status all the time.
  CHECK_FALSE(refused([](Json* j) { (*j)["status"]["ready"] = 0; }));
  CHECK_FALSE(refused([](Json* j) { (*j)["metadata"]["labels"]["team"] = "ml"; }));

  JobJson bare;
  const std::string without = Start(bare.Text());
  Json with = Json::parse(bare.Text());
  REQUIRE(Applies(with, without));
  with["metadata"]["annotations"]["x"] = "y";  // adding the whole map would wipe this out
  CHECK_FALSE(Applies(with, without));
  CHECK_FALSE(StartStillFits(MustDecode(bare), MustDecode(with.dump())));
}

TEST_CASE("Partial admission lowers parallelism, and completions only of Indexed Jobs that say so") {
  JobJson json;
  json.counts = R"("parallelism":6,"completions":6,"completionMode":"Indexed")";
  json.annotations = R"({"kueue.x-k8s.io/job-min-parallelism":"2"})";
  Job job = MustDecode(Applied(json.Text(), Start(json.Text(), 4)));
  CHECK(job.parallelism == 4);
  CHECK(job.completions == 6);
  CHECK(job.record->parallelism == 6);
  CHECK_FALSE(job.record->completions.has_value());
  CHECK(OriginalShape(job).pod_count() == 6);

  json.annotations =
      R"({"kueue.x-k8s.io/job-min-parallelism":"2","kueue.x-k8s.io/job-completions-equal-parallelism":"true"})";
  job = MustDecode(Applied(json.Text(), Start(json.Text(), 4)));
  CHECK(job.parallelism == 4);
  CHECK(job.completions == 4);
  CHECK(job.record->completions == 6);
}

TEST_CASE("What has ended before the start is not part of the admission") {
  JobJson json;
  json.counts = R"("parallelism":5,"completions":5)";
  json.status = R"({"succeeded":3})";
  SECTION("all that is left: the counts stay, and the record knows them") {
    const Job job = MustDecode(Applied(json.Text(), Start(json.Text(), 2)));
    CHECK(job.parallelism == 5);
    CHECK_FALSE(job.record->parallelism.has_value());
    CHECK(job.record->pods == 5);
    CHECK(RunsAsAdmitted(job, *job.record, false));
    Job back = job;
    back.status.ended = 2;
    CHECK_FALSE(RunsAsAdmitted(back, *job.record, false));
    Job scaled = job;
    scaled.parallelism = 4;
    CHECK_FALSE(RunsAsAdmitted(scaled, *job.record, false));
  }
  SECTION("less than is left: a partial admission") {
    json.annotations = R"({"kueue.x-k8s.io/job-min-parallelism":"1"})";
    const Job job = MustDecode(Applied(json.Text(), Start(json.Text(), 1)));
    CHECK(job.parallelism == 1);
    CHECK(job.record->parallelism == 5);
    CHECK_FALSE(job.record->pods.has_value());
    CHECK(RunsAsAdmitted(job, *job.record, false));
  }
  SECTION("a start that was decided on for fewer pods than can run by now does not fit") {
    const Job basis = MustDecode(json);
    Job now = basis;
    now.status.ended = 4;
    CHECK(StartStillFits(basis, now));
    now.status.ended = 2;
    CHECK_FALSE(StartStillFits(basis, now));
  }
}

Eviction Stopped() {
  Eviction eviction;
  eviction.reason = "ClusterQueueStopped";
  eviction.message = "The ClusterQueue is stopped";
  eviction.at = {1'767'225'700'000'000'000};
  eviction.totals = {{"ClusterQueueStopped", "", 1}};
  return eviction;
}

TEST_CASE("A stop suspends, sets counts back and keeps what a restoration needs") {
  JobJson json;
  json.counts = R"("parallelism":6,"completions":10)";
  json.annotations = R"({"kueue.x-k8s.io/job-min-parallelism":"2"})";
  const std::string running = Applied(json.Text(), Start(json.Text(), 4));
  const Job started = MustDecode(running);
  const JobPatch stop = BuildStop(started, *started.record, Stopped());
  const std::string after = Applied(running, stop.body);
  const Job stopped = MustDecode(after);
  CHECK(stopped.suspend);
  CHECK(stopped.parallelism == 6);
  REQUIRE(stopped.record != nullptr);
  CHECK(*stopped.record == stop.record);
  CHECK(stopped.record->state == Record::State::kStopped);
  CHECK(stopped.record->claim == started.record->claim);
  CHECK(stopped.record->eviction == Stopped());
  CHECK(stopped.view == started.view);  // still injected: the template is locked until the pods are gone

  SECTION("once") {
    // A second leader's stop of the same record meets another record.
    CHECK_FALSE(Applies(Json::parse(after), stop.body));
  }
  SECTION("then the template is restored and the record removed") {
    const Job restored = MustDecode(Applied(after, BuildRestore(stopped)));
    CHECK(restored.record == nullptr);
    CHECK_FALSE(restored.meta.annotations.contains("muster.dev/admission"));
    CHECK(restored.view == MustDecode(json).view);
    CHECK(restored.suspend);
  }
  SECTION("or a new start restores on its way") {
    StartOrder order = Order(6);
    order.claim = {1, 6};
    FlavorMap flavors = Flavors();
    flavors["blue"].node_labels = {{"pool", "green"}};
    const auto patch = BuildStart(stopped, order, flavors);
    REQUIRE(patch.ok());
    const Job again = MustDecode(Applied(after, patch->body));
    CHECK_FALSE(again.suspend);
    CHECK(again.parallelism == 6);
    CHECK(again.view.node_selector == Labels{{"pool", "green"}});
    CHECK(again.record->claim == engine::ClaimId{1, 6});
    CHECK(OriginalShape(again).view == MustDecode(json).view);
  }
}

TEST_CASE("A gang that somebody else suspended is started again, and that is counted") {
  JobJson json;
  Json running = Json::parse(Applied(json.Text(), Start(json.Text())));
  running["spec"]["suspend"] = true;
  const Job job = MustDecode(running.dump());
  const JobPatch resume = BuildResume(job);
  const Job again = MustDecode(Applied(running.dump(), resume.body));
  CHECK_FALSE(again.suspend);
  CHECK(again.record->resumed == 1);
  CHECK(again.view == job.view);
}

TEST_CASE("A lost record is written again where it is still missing") {
  JobJson json;
  const std::string running = Applied(json.Text(), Start(json.Text()));
  const Record record = *MustDecode(running).record;
  Json lost = Json::parse(running);
  lost["metadata"].erase("annotations");
  const std::string patch = BuildRecordAgain(MustDecode(lost.dump()), record);
  CHECK(*MustDecode(Applied(lost.dump(), patch)).record == record);
  CHECK_FALSE(Applies(Json::parse(running), patch));
}

TEST_CASE("A template that contradicts its flavor can never start, a flavor that is gone may come back") {
  JobJson json;
  json.node_selector = R"({"pool":"red"})";
  CHECK(absl::IsFailedPrecondition(BuildStart(MustDecode(json), Order(), Flavors()).status()));
  CHECK(absl::IsNotFound(BuildStart(MustDecode(JobJson{}), Order(), {}).status()));
}

TEST_CASE("A Job that runs without leave is suspended, unless it has got a record since") {
  JobJson json;
  json.suspend = "false";
  const Job job = MustDecode(json);
  CHECK(MustDecode(Applied(json.Text(), BuildSuspend(job))).suspend);
  Json recorded = Json::parse(json.Text());
  recorded["metadata"]["annotations"]["muster.dev/admission"] = "{}";
  CHECK_FALSE(Applies(recorded, BuildSuspend(job)));
}

}  // namespace
}  // namespace muster::controller
