#include "muster/k8s_client/lease.h"

#include <catch2/catch.hpp>

#include "muster/k8s_client/json_reader.h"
#include "muster/sim/executor.h"
#include "scripted_transport.h"

namespace muster::k8s {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr char kPath[] = "/apis/coordination.k8s.io/v1/namespaces/muster-system/leases/c1f6bfd2.kueue.x-k8s.io";

std::string Lease(const std::string& holder, int version, int transitions = 4, int duration = 15,
                  const std::string& renewed = "2026-01-01T00:00:00.000000Z") {
  return absl::StrCat(
      R"({"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"c1f6bfd2.kueue.x-k8s.io",)",
      R"("namespace":"muster-system","labels":{"theirs":"kept"},"resourceVersion":")", version,
      R"("},"spec":{"holderIdentity":")", holder, R"(","leaseDurationSeconds":)", duration,
      R"(,"acquireTime":"2026-01-01T00:00:00.000000Z","renewTime":")", renewed, R"(","leaseTransitions":)", transitions,
      "}}");
}

struct Fixture {
  Fixture() {
    LeaderElector::Callbacks callbacks;
    callbacks.started_leading = [this](uint64_t term) { absl::StrAppend(&log, "started ", term, "; "); };
    callbacks.stopped_leading = [this] { log += "stopped; "; };
    callbacks.new_leader = [this](const std::string& who) { log += "leader " + who + "; "; };
    LeaseOptions options;
    options.identity = "me";
    elector = std::make_unique<LeaderElector>(executor.env(), &client, options, callbacks);
  }
  void Run() { executor.RunReady(); }
  std::string Take() { return std::exchange(log, ""); }
  // RETURNS: how long until the next request leaves.
  Duration UntilCall(Duration limit = seconds(60)) {
    const MonoTime start = executor.Mono();
    REQUIRE(executor.RunUntil([this] { return transport.pending() > 0; }, limit));
    return executor.Mono() - start;
  }
  // The request that waits for its answer must be this.
  JsonDocument& Expect(Method method) {
    REQUIRE(transport.pending() == 1);
    CHECK(transport.next().method == method);
    CHECK(transport.next().path == (method == Method::kPost ? std::string(kPath, sizeof(kPath) - 25) : kPath));
    body = std::make_unique<JsonDocument>(method == Method::kGet ? "{}" : transport.next().body);
    return *body;
  }
  void Answer(int status, const std::string& text) {
    transport.Answer(status, text);
    Run();
  }
  // Leads with version 2, renewed at this moment.
  void Lead() {
    elector->Start();
    Run();
    Expect(Method::kGet);
    Answer(200, Lease("", 1));
    Expect(Method::kPut);
    Answer(200, Lease("me", 2, 5));
    REQUIRE(elector->leading());
    Take();
  }

  sim::SimExecutor executor{1};
  ScriptedTransport transport{&executor};
  Client client{executor.env(), &transport, {}};
  std::string log;
  std::unique_ptr<JsonDocument> body;
  std::unique_ptr<LeaderElector> elector;
};

TEST_CASE("a lease that does not exist is created, and the first term begins") {
  Fixture f;
  f.elector->Start();
  f.Run();
  f.Expect(Method::kGet);
  CHECK(f.transport.next().query.empty());  // no resourceVersion: a quorum read
  f.transport.AnswerStatus(404, "NotFound", "no lease");
  f.Run();
  const JsonValue lease = f.Expect(Method::kPost).root();
  CHECK(lease["apiVersion"].String() == "coordination.k8s.io/v1");
  CHECK(lease["kind"].String() == "Lease");
  CHECK(lease["metadata"]["name"].String() == "c1f6bfd2.kueue.x-k8s.io");
  CHECK(lease["metadata"]["namespace"].String() == "muster-system");
  CHECK(lease["spec"]["holderIdentity"].String() == "me");
  CHECK(lease["spec"]["leaseDurationSeconds"].Int() == 15);
  CHECK(lease["spec"]["leaseTransitions"].Int(-1) == 0);
  CHECK(lease["spec"]["acquireTime"].String() == "2026-01-01T00:00:00.000000Z");
  CHECK(lease["spec"]["renewTime"].String() == "2026-01-01T00:00:00.000000Z");
  CHECK_FALSE(f.elector->leading());
  CHECK(f.elector->term() == 0);
  f.Answer(201, Lease("me", 1, 0));
  CHECK(f.Take() == "started 1; leader me; ");
  CHECK(f.elector->leading());
  CHECK(f.elector->MayWrite());
  CHECK(f.elector->term() == 1);
}

