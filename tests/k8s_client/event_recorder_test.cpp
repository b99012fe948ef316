#include "muster/k8s_client/event_recorder.h"

#include <catch2/catch.hpp>

#include "muster/k8s_client/json_reader.h"
#include "muster/sim/executor.h"
#include "scripted_transport.h"

namespace muster::k8s {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

const ObjectReference kJob{"batch/v1", "Job", "team", "train", "uid-1"};

struct Fixture {
  explicit Fixture(int waiting_max = 1000) {
    EventRecorderOptions options;
    options.instance = "muster-0";
    options.waiting_max = waiting_max;
    recorder = std::make_unique<EventRecorder>(executor.env(), &client, options, [this] { ++dropped; });
  }
  void Record(const std::string& message = "Admitted", const ObjectReference& object = kJob) {
    recorder->Record(object, "batch/job-kueue-controller", "Normal", "Started", "Start", message);
  }
  void Answer(int status) {
    transport.Answer(status);
    executor.RunReady();
  }
  // The body of the request that waits.
  JsonDocument& Body() {
    body = std::make_unique<JsonDocument>(transport.next().body);
    return *body;
  }

  sim::SimExecutor executor{1};
  ScriptedTransport transport{&executor};
  Client client{executor.env(), &transport, {}};
  std::unique_ptr<JsonDocument> body;
  std::unique_ptr<EventRecorder> recorder;
  int dropped = 0;
};

TEST_CASE("an event is made as events.k8s.io/v1 wants it") {
  Fixture f;
  f.Record("Admitted by ClusterQueue cq");
  REQUIRE(f.transport.pending() == 1);
  CHECK(f.transport.next().method == Method::kPost);
  CHECK(f.transport.next().path == "/apis/events.k8s.io/v1/namespaces/team/events");
  const JsonValue event = f.Body().root();
  CHECK(event["apiVersion"].String() == "events.k8s.io/v1");
  CHECK(event["kind"].String() == "Event");
  CHECK(event["metadata"]["namespace"].String() == "team");
  // 1767225600 s in nanoseconds, in hexadecimal (Python: hex(1767225600 * 10**9)).
  CHECK(event["metadata"]["name"].String() == "train.18867251edfa0000");
  CHECK(event["eventTime"].String() == "2026-01-01T00:00:00.000000Z");
  CHECK(event["type"].String() == "Normal");
  CHECK(event["reason"].String() == "Started");
  CHECK(event["action"].String() == "Start");
  CHECK(event["note"].String() == "Admitted by ClusterQueue cq");
  CHECK(event["reportingController"].String() == "batch/job-kueue-controller");
  CHECK(event["reportingInstance"].String() == "muster-0");
  CHECK(event["regarding"]["apiVersion"].String() == "batch/v1");
  CHECK(event["regarding"]["kind"].String() == "Job");
  CHECK(event["regarding"]["namespace"].String() == "team");
  CHECK(event["regarding"]["name"].String() == "train");
  CHECK(event["regarding"]["uid"].String() == "uid-1");
  CHECK_FALSE(event["series"].present());
}

TEST_CASE("names are unique within an instant, and short enough") {
  Fixture f;
  f.Record("one");
  f.Record("two");
  ObjectReference object = kJob;
  object.name = std::string(236, 'n') + ".x" + std::string(20, 'n');
  f.Record("three", object);
  REQUIRE(f.transport.requests.size() == 3);
  std::vector<std::string> names;
  for (const HttpRequest& request : f.transport.requests) {
    names.push_back(JsonDocument(request.body).root()["metadata"]["name"].String());
  }
  CHECK(names[0] != names[1]);
  CHECK(names[2] == std::string(236, 'n') + ".18867251edfa0002");
}

TEST_CASE("an event about a cluster-scoped object goes to the default namespace") {
  Fixture f;
  f.Record("m", {"kueue.x-k8s.io/v1beta2", "ClusterQueue", "", "cq", "uid-2"});
  CHECK(f.transport.next().path == "/apis/events.k8s.io/v1/namespaces/default/events");
  CHECK_FALSE(f.Body().root()["regarding"]["namespace"].present());
}

TEST_CASE("a long message is cut between characters") {
  Fixture f;
  f.Record(std::string(1024, 'x'));
  CHECK(f.Body().root()["note"].String() == std::string(1024, 'x'));
  f.Answer(201);
  f.Record(std::string(1025, 'x'));
  CHECK(f.Body().root()["note"].String() == std::string(1020, 'x') + " ...");
  f.Answer(201);
  std::string text(1019, 'x');
  for (int i = 0; i < 10; ++i) text += "\xc3\xa9";
  f.Record(text);
  CHECK(f.Body().root()["note"].String() == std::string(1019, 'x') + " ...");
}

TEST_CASE("equal events become one series: the second at once, later ones every ten seconds") {
  Fixture f;
  f.Record();
  f.Answer(201);
  f.executor.RunFor(seconds(1));
  f.Record();
  REQUIRE(f.transport.pending() == 1);
  CHECK(f.transport.next().method == Method::kPatch);
  CHECK(f.transport.next().content_type == "application/merge-patch+json");
  CHECK(f.transport.next().path == "/apis/events.k8s.io/v1/namespaces/team/events/train.18867251edfa0000");
  CHECK(f.transport.next().body == R"({"series":{"count":2,"lastObservedTime":"2026-01-01T00:00:01.000000Z"}})");
  f.Answer(200);
  for (int i = 0; i < 50; ++i) {
    f.executor.RunFor(milliseconds(100));
    f.Record();
  }
  CHECK(f.transport.pending() == 0);
  f.executor.RunFor(seconds(5));
  REQUIRE(f.transport.pending() == 1);
  CHECK(f.transport.next().body == R"({"series":{"count":52,"lastObservedTime":"2026-01-01T00:00:06.000000Z"}})");
  f.Answer(200);
  f.executor.RunFor(minutes(5));
  CHECK(f.transport.pending() == 0);  // at rest nothing is written
  CHECK(f.dropped == 0);
}

TEST_CASE("repetitions before the first is on the server follow it") {
  Fixture f;
  f.Record();
  f.Record();
  f.Record();
  REQUIRE(f.transport.pending() == 1);
  f.Answer(201);
  REQUIRE(f.transport.pending() == 1);
  CHECK(JsonDocument(f.transport.next().body).root()["series"]["count"].Int() == 3);
}

TEST_CASE("a series ends when nothing is heard for six minutes") {
  Fixture f;
  f.Record();
  f.Answer(201);
  f.executor.RunFor(minutes(5));
  f.Record();
  CHECK(f.transport.next().method == Method::kPatch);
  f.Answer(200);
  f.executor.RunFor(minutes(6));
  f.Record();
  CHECK(f.transport.next().method == Method::kPost);
}

TEST_CASE("what differs in anything is another event") {
  Fixture f;
  f.Record("m");
  f.Record("other message");
  f.Record("m", {"batch/v1", "Job", "team", "train", "uid-2"});
  f.recorder->Record(kJob, "batch/job-kueue-controller", "Warning", "Started", "Start", "m");
  f.recorder->Record(kJob, "batch/job-kueue-controller", "Normal", "Stopped", "Start", "m");
  f.recorder->Record(kJob, "other", "Normal", "Started", "Start", "m");
  CHECK(f.transport.requests.size() == 6);
}

TEST_CASE("one object may have 25 different events, and one more every five minutes") {
  Fixture f;
  for (int i = 0; i < 40; ++i) f.Record(std::to_string(i));
  CHECK(f.dropped == 15);
  f.Record("m", {"batch/v1", "Job", "team", "other", "uid-9"});
  CHECK(f.dropped == 15);
  f.executor.RunFor(minutes(11));
  for (int i = 40; i < 45; ++i) f.Record(std::to_string(i));
  CHECK(f.dropped == 18);
}

TEST_CASE("what waits is bounded, and the rest is dropped and counted") {
  Fixture f(10);
  for (int i = 0; i < 30; ++i) f.Record("m", {"batch/v1", "Job", "team", std::to_string(i), std::to_string(i)});
  CHECK(f.dropped == 20);
  while (f.transport.pending() > 0) f.Answer(201);
  f.Record("m", {"batch/v1", "Job", "team", "late", "late"});
  CHECK(f.dropped == 20);
}

TEST_CASE("a create of unknown outcome is repeated under its name, and 409 is success") {
  Fixture f;
  f.Record();
  f.transport.Fail(true, "reset");
  f.executor.RunReady();
  CHECK(f.transport.pending() == 0);
  f.executor.RunFor(seconds(10));
  REQUIRE(f.transport.requests.size() == 2);
  CHECK(f.transport.requests[0].body == f.transport.requests[1].body);
  f.Answer(409);
  f.Record();
  REQUIRE(f.transport.pending() == 1);
  CHECK(f.transport.next().method == Method::kPatch);
  CHECK(f.dropped == 0);
}

TEST_CASE("a create is given up when refused, or after three tries") {
  Fixture f;
  f.Record();
  f.Answer(403);
  CHECK(f.dropped == 1);
  f.Record();
  for (int i = 0; i < 3; ++i) {
    f.executor.RunFor(seconds(10));
    REQUIRE(f.transport.pending() == 1);
    CHECK(f.transport.next().method == Method::kPost);
    f.Answer(503);
  }
  f.executor.RunFor(minutes(1));
  CHECK(f.transport.pending() == 0);
  CHECK(f.dropped == 2);
}

TEST_CASE("a count that is refused waits for the next repetition; an expired event begins anew") {
  Fixture f;
  f.Record();
  f.Answer(201);
  f.Record();
  f.Answer(500);
  f.executor.RunFor(minutes(1));
  CHECK(f.transport.pending() == 0);
  f.Record();
  REQUIRE(f.transport.pending() == 1);
  CHECK(JsonDocument(f.transport.next().body).root()["series"]["count"].Int() == 3);
  f.Answer(404);
  f.executor.RunFor(minutes(1));
  f.Record();
  CHECK(f.transport.next().method == Method::kPost);
}

}  // namespace
}  // namespace muster::k8s
