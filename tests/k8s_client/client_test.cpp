#include "muster/k8s_client/client.h"

#include <catch2/catch.hpp>

#include "muster/k8s_client/resources.h"
#include "muster/sim/executor.h"
#include "scripted_transport.h"

namespace muster::k8s {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Fixture {
  explicit Fixture(ClientOptions options = {}) : client(executor.env(), &transport, options) {}

  Client::Done Keep(Result* out) {
    return [this, out](Result result) {
      *out = std::move(result);
      ++finished;
    };
  }
  void Patch(Lane lane, const std::string& name, Result* out) {
    client.Patch(lane, kJobs, {"a", name}, "", PatchType::kJsonPatch, "[]", Keep(out));
  }
  // Names of the jobs in the requests, in the order in which they left.
  std::string Order() const {
    std::string order;
    for (const HttpRequest& request : transport.requests)
      order += request.path.substr(request.path.rfind('/') + 1) + " ";
    return order;
  }

  sim::SimExecutor executor{1};
  ScriptedTransport transport{&executor};
  Client client;
  int finished = 0;
};

TEST_CASE("paths are those of the API") {
  CHECK(Client::Path(kNamespaces, ObjectKey{"", "a"}) == "/api/v1/namespaces/a");
  CHECK(Client::Path(kJobs, "") == "/apis/batch/v1/jobs");
  CHECK(Client::Path(kJobs, "team a") == "/apis/batch/v1/namespaces/team%20a/jobs");
  CHECK(Client::Path(kWorkloads, ObjectKey{"a", "b"}, "status") ==
        "/apis/kueue.x-k8s.io/v1beta2/namespaces/a/workloads/b/status");
  CHECK(Client::Path(kClusterQueues, ObjectKey{"", "q"}) == "/apis/kueue.x-k8s.io/v1beta2/clusterqueues/q");
  CHECK(UrlEncode("a b/c=\xc3\xa9~.-_") == "a%20b%2Fc%3D%C3%A9~.-_");
}

TEST_CASE("each verb makes its request") {
  Fixture f;
  Result r;
  f.client.Get(kJobs, {"a", "b"}, f.Keep(&r));
  f.client.Create(Lane::kWorkload, kWorkloads, "a", R"({"x":1})", f.Keep(&r));
  f.client.Patch(Lane::kStatus, kWorkloads, {"a", "w"}, "status", PatchType::kMergePatch, R"({"y":2})", f.Keep(&r));
  f.client.Patch(Lane::kStart, kJobs, {"a", "j"}, "", PatchType::kJsonPatch, "[]", f.Keep(&r));
  f.client.Update(Lane::kLease, kLeases, {"n", "l"}, R"({"z":3})", f.Keep(&r));
  f.client.Delete(Lane::kWorkload, kWorkloads, {"a", "w"}, "uid-1", "Background", f.Keep(&r));
  f.client.Read("/version", "x=1", "text/plain", f.Keep(&r));
  const auto& q = f.transport.requests;
  REQUIRE(q.size() == 7);
  CHECK(q[0].method == Method::kGet);
  CHECK(q[0].query.empty());
  CHECK(q[0].timeout == seconds(30));
  CHECK(q[1].method == Method::kPost);
  CHECK(q[1].content_type == "application/json");
  CHECK(q[1].body == R"({"x":1})");
  CHECK(q[1].query == "fieldManager=muster&timeout=4000ms");
  CHECK(q[1].leave_within == seconds(2));
  CHECK(q[1].timeout == seconds(8));  // 2 s to leave, 4 s to be applied, 2 s on the wire
  CHECK(q[2].method == Method::kPatch);
  CHECK(q[2].content_type == "application/merge-patch+json");
  CHECK(q[2].path == "/apis/kueue.x-k8s.io/v1beta2/namespaces/a/workloads/w/status");
  CHECK(q[3].content_type == "application/json-patch+json");
  CHECK(q[4].method == Method::kPut);
  CHECK(q[4].timeout == seconds(5));
  CHECK(q[5].method == Method::kDelete);
  CHECK(
      q[5].body ==
      R"({"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"uid":"uid-1"},"propagationPolicy":"Background"})");
  CHECK(q[6].path == "/version");
  CHECK(q[6].query == "x=1");
  CHECK(q[6].accept == "text/plain");
}

TEST_CASE("callbacks never run inside the call") {
  Fixture f;
  f.client.SetWriteGate([] { return false; });
  Result r;
  f.Patch(Lane::kStart, "j", &r);
  CHECK(f.finished == 0);
  f.executor.RunReady();
  CHECK(f.finished == 1);
}