TEST_CASE("an empty holder is taken over at once, with one transition more") {
  Fixture f;
  f.elector->Start();
  f.Run();
  f.Answer(200, Lease("", 7));
  const JsonValue lease = f.Expect(Method::kPut).root();
  CHECK(lease["metadata"]["resourceVersion"].String() == "7");
  CHECK(lease["metadata"]["labels"]["theirs"].String() == "kept");
  CHECK(lease["spec"]["leaseTransitions"].Int() == 5);
  f.Answer(200, Lease("me", 8, 5));
  CHECK(f.elector->term() == 6);
}

TEST_CASE("another's lease is taken over only after it stood unchanged for its duration on our clock") {
  Fixture f;
  f.elector->Start();
  f.Run();
  // Its renewTime is long past: remote clocks do not count.
  f.Answer(200, Lease("other", 7, 4, 15, "2020-01-01T00:00:00.000000Z"));
  CHECK(f.Take() == "leader other; ");
  const MonoTime seen = f.executor.Mono();
  int looks = 0;
  for (;;) {
    const Duration waited = f.UntilCall();
    CHECK(waited >= seconds(2));  // 2 s × [1, 2.2]
    CHECK(waited <= milliseconds(4400));
    f.Expect(Method::kGet);
    f.Answer(200, Lease("other", 7, 4, 15, "2020-01-01T00:00:00.000000Z"));
    ++looks;
    if (f.transport.pending() == 1) break;
    REQUIRE(f.executor.Mono() - seen < seconds(20));
  }
  CHECK(f.executor.Mono() - seen >= seconds(15));
  CHECK(looks >= 4);
  CHECK(f.Expect(Method::kPut).root()["spec"]["leaseTransitions"].Int() == 5);
  f.Answer(200, Lease("me", 8, 5));
  CHECK(f.Take() == "started 6; leader me; ");
}

TEST_CASE("a renewal by the other starts the wait again") {
  Fixture f;
  f.elector->Start();
  f.Run();
  int second = 0;
  // A minute of renewals.
  while (f.executor.Mono() < MonoTime{} + seconds(60)) {
    f.Expect(Method::kGet);
    ++second;
    f.Answer(200, Lease("other", second, 4, 15, absl::StrCat("2026-01-01T00:00:", 10 + second, ".000000Z")));
    REQUIRE(f.transport.pending() == 0);
    f.UntilCall();
  }
  CHECK(f.Take() == "leader other; ");
}

TEST_CASE("a released lease is valid for its one second only") {
  Fixture f;
  f.elector->Start();
  f.Run();
  f.Answer(200, Lease("other", 7, 4, 1));
  f.UntilCall();
  f.Answer(200, Lease("other", 7, 4, 1));
  f.Expect(Method::kPut);
}

TEST_CASE("a lost race leaves the other leading") {
  Fixture f;
  f.elector->Start();
  f.Run();
  f.Answer(200, Lease("", 7));
  f.transport.AnswerStatus(409, "Conflict", "changed");
  f.Run();
  CHECK_FALSE(f.elector->leading());
  f.UntilCall();
  f.Expect(Method::kGet);
  f.Answer(200, Lease("other", 8, 5));
  CHECK(f.Take() == "leader other; ");
  CHECK(f.transport.pending() == 0);
}

TEST_CASE("a take-over whose answer was lost is found and kept") {
  Fixture f;
  f.elector->Start();
  f.Run();
  f.Answer(200, Lease("", 7));
  f.transport.Fail(true, "connection reset");
  f.Run();
  f.UntilCall();
  f.Expect(Method::kGet);
  f.Answer(200, Lease("me", 8, 5));
  CHECK(f.Expect(Method::kPut).root()["spec"]["leaseTransitions"].Int() == 5);
  f.Answer(200, Lease("me", 9, 5));
  CHECK(f.Take() == "started 6; leader me; ");
}

TEST_CASE("a leader renews every two seconds, without reading first") {
  Fixture f;
  f.Lead();
  for (int version = 2; version < 12; ++version) {
    CHECK(f.UntilCall() == seconds(2));
    const JsonValue lease = f.Expect(Method::kPut).root();
    CHECK(lease["metadata"]["resourceVersion"].String() == std::to_string(version));
    CHECK(lease["spec"]["leaseTransitions"].Int() == 5);
    CHECK(lease["spec"]["acquireTime"].String() == "2026-01-01T00:00:00.000000Z");
    CHECK(lease["spec"]["renewTime"].String() == FormatMicroTime(f.executor.Now()));
    f.Answer(200, Lease("me", version + 1, 5));
  }
  CHECK(f.elector->leading());
  CHECK(f.elector->term() == 6);
  CHECK(f.Take().empty());
}

