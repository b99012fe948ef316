#include "muster/sim/faults.h"

#include <catch2/catch.hpp>
#include <string>

#include "server_fixture.h"

namespace muster::sim {
namespace {

using k8s::Method;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using Kind = Fault::Kind;
using V = std::vector<std::string>;

struct FaultFixture : ServerFixture {
  FaultPlan::RuleId Arm(Fault fault, std::vector<std::string> verbs = {"create"}) {
    FaultRule rule;
    rule.verbs = std::move(verbs);
    rule.fault = fault;
    return server.faults().Add(rule);
  }
  bool Exists(const std::string& name) {
    return store.Peek(store.FindKind("kueue.x-k8s.io", "workloads"), "p", name) != nullptr;
  }
};

TEST_CASE_METHOD(FaultFixture, "a refused connection: not applied, and known to be so", "[faults]") {
  const auto rule = Arm({Kind::kRefuse});
  const auto answer = Create("a");
  CHECK(answer.status == 0);
  CHECK_FALSE(answer.sent);
  CHECK_FALSE(Exists("a"));
  CHECK(server.faults().hits(rule) == 1);
  CHECK(Create("a").status == 201);  // once only
}

TEST_CASE_METHOD(FaultFixture, "unknown outcomes: lost request, lost answer, no answer", "[faults]") {
  Arm({Kind::kLoseRequest});
  auto answer = Create("a");
  CHECK(answer.status == 0);
  CHECK(answer.sent);
  CHECK_FALSE(Exists("a"));
  Arm({Kind::kLoseAnswer});
  answer = Create("b");
  CHECK(answer.status == 0);
  CHECK(answer.sent);
  CHECK(Exists("b"));
  Arm({Kind::kHang});
  const MonoTime start = executor.Mono();
  answer = Create("c");
  CHECK(answer.status == 0);
  CHECK(answer.sent);
  CHECK(answer.error == "timed out");
  CHECK(executor.Mono() - start >= seconds(30));
  CHECK(Exists("c"));
}

TEST_CASE_METHOD(FaultFixture, "an answer instead of, or in spite of, the effect", "[faults]") {
  Fault throttled{Kind::kAnswer, 429};
  throttled.retry_after = seconds(7);
  Arm(throttled);
  const auto answer = Create("a");
  CHECK(answer.status == 429);
  CHECK(answer.retry_after == Duration(seconds(7)));
  CHECK(Get(*ParseJson(answer.body), "reason") == "TooManyRequests");
  CHECK_FALSE(Exists("a"));
  Arm({Kind::kAnswer, 409});
  CHECK(Get(*ParseJson(Create("a").body), "reason") == "Conflict");
  Arm({Kind::kApplyAndAnswer, 504});
  CHECK(Create("a").status == 504);
  CHECK(Exists("a"));
}

TEST_CASE_METHOD(FaultFixture, "delays: of the answer, of the request, past the request's own limit", "[faults]") {
  Arm({Kind::kDelayAnswer, 0, seconds(3)});
  MonoTime start = executor.Mono();
  CHECK(Create("a").status == 201);
  CHECK(executor.Mono() - start >= seconds(3));
  Arm({Kind::kDelayRequest, 0, seconds(3)});
  start = executor.Mono();
  bool answered = false;
  transport->Call(Request(Method::kPost, kWorkloads, WorkloadText("b")), [&](k8s::HttpResponse) { answered = true; });
  executor.RunFor(seconds(2));
  CHECK_FALSE(Exists("b"));
  executor.RunFor(seconds(2));
  CHECK(Exists("b"));
  CHECK(answered);
  Arm({Kind::kDelayRequest, 0, seconds(20)});
  start = executor.Mono();
  const auto late = Call(Request(Method::kPost, kWorkloads, WorkloadText("c"), "application/json", "timeout=4000ms"));
  CHECK(late.status == 504);
  CHECK(executor.Mono() - start < seconds(5));
  executor.RunFor(minutes(1));
  CHECK_FALSE(Exists("c"));
}

TEST_CASE_METHOD(FaultFixture, "what is held goes on when released", "[faults]") {
  const auto request = Arm({Kind::kHold});
  std::optional<k8s::HttpResponse> answer;
  const auto create = [&](const char* name) {
    answer.reset();
    k8s::HttpRequest http = Request(Method::kPost, kWorkloads, WorkloadText(name));
    http.timeout = minutes(10);
    transport->Call(std::move(http), [&](k8s::HttpResponse response) { answer = std::move(response); });
    executor.RunFor(minutes(2));
    CHECK_FALSE(answer.has_value());
    CHECK(server.held() == 1);
  };
  create("a");
  CHECK_FALSE(Exists("a"));
  server.Release(request);
  executor.RunFor(seconds(1));
  CHECK(Exists("a"));
  CHECK(answer->status == 201);
  const auto reply = Arm({Kind::kHoldAnswer});
  create("b");
  CHECK(Exists("b"));
  server.Release(reply);
  executor.RunFor(seconds(1));
  CHECK(answer->status == 201);
  CHECK(server.held() == 0);
}

TEST_CASE_METHOD(FaultFixture, "rules choose by verb, resource, name, body, and count", "[faults]") {
  FaultRule rule;
  rule.verbs = {"create"};
  rule.resource = "workloads";
  rule.ns = "p";
  rule.body_contains = "\"special\"";
  rule.skip = 1;
  rule.times = 2;
  rule.fault = {Kind::kAnswer, 500};
  const auto id = server.faults().Add(rule);
  const auto code = [&](const char* name) {
    return Call(Request(Method::kPost, kWorkloads,
                        R"({"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"Workload","metadata":{"name":")" +
                            std::string(name) + R"(","labels":{"x":"special"}}})"))
        .status;
  };
  CHECK(Create("plain").status == 201);
  CHECK(code("a") == 201);
  CHECK(code("b") == 500);
  CHECK(code("b") == 500);
  CHECK(code("b") == 201);
  CHECK(server.faults().hits(id) == 2);
  rule = {};
  rule.resource = "workloads/status";
  rule.times = -1;
  rule.fault = {Kind::kAnswer, 500};
  server.faults().Add(rule);
  const std::string path = std::string(kWorkloads) + "/a";
  for (int i = 0; i < 3; ++i) {
    CHECK(Call(Request(Method::kPatch, path + "/status", "{}", "application/merge-patch+json")).status == 500);
    CHECK(Call(Request(Method::kPatch, path, "{}", "application/merge-patch+json")).status == 200);
  }
  server.faults().Clear();
  CHECK(Call(Request(Method::kPatch, path + "/status", "{}", "application/merge-patch+json")).status == 200);
}

TEST_CASE_METHOD(FaultFixture, "a watch is cut in the middle of a line", "[faults]") {
  Fault cut{Kind::kCut};
  cut.lines = 1;
  Arm(cut, {"watch"});
  WatchLog watch;
  const auto stream = Watch(&watch, "");
  executor.RunFor(seconds(1));
  Create("a");
  Create("b");
  executor.RunFor(seconds(1));
  CHECK(watch.Events() == V{"ADDED a"});
  CHECK(watch.closed);
  CHECK_FALSE(watch.status.ok());
  CHECK(watch.http_status == 0);
}

TEST_CASE_METHOD(FaultFixture, "410 in the stream, garbage, and a stream that falls silent", "[faults]") {
  Create("a");
  const std::string from = "resourceVersion=" + std::to_string(store.version());
  Arm({Kind::kGoneInStream}, {"watch"});
  WatchLog gone;
  const auto first = Watch(&gone, from);
  Arm({Kind::kGarbage}, {"watch"});
  executor.RunFor(milliseconds(100));
  WatchLog garbage;
  const auto second = Watch(&garbage, from);
  executor.RunFor(milliseconds(100));
  Arm({Kind::kStall}, {"watch"});
  WatchLog stalled;
  const auto third = Watch(&stalled, from);
  executor.RunFor(milliseconds(100));
  Create("b");
  Create("c");
  executor.RunFor(seconds(1));
  CHECK(gone.Events() == V{"ERROR 410"});
  CHECK(gone.closed);
  CHECK(garbage.Events() == V{"garbage", "ADDED c"});
  CHECK_FALSE(garbage.closed);
  CHECK(stalled.lines.empty());
  CHECK_FALSE(stalled.closed);
  executor.RunFor(minutes(5));  // the request's own limit of silence
  CHECK(stalled.closed);
  CHECK(absl::IsDeadlineExceeded(stalled.status));
}

TEST_CASE_METHOD(FaultFixture, "HTTP answers to a watch", "[faults]") {
  Fault gone{Kind::kAnswer, 410};
  Arm(gone, {"watch"});
  WatchLog watch;
  const auto stream = Watch(&watch, "");
  executor.RunFor(seconds(1));
  CHECK(watch.opened == 0);
  CHECK(watch.http_status == 410);
  Arm({Kind::kRefuse}, {"watch"});
  WatchLog refused;
  const auto other = Watch(&refused, "");
  executor.RunFor(seconds(1));
  CHECK(refused.closed);
  CHECK(refused.http_status == 0);
}

TEST_CASE_METHOD(FaultFixture, "open watches can be broken at once", "[faults]") {
  WatchLog workloads;
  WatchLog jobs;
  const auto a = Watch(&workloads, "");
  const auto b = Watch(&jobs, "", "/apis/batch/v1/jobs");
  executor.RunFor(seconds(1));
  server.BreakWatches("jobs", {Kind::kCut});
  executor.RunFor(seconds(1));
  CHECK(jobs.closed);
  CHECK_FALSE(workloads.closed);
}

TEST_CASE_METHOD(FaultFixture, "a server that is down refuses all and comes back", "[faults]") {
  WatchLog watch;
  const auto stream = Watch(&watch, "");
  executor.RunFor(seconds(1));
  server.SetDown(true);
  CHECK(Create("a").status == 0);
  executor.RunFor(seconds(1));
  CHECK(watch.closed);
  server.SetDown(false);
  CHECK(Create("a").status == 201);
}

TEST_CASE_METHOD(FaultFixture, "chance strikes about as often as told, and writes in every way", "[faults]") {
  server.faults().SetRandom(executor.NewRandom("chance"), {"muster", 200, 0, 0, seconds(1)});
  int failed = 0;
  int unknown = 0;
  for (int i = 0; i < 400; ++i) {
    const auto answer = Create("w" + std::to_string(i));
    failed += answer.status != 201;
    unknown += answer.status == 0 && answer.sent;
  }
  CHECK(server.faults().random_hits() > 50);
  CHECK(server.faults().random_hits() < 120);
  CHECK(failed > 25);
  CHECK(unknown > 10);
  for (int i = 0; i < 50; ++i) CHECK(Fetch(kWorkloads, "limit=1").status == 200);
  auto other = server.Connect("someone", &executor, nullptr);
  const int64_t hits = server.faults().random_hits();
  for (int i = 0; i < 50; ++i) {
    other->Call(Request(Method::kPost, kWorkloads, WorkloadText("x")), [](k8s::HttpResponse) {});
  }
  executor.RunFor(seconds(5));
  CHECK(server.faults().random_hits() == hits);
}

}  // namespace
}  // namespace muster::sim