TEST_CASE("the outcome of a write says what is known") {
  struct Case {
    int status;
    bool sent;
    Outcome outcome;
  };
  // 5xx: etcd may have applied what the server gave up waiting for, so a 504 or 500 proves nothing.
  const Case cases[] = {{200, true, Outcome::kDone},    {201, true, Outcome::kDone},    {302, true, Outcome::kRefused},
                        {401, true, Outcome::kRefused}, {404, true, Outcome::kRefused}, {409, true, Outcome::kRefused},
                        {422, true, Outcome::kRefused}, {429, true, Outcome::kRefused}, {500, true, Outcome::kUnknown},
                        {503, true, Outcome::kUnknown}, {504, true, Outcome::kUnknown}, {0, true, Outcome::kUnknown},
                        {0, false, Outcome::kNotSent}};
  for (const Case& c : cases) {
    INFO(c.status << " sent " << c.sent);
    Fixture f;
    Result r;
    f.Patch(Lane::kStart, "j", &r);
    HttpResponse response;
    response.status = c.status;
    response.sent = c.sent;
    response.error = c.status == 0 ? "connection reset" : "";
    f.transport.Answer(std::move(response));
    f.executor.RunReady();
    REQUIRE(f.finished == 1);
    CHECK(r.outcome == c.outcome);
    CHECK(r.code == c.status);
    if (c.status == 0) CHECK(r.message == "connection reset");
    // A write is never repeated on its own.
    f.executor.RunFor(seconds(60));
    CHECK(f.transport.requests.size() == 1);
  }
}

TEST_CASE("a read without an answer was certainly not applied") {
  Fixture f;
  Result r;
  f.client.Get(kJobs, {"a", "b"}, f.Keep(&r));
  f.transport.Fail(true, "timed out");
  f.executor.RunReady();
  CHECK(r.outcome == Outcome::kNotSent);
  CHECK(r.message == "timed out");
}

TEST_CASE("a Status is read; any other body is the message") {
  Fixture f;
  Result r;
  f.Patch(Lane::kStart, "j", &r);
  f.transport.Answer(429,
                     ScriptedTransport::StatusBody(429, "TooManyRequests", "slow down", R"({"retryAfterSeconds":7})"));
  f.executor.RunReady();
  CHECK(r.reason == "TooManyRequests");
  CHECK(r.message == "slow down");
  CHECK(r.retry_after == Duration(seconds(7)));

  f.Patch(Lane::kStart, "j", &r);
  f.transport.Answer(404, "404 page not found\n", seconds(3));
  f.executor.RunReady();
  CHECK(r.reason.empty());
  CHECK(r.message == "404 page not found\n");
  CHECK(r.retry_after == Duration(seconds(3)));
}

TEST_CASE("a read that is told to come back does so, ten times at most") {
  Fixture f;
  Result r;
  f.client.Get(kJobs, {"a", "b"}, f.Keep(&r));
  f.transport.Answer(429, "{}", seconds(5));
  f.executor.RunFor(milliseconds(4900));
  CHECK(f.transport.pending() == 0);
  f.executor.RunFor(milliseconds(1200));  // 5 s and at most a fifth more
  REQUIRE(f.transport.pending() == 1);
  f.transport.Answer(200, R"({"found":true})");
  f.executor.RunReady();
  CHECK(r.ok());
  CHECK(r.body == R"({"found":true})");

  f.finished = 0;
  f.transport.requests.clear();
  f.client.Get(kJobs, {"a", "b"}, f.Keep(&r));
  for (int i = 0; i < 10; ++i) {
    REQUIRE(f.finished == 0);
    REQUIRE(f.executor.RunUntil([&] { return f.transport.pending() == 1; }, seconds(60)));
    f.transport.Answer(429);
    f.executor.RunReady();
  }
  f.executor.RunFor(seconds(120));
  CHECK(f.finished == 1);
  CHECK(f.transport.requests.size() == 10);
  CHECK(r.outcome == Outcome::kRefused);
}

TEST_CASE("lanes leave in their order") {
  ClientOptions options;
  options.writes_in_flight_max = 1;
  Fixture f(options);
  Result r;
  f.Patch(Lane::kEvent, "first", &r);  // takes the slot
  f.Patch(Lane::kEvent, "event", &r);
  f.Patch(Lane::kStatus, "status", &r);
  f.Patch(Lane::kWorkload, "workload1", &r);
  f.Patch(Lane::kWorkload, "workload2", &r);
  f.Patch(Lane::kStart, "start", &r);
  CHECK(f.client.queued(Lane::kWorkload) == 2);
  CHECK(f.client.in_flight() == 1);
  for (int i = 0; i < 6; ++i) {
    REQUIRE(f.transport.pending() == 1);
    f.transport.Answer(200);
    f.executor.RunReady();
  }
  CHECK(f.Order() == "first start workload1 workload2 status event ");
  CHECK(f.client.in_flight() == 0);
}