TEST_CASE("a leader whose renewal conflicts reads the lease, and goes on if it still is its own") {
  Fixture f;
  f.Lead();
  f.UntilCall();
  f.transport.AnswerStatus(409, "Conflict", "somebody set a label");
  f.Run();
  f.Expect(Method::kGet);
  f.Answer(200, Lease("me", 9, 5));
  CHECK(f.Expect(Method::kPut).root()["metadata"]["resourceVersion"].String() == "9");
  f.Answer(200, Lease("me", 10, 5));
  CHECK(f.elector->leading());
  CHECK(f.UntilCall() == seconds(2));
}

TEST_CASE("a leader that finds another's name stops at once") {
  for (const std::string holder : {"other", ""}) {
    Fixture f;
    f.Lead();
    f.UntilCall();
    f.transport.AnswerStatus(409, "Conflict", "changed");
    f.Run();
    f.Answer(200, Lease(holder, 9, 6));
    CHECK_FALSE(f.elector->leading());
    CHECK_FALSE(f.elector->MayWrite());
    CHECK(f.Take() == (holder.empty() ? "stopped; " : "leader other; stopped; "));
    f.executor.RunFor(seconds(60));
    CHECK(f.transport.pending() == 0);
  }
}

TEST_CASE("writing ends ten seconds after the last renewal was sent, leading two seconds later") {
  Fixture f;
  f.Lead();
  CHECK(f.UntilCall() == seconds(2));
  // The answer takes a second: what counts is when the renewal left.
  f.executor.RunFor(seconds(1));
  f.Answer(200, Lease("me", 3, 5));
  const MonoTime sent = f.executor.Mono() + -seconds(1);
  // From here on nothing answers. The renewal and then the read time out after five seconds each.
  const auto at = [&](Duration d) { f.executor.RunFor(sent + d - f.executor.Mono()); };
  at(milliseconds(9999));
  CHECK(f.elector->MayWrite());
  at(seconds(10));
  CHECK_FALSE(f.elector->MayWrite());
  CHECK(f.elector->leading());
  // The cycle that does not succeed began two seconds after the answer.
  at(milliseconds(12'999));
  CHECK(f.elector->leading());
  at(seconds(13));
  CHECK_FALSE(f.elector->leading());
  CHECK(f.Take() == "stopped; ");
  // A late answer does not revive it.
  f.Answer(200, Lease("me", 4, 5));
  f.executor.RunFor(seconds(60));
  CHECK_FALSE(f.elector->leading());
  CHECK(f.transport.pending() == 0);
}

TEST_CASE("a leader tries every two seconds while renewing fails, and goes on when it succeeds") {
  Fixture f;
  f.Lead();
  f.UntilCall();
  for (int i = 0; i < 4; ++i) {
    f.transport.AnswerStatus(500, "InternalError", "etcd");
    f.Run();
    f.Expect(Method::kGet);
    f.transport.AnswerStatus(500, "InternalError", "etcd");
    f.Run();
    CHECK(f.UntilCall() == seconds(2));
  }
  CHECK(f.elector->MayWrite() == false);  // 2 + 4 × 2 s since the last one was sent
  f.Answer(200, Lease("me", 3, 5));
  CHECK(f.elector->MayWrite());
  CHECK(f.Take().empty());
}

TEST_CASE("a lease that was deleted under its leader is made again, in the same term") {
  Fixture f;
  f.Lead();
  f.UntilCall();
  f.transport.AnswerStatus(404, "NotFound", "gone");
  f.Run();
  f.transport.AnswerStatus(404, "NotFound", "gone");
  f.Run();
  CHECK(f.Expect(Method::kPost).root()["spec"]["leaseTransitions"].Int() == 5);
  f.Answer(201, Lease("me", 20, 5));
  CHECK(f.elector->leading());
  CHECK(f.elector->term() == 6);
}

TEST_CASE("a clean stop empties the holder and shortens the lease") {
  Fixture f;
  f.Lead();
  int released = 0;
  f.elector->Release([&] { ++released; });
  CHECK_FALSE(f.elector->leading());
  CHECK_FALSE(f.elector->MayWrite());
  const JsonValue lease = f.Expect(Method::kPut).root();
  CHECK(lease["spec"]["holderIdentity"].String("absent").empty());
  CHECK(lease["spec"]["leaseDurationSeconds"].Int() == 1);
  CHECK(lease["spec"]["leaseTransitions"].Int() == 5);
  CHECK(released == 0);
  f.Answer(200, Lease("", 3, 5, 1));
  CHECK(released == 1);
  CHECK(f.Take().empty());
  f.executor.RunFor(seconds(60));
  CHECK(f.transport.pending() == 0);
}

TEST_CASE("a release waits for the renewal under way, and looks once more if it conflicts") {
  Fixture f;
  f.Lead();
  f.UntilCall();
  int released = 0;
  f.elector->Release([&] { ++released; });
  REQUIRE(f.transport.pending() == 1);
  f.Answer(200, Lease("me", 3, 5));
  CHECK(f.Expect(Method::kPut).root()["metadata"]["resourceVersion"].String() == "3");
  f.transport.AnswerStatus(409, "Conflict", "changed");
  f.Run();
  f.Expect(Method::kGet);
  f.Answer(200, Lease("me", 4, 5));
  f.Expect(Method::kPut);
  f.transport.Fail(true, "reset");
  f.Run();
  CHECK(released == 1);
}

TEST_CASE("a release that finds another holder, or that does not lead, writes nothing") {
  Fixture f;
  int released = 0;
  f.elector->Release([&] { ++released; });
  f.Run();
  CHECK(released == 1);
  CHECK(f.transport.pending() == 0);

  Fixture g;
  g.Lead();
  g.elector->Release([&] { ++released; });
  g.transport.AnswerStatus(409, "Conflict", "changed");
  g.Run();
  g.Answer(200, Lease("other", 9, 6));
  CHECK(released == 2);
  CHECK(g.transport.pending() == 0);
}

TEST_CASE("a process that was paused wakes unable to write") {
  sim::SimExecutor executor(1);
  const auto source = executor.NewSource("process");
  ScriptedTransport transport(source.get());
  Environment env = executor.env();
  env.executor = source.get();
  Client client(env, &transport, {});
  LeaseOptions options;
  options.identity = "me";
  bool stopped = false;
  LeaderElector::Callbacks callbacks;
  callbacks.stopped_leading = [&] { stopped = true; };
  LeaderElector elector(env, &client, options, callbacks);
  client.SetWriteGate([&] { return elector.MayWrite(); });
  elector.Start();
  executor.RunReady();
  transport.Answer(200, Lease("", 1));
  executor.RunReady();
  transport.Answer(200, Lease("me", 2, 5));
  executor.RunReady();
  REQUIRE(elector.MayWrite());

  source->SetPaused(true);
  executor.RunFor(seconds(30));
  // On waking, before any timer of its own has run.
  CHECK_FALSE(elector.MayWrite());
  CHECK(elector.leading());
  Result result;
  result.outcome = Outcome::kDone;
  client.Patch(Lane::kStart, Resource{"batch", "v1", "jobs", "Job", true}, {"a", "j"}, "", PatchType::kJsonPatch, "[]",
               [&](Result r) { result = std::move(r); });
  source->SetPaused(false);
  executor.RunReady();
  CHECK(result.outcome == Outcome::kNotSent);
  // It looks before it renews, since its lease is no longer valid on its own clock.
  REQUIRE(transport.pending() == 1);
  CHECK(transport.next().method == Method::kGet);
  transport.Answer(200, Lease("other", 9, 6));
  executor.RunReady();
  CHECK(stopped);
}

TEST_CASE("a leader that does not renew for 35 seconds is unhealthy") {
  // A leader stops long before; this is for one whose own timers do not run.
  sim::SimExecutor executor(1);
  const auto source = executor.NewSource("process");
  ScriptedTransport transport(source.get());
  Environment env = executor.env();
  env.executor = source.get();
  Client client(env, &transport, {});
  LeaseOptions options;
  options.identity = "me";
  LeaderElector elector(env, &client, options, {});
  CHECK(elector.healthy());
  elector.Start();
  executor.RunReady();
  transport.Answer(200, Lease("", 1));
  executor.RunReady();
  transport.Answer(200, Lease("me", 2, 5));
  executor.RunReady();
  source->SetPaused(true);
  executor.RunFor(seconds(35));
  CHECK(elector.healthy());
  executor.RunFor(seconds(1));
  CHECK_FALSE(elector.healthy());
}

}  // namespace
}  // namespace muster::k8s
