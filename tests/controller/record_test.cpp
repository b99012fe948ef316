#include "muster/controller/record.h"

#include <catch2/catch.hpp>

#include "test_jobs.h"

namespace muster::controller {
namespace {

Record FullRecord() {
  Record record;
  record.state = Record::State::kStopped;
  record.claim = {3, 17};
  record.job_uid = "job-uid";
  record.local_queue = "lq";
  record.admission = BlueAdmission(4);
  record.reserved_at = {1'767'225'600'123'456'000};
  record.injected.labels = {{"kueue.x-k8s.io/podset", "main"}};
  record.injected.annotations = {{"kueue.x-k8s.io/workload", "job-train-0d852"}};
  record.injected.node_selector = {{"pool", "blue"}};
  record.injected.tolerations = Flavors().at("blue").tolerations;
  record.parallelism = 6;
  record.completions = 6;
  record.pods = 5;
  record.requests = WrittenRequests{{"cpu", Amount{1000}}};
  record.max_execution_seconds = 3600;
  record.past_execution_seconds = 40;
  record.slice = 7;
  record.resumed = 2;
  Eviction eviction;
  eviction.reason = "Preempted";
  eviction.message = "say \"why\"\n";
  eviction.preemption_reason = "InClusterQueue";
  eviction.preemptor_uid = "other";
  eviction.at = {1'767'225'700'000'001'000};
  eviction.past_execution_seconds = 12;
  eviction.requeue_at = {1'767'225'800'000'000'000};
  eviction.requeue_count = 3;
  eviction.timed_out = {{{"main", "blue", 2, {1'767'225'000'000'000'000}}}, {1'767'226'000'000'000'000}};
  eviction.totals = {{"Preempted", "", 2}, {"Deactivated", "Cause", 1}};
  record.eviction = eviction;
  return record;
}

TEST_CASE("A record reads as it was written") {
  const Record record = FullRecord();
  const auto read = DecodeRecord(EncodeRecord(record), "job-uid");
  REQUIRE(read.ok());
  REQUIRE(read->has_value());
  CHECK(**read == record);
}

TEST_CASE("A record with another Job's uid counts as none, whatever else it says") {
  const auto copied = DecodeRecord(EncodeRecord(FullRecord()), "another");
  REQUIRE(copied.ok());
  CHECK_FALSE(copied->has_value());
  const auto newer = DecodeRecord(R"({"v":2,"uid":"another","news":1})", "job-uid");
  REQUIRE(newer.ok());
  CHECK_FALSE(newer->has_value());
}

TEST_CASE("A record that cannot be trusted is refused with what is wrong") {
  const std::string good = EncodeRecord(FullRecord());
  const auto broken = [&good](const std::string& from, const std::string& to) {
    std::string text = good;
    const size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
    const auto read = DecodeRecord(text, "job-uid");
    REQUIRE_FALSE(read.ok());
    return std::string(read.status().message());
  };
  CHECK_THAT(broken("\"v\":1", "\"v\":9"), Catch::Contains("version 9"));
  CHECK_THAT(broken("stopped", "paused"), Catch::Contains("paused"));
  CHECK_THAT(broken("3-17", "3:17"), Catch::Contains("3:17"));
  CHECK_THAT(broken("3-17", "0-0"), Catch::Contains("0-0"));
  CHECK_THAT(broken("\"resumed\"", "\"resumption\""), Catch::Contains("resumption"));
  CHECK_THAT(broken("\"count\":4", "\"count\":-4"), Catch::Contains("count"));
  CHECK_THAT(broken("\"count\":4", "\"count\":\"4\""), Catch::Contains("count"));
  CHECK_THAT(broken("\"count\":4", "\"count\":4294967300"), Catch::Contains("4294967300"));
  CHECK_THAT(broken("\"count\":4,", ""), Catch::Contains("\"count\" is missing"));
  CHECK_THAT(broken("\"cpu\":4000", "\"cpu\":-1"), Catch::Contains("negative"));
  CHECK_THAT(broken("\"cpu\":1000", "\"cpu\":-1"), Catch::Contains("negative"));
  CHECK_THAT(broken("\"clusterQueue\":\"cq\",", ""), Catch::Contains("clusterQueue"));
}

TEST_CASE("Any text at all is either a record or an error") {
  const std::string good = EncodeRecord(FullRecord());
  for (size_t cut = 0; cut < good.size(); ++cut) CHECK_FALSE(DecodeRecord(good.substr(0, cut), "job-uid").ok());
  for (const char* text : {"", "null", "[]", "\"x\"", "{", "{\"uid\":7}", "{\"uid\":\"job-uid\",\"v\":1}"}) {
    CHECK_FALSE(DecodeRecord(text, "job-uid").ok());
  }
}

}  // namespace
}  // namespace muster::controller