TEST_CASE("writes in flight are bounded, and events may take only a quarter") {
  ClientOptions options;
  options.writes_in_flight_max = 8;
  Fixture f(options);
  Result r;
  for (int i = 0; i < 20; ++i) f.Patch(Lane::kEvent, "e", &r);
  CHECK(f.transport.pending() == 2);
  for (int i = 0; i < 20; ++i) f.Patch(Lane::kStart, "s", &r);
  CHECK(f.transport.pending() == 8);
  f.client.Update(Lane::kLease, kLeases, {"n", "l"}, "{}", f.Keep(&r));
  f.client.Get(kJobs, {"a", "b"}, f.Keep(&r));
  CHECK(f.transport.pending() == 10);
}

// By hand: a start takes 4 ms on an idle server. At 40 ms each all are late (more than 2 x 4 + 5), so what yields is
// halved with each but those that answer the same delay: 8, 4, 2, 1.
TEST_CASE("while starts come back late what can wait yields, and has all of it again when they are over") {
  ClientOptions options;
  options.qps = 0;
  options.writes_in_flight_max = 8;
  Fixture f(options);
  Result r;
  const auto start = [&f, &r](milliseconds takes) {
    f.Patch(Lane::kStart, "start", &r);
    f.executor.RunFor(takes);
    f.transport.Answer(200);
    f.executor.RunReady();
  };
  CHECK(f.client.yielding_slots() == 8);
  for (int i = 0; i < 3; ++i) start(milliseconds(4));
  CHECK(f.client.yielding_slots() == 8);

  for (int i = 0; i < 12; ++i) start(milliseconds(40));
  CHECK(f.client.yielding_slots() == 1);
  for (int i = 0; i < 5; ++i) f.Patch(Lane::kWorkload, "workload", &r);
  for (int i = 0; i < 5; ++i) f.Patch(Lane::kEvent, "event", &r);
  CHECK(f.transport.pending() == 1);
  f.Patch(Lane::kStart, "start", &r);
  CHECK(f.transport.pending() == 2);

  SECTION("each that comes back goes on with the next") {
    f.transport.Answer(200);  // the Workload's
    f.executor.RunReady();
    CHECK(f.transport.pending() == 2);
    CHECK(f.client.queued(Lane::kWorkload) == 3);
  }
  SECTION("no start for a while: all may leave") {
    f.executor.RunFor(milliseconds(300));
    CHECK(f.client.yielding_slots() == 8);
    f.transport.Answer(200);
    f.executor.RunReady();
    CHECK(f.client.queued(Lane::kWorkload) == 0);
  }
  SECTION("starts in time again: one more for each") {
    f.transport.Answer(200);
    f.transport.Answer(200);
    f.executor.RunReady();
    for (int i = 0; i < 40; ++i) {
      f.Patch(Lane::kStart, "start", &r);
      f.executor.RunFor(milliseconds(4));
      while (f.transport.pending() > 0) f.transport.Answer(200);
      f.executor.RunReady();
    }
    CHECK(f.client.yielding_slots() == 8);
  }
}

TEST_CASE("a server that is always busy does not keep what can wait from leaving") {
  ClientOptions options;
  options.qps = 0;
  options.writes_in_flight_max = 8;
  Fixture f(options);
  Result r;
  const auto starts = [&f, &r](int count, milliseconds takes) {
    for (int i = 0; i < count; ++i) {
      f.Patch(Lane::kStart, "start", &r);
      f.executor.RunFor(takes);
      f.transport.Answer(200);
      f.executor.RunReady();
    }
  };
  starts(3, milliseconds(4));
  starts(20, milliseconds(50));  // one second
  CHECK(f.client.yielding_slots() == 1);
  starts(200, milliseconds(50));  // ten seconds more: a slot each two seconds
  CHECK(f.client.yielding_slots() >= 5);
  CHECK(f.client.yielding_slots() < 8);
}

