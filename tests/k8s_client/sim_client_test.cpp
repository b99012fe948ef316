// Writes and reads against a server that is struck by each fault in turn, and by all of them at random.
#include <catch2/catch.hpp>

#include "muster/k8s_client/resources.h"
#include "sim_world.h"

namespace muster::k8s {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using Fault = sim::Fault;

struct Fixture : SimWorld {
  explicit Fixture(uint64_t seed = 1) : SimWorld(seed), process(&executor, &server, "muster") {}

  // Sends one patch that sets the value, and waits for its end.
  Result Patch(const std::string& name, int64_t value) {
    Result result;
    bool done = false;
    process.client->Patch(Lane::kStart, kWorkloads, {"p", name}, "", PatchType::kMergePatch,
                          absl::StrCat(R"({"spec":{"value":)", value, "}}"), [&](Result r) {
                            result = std::move(r);
                            done = true;
                          });
    REQUIRE(executor.RunUntil([&] { return done; }, minutes(1)));
    return result;
  }
  int64_t Stored(const std::string& name) const {
    const sim::JsonPtr object = store.Peek(store.FindKind("kueue.x-k8s.io", "workloads"), "p", name);
    return object == nullptr ? -1 : sim::Number(sim::At(*object, "spec", "value"));
  }

  SimProcess process;
};

TEST_CASE("the outcome of a write is true under each fault") {
  struct Case {
    const char* name;
    Fault fault;
    Outcome outcome;
    int code;
    bool applied;
  };
  const auto fault = [](Fault::Kind kind, int status = 500, Duration delay = {}) {
    Fault f;
    f.kind = kind;
    f.status = status;
    f.delay = delay;
    return f;
  };
  const Case cases[] = {
      {"refused", fault(Fault::Kind::kRefuse), Outcome::kNotSent, 0, false},
      {"late request", fault(Fault::Kind::kDelayRequest, 0, seconds(2)), Outcome::kDone, 200, true},
      {"request past its limit", fault(Fault::Kind::kDelayRequest, 0, seconds(5)), Outcome::kUnknown, 504, false},
      {"late answer", fault(Fault::Kind::kDelayAnswer, 0, seconds(2)), Outcome::kDone, 200, true},
      {"answer past our patience", fault(Fault::Kind::kDelayAnswer, 0, seconds(20)), Outcome::kUnknown, 0, true},
      {"409", fault(Fault::Kind::kAnswer, 409), Outcome::kRefused, 409, false},
      {"429", fault(Fault::Kind::kAnswer, 429), Outcome::kRefused, 429, false},
      {"500", fault(Fault::Kind::kAnswer, 500), Outcome::kUnknown, 500, false},
      {"500 after it was applied", fault(Fault::Kind::kApplyAndAnswer, 500), Outcome::kUnknown, 500, true},
      {"504 after it was applied", fault(Fault::Kind::kApplyAndAnswer, 504), Outcome::kUnknown, 504, true},
      {"lost request", fault(Fault::Kind::kLoseRequest), Outcome::kUnknown, 0, false},
      {"lost answer", fault(Fault::Kind::kLoseAnswer), Outcome::kUnknown, 0, true},
      {"no answer", fault(Fault::Kind::kHang), Outcome::kUnknown, 0, true},
  };
  for (const Case& c : cases) {
    INFO(c.name);
    Fixture f;
    f.Put("w", 1);
    sim::FaultRule rule;
    rule.verbs = {"patch"};
    rule.fault = c.fault;
    f.server.faults().Add(rule);
    const Result result = f.Patch("w", 2);
    CHECK(result.outcome == c.outcome);
    CHECK(result.code == c.code);
    CHECK(f.Stored("w") == (c.applied ? 2 : 1));
    // Nothing arrives later.
    f.executor.RunFor(minutes(2));
    CHECK(f.Stored("w") == (c.applied ? 2 : 1));
    CHECK(f.Patch("w", 3).ok());
  }
}

TEST_CASE("Retry-After reaches the caller of a write, and is kept by a read") {
  Fixture f;
  f.Put("w", 1);
  sim::FaultRule rule;
  rule.fault.kind = Fault::Kind::kAnswer;
  rule.fault.status = 429;
  rule.fault.retry_after = seconds(7);
  rule.times = 2;
  f.server.faults().Add(rule);
  const Result write = f.Patch("w", 2);
  CHECK(write.outcome == Outcome::kRefused);
  CHECK(write.retry_after == Duration(seconds(7)));

  Result read;
  f.process.client->Get(kWorkloads, {"p", "w"}, [&](Result r) { read = std::move(r); });
  const MonoTime start = f.executor.Mono();
  REQUIRE(f.executor.RunUntil([&] { return read.ok(); }, minutes(1)));
  CHECK(f.executor.Mono() - start >= seconds(7));
}

TEST_CASE("what the server refuses comes with its reason") {
  Fixture f;
  f.Put("w", 1);
  Result result;
  const auto keep = [&](Result r) { result = std::move(r); };
  f.process.client->Create(Lane::kWorkload, kWorkloads, "p", sim::Dump(SimWorld::Body("w", 5)), keep);
  f.executor.RunFor(seconds(1));
  CHECK(result.code == 409);
  CHECK(result.reason == "AlreadyExists");
  CHECK(result.message == "workloads.kueue.x-k8s.io \"w\" already exists");
  f.process.client->Patch(Lane::kStart, kWorkloads, {"p", "w"}, "", PatchType::kJsonPatch,
                          R"([{"op":"test","path":"/spec/value","value":9}])", keep);
  f.executor.RunFor(seconds(1));
  CHECK(result.code == 422);
  CHECK(result.outcome == Outcome::kRefused);
  f.process.client->Patch(Lane::kStart, kWorkloads, {"p", "w"}, "", PatchType::kMergePatch,
                          R"({"metadata":{"resourceVersion":"1"},"spec":{"value":9}})", keep);
  f.executor.RunFor(seconds(1));
  CHECK(result.code == 409);
  CHECK(result.reason == "Conflict");
  f.process.client->Delete(Lane::kStart, kWorkloads, {"p", "w"}, "another-uid", "Background", keep);
  f.executor.RunFor(seconds(1));
  CHECK(result.code == 409);
  f.process.client->Delete(Lane::kStart, kWorkloads, {"p", "nope"}, "", "", keep);
  f.executor.RunFor(seconds(1));
  CHECK(result.code == 404);
  CHECK(result.reason == "NotFound");
  CHECK(f.Stored("w") == 1);
}

TEST_CASE("under faults at random, no write says what is not so", "[property]") {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    INFO("seed " << seed);
    Fixture f(seed);
    sim::RandomFaults rates;
    rates.write_permille = 500;
    f.server.faults().SetRandom(f.executor.NewRandom("faults"), rates);
    int64_t expected = 0;
    f.Put("w", expected);
    for (int64_t value = 1; value <= 30; ++value) {
      const Result result = f.Patch("w", value);
      const bool applied = f.Stored("w") == value;
      INFO("value " << value << " outcome " << static_cast<int>(result.outcome) << " code " << result.code);
      switch (result.outcome) {
        case Outcome::kDone:
          CHECK(applied);
          break;
        case Outcome::kRefused:
        case Outcome::kNotSent:
          CHECK_FALSE(applied);
          break;
        case Outcome::kUnknown:
          break;
      }
    }
    CHECK(f.server.faults().random_hits() > 0);
  }
}

}  // namespace
}  // namespace muster::k8s