TEST_CASE("the bucket limits all but the lease") {
  ClientOptions options;
  options.qps = 10;
  options.burst = 4;
  Fixture f(options);
  Result r;
  for (int i = 0; i < 7; ++i) f.Patch(Lane::kStart, "s", &r);
  CHECK(f.transport.requests.size() == 4);
  f.client.Update(Lane::kLease, kLeases, {"n", "l"}, "{}", f.Keep(&r));
  f.client.Get(Lane::kLease, kLeases, {"n", "l"}, f.Keep(&r));
  CHECK(f.transport.requests.size() == 6);
  f.executor.RunFor(milliseconds(99));
  CHECK(f.transport.requests.size() == 6);
  f.executor.RunFor(milliseconds(1));
  CHECK(f.transport.requests.size() == 7);
  // A read goes before the two writes that still wait.
  f.client.Get(kJobs, {"a", "read"}, f.Keep(&r));
  f.executor.RunFor(milliseconds(100));
  CHECK(f.Order() == "s s s s l l s read ");
  f.executor.RunFor(milliseconds(200));
  CHECK(f.client.queued(Lane::kStart) == 0);
  // The burst fills up again, and no further.
  f.executor.RunFor(seconds(10));
  f.transport.requests.clear();
  for (int i = 0; i < 7; ++i) f.Patch(Lane::kStart, "s", &r);
  CHECK(f.transport.requests.size() == 4);
}

TEST_CASE("events leave a quarter of the bucket to others") {
  ClientOptions options;
  options.qps = 1;
  options.burst = 8;
  options.writes_in_flight_max = 100;
  Fixture f(options);
  Result r;
  for (int i = 0; i < 10; ++i) f.Patch(Lane::kEvent, "e", &r);
  CHECK(f.transport.requests.size() == 6);
  for (int i = 0; i < 10; ++i) f.Patch(Lane::kStart, "s", &r);
  CHECK(f.transport.requests.size() == 8);
}

TEST_CASE("no limit where qps is negative") {
  ClientOptions options;
  options.qps = -1;
  options.writes_in_flight_max = 10'000;
  Fixture f(options);
  Result r;
  for (int i = 0; i < 5'000; ++i) f.Patch(Lane::kStart, "s", &r);
  CHECK(f.transport.requests.size() == 5'000);
}

TEST_CASE("the gate is asked when a write leaves, not when it is made") {
  ClientOptions options;
  options.writes_in_flight_max = 1;
  Fixture f(options);
  bool open = true;
  f.client.SetWriteGate([&] { return open; });
  Result first;
  Result second;
  Result lease;
  f.Patch(Lane::kStart, "one", &first);
  f.Patch(Lane::kStart, "two", &second);
  CHECK(f.transport.requests.size() == 1);
  open = false;
  f.transport.Answer(200);
  f.executor.RunReady();
  CHECK(first.ok());
  CHECK(second.outcome == Outcome::kNotSent);
  CHECK_FALSE(second.message.empty());
  CHECK(f.transport.requests.size() == 1);
  f.client.Update(Lane::kLease, kLeases, {"n", "l"}, "{}", f.Keep(&lease));
  CHECK(f.transport.requests.size() == 2);
}

TEST_CASE("the observer hears of each write that left") {
  Fixture f;
  std::string heard;
  f.client.SetWriteObserver([&](std::string_view resource, std::string_view verb, int code, Duration took) {
    heard += absl::StrCat(std::string(resource), " ", std::string(verb), " ", code, " ", took / milliseconds(1), "; ");
  });
  Result r;
  f.client.Patch(Lane::kStatus, kWorkloads, {"a", "w"}, "status", PatchType::kMergePatch, "{}", f.Keep(&r));
  f.executor.RunFor(milliseconds(20));
  f.transport.AnswerStatus(409, "Conflict", "changed");
  f.client.Create(Lane::kEvent, kEvents, "a", "{}", f.Keep(&r));
  f.executor.RunFor(milliseconds(30));
  f.transport.Fail(false, "refused");
  f.client.Get(kJobs, {"a", "b"}, f.Keep(&r));
  f.transport.Answer(200);
  f.executor.RunReady();
  CHECK(heard == "workloads/status patch 409 20; events create 0 30; ");
}

TEST_CASE("answers after the client is gone are dropped") {
  sim::SimExecutor executor(1);
  ScriptedTransport transport(&executor);
  int finished = 0;
  const auto count = [&](Result) { ++finished; };
  {
    Client client(executor.env(), &transport, {.qps = 1, .burst = 1});
    client.Get(kJobs, {"a", "b"}, count);
    client.Get(kJobs, {"a", "c"}, count);  // waits for a token
    transport.Answer(200);
  }
  executor.RunFor(seconds(10));
  CHECK(finished == 0);
  CHECK(transport.requests.size() == 1);
}

}  // namespace
}  // namespace muster::k8s
