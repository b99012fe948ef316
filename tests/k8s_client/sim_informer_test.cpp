// The informer on a server whose objects change at random while watches are cut, compacted, garbled and
// stalled: in the end its cache is the store, and on the way it never goes back.
#include <catch2/catch.hpp>
#include <map>

#include "muster/k8s_client/informer.h"
#include "muster/k8s_client/resources.h"
#include "sim_world.h"

namespace muster::k8s {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using Fault = sim::Fault;

struct Fixture : SimWorld {
  explicit Fixture(uint64_t seed, sim::ServerOptions options = {}, InformerOptions informer_options = {})
      : SimWorld(seed, options), process(&executor, &server, "muster"), chance(executor.NewRandom("test")) {
    Informer<Thing>::Handler handler;
    handler.upserted = [this](const Informer<Thing>::Ptr& object, const Informer<Thing>::Ptr& previous) {
      const auto told_before = told.find(object->meta.name);
      CHECK((told_before != told.end()) == (previous != nullptr));
      if (previous != nullptr) CHECK(told_before->second == previous);
      told[object->meta.name] = object;
      // Of one object, only ever newer states.
      const int64_t version = std::stoll(object->meta.resource_version);
      int64_t& newest = newest_of[object->meta.uid];
      CHECK(version > newest);
      newest = version;
    };
    handler.deleted = [this](const Informer<Thing>::Ptr& last) {
      CHECK(told.erase(last->meta.name) == 1);
      newest_of[last->meta.uid] = INT64_MAX;  // and never again
    };
    handler.undecodable = [](const k8s::ObjectMeta&, const absl::Status& status) { FAIL(status.ToString()); };
    informer = std::make_unique<Informer<Thing>>(process.env, process.client.get(), kWorkloads, informer_options,
                                                 Thing::Decode, handler);
  }

  // "name=uid/version/value " of every object.
  std::string Stored() const {
    std::string out;
    for (const sim::JsonPtr& object : store.PeekAll(store.FindKind("kueue.x-k8s.io", "workloads"))) {
      const sim::Json& meta = sim::At(*object, "metadata");
      absl::StrAppend(&out, sim::Text(sim::Get(meta, "name")), "=", sim::Text(sim::Get(meta, "uid")), "/",
                      sim::Text(sim::Get(meta, "resourceVersion")), "/", sim::Number(sim::At(*object, "spec", "value")),
                      " ");
    }
    return out;
  }
  std::string Cached() const {
    std::string out;
    for (const auto& [key, object] : informer->objects()) {
      absl::StrAppend(&out, key.name, "=", object->meta.uid, "/", object->meta.resource_version, "/", object->value,
                      " ");
    }
    return out;
  }
  void RequireAgreement() {
    REQUIRE(executor.RunUntil([&] { return informer->synced() && Cached() == Stored(); }, minutes(5)));
    // It stays so, and what the handler was told is the same.
    executor.RunFor(seconds(30));
    CHECK(Cached() == Stored());
    CHECK(told.size() == informer->objects().size());
    for (const auto& [key, object] : informer->objects()) CHECK(told[key.name] == object);
  }

  // One random change of the store, by somebody else.
  void Disturb() {
    const std::string name = absl::StrCat("w", chance.Below(3));
    if (chance.Below(3) == 0) {
      Remove(name);
    } else {
      Put(name, ++last_value);
    }
  }
  // One write of our own, whose answer the informer observes.
  void WriteOwn() {
    const std::string name = absl::StrCat("w", chance.Below(3));
    const auto observe = [this](Result result) {
      if (!result.ok()) return;
      informer->Observe(result.body);
      // From now on no older state of it may be seen.
      const auto thing = Thing::Decode(result.body);
      const auto seen = informer->Get(thing->meta.key());
      if (seen != nullptr && seen->meta.uid == thing->meta.uid) {
        CHECK(std::stoll(seen->meta.resource_version) >= std::stoll(thing->meta.resource_version));
      }
    };
    if (chance.Below(3) == 0) {
      process.client->Create(Lane::kWorkload, kWorkloads, "p", sim::Dump(Body(name, ++last_value)), observe);
    } else {
      process.client->Patch(Lane::kStart, kWorkloads, {"p", name}, "", PatchType::kMergePatch,
                            absl::StrCat(R"({"spec":{"value":)", ++last_value, "}}"), observe);
    }
  }

  SimProcess process;
  SeededRandom chance;
  int64_t last_value = 0;
  std::map<std::string, Informer<Thing>::Ptr> told;
  std::map<std::string, int64_t> newest_of;  // by uid
  std::unique_ptr<Informer<Thing>> informer;
};

TEST_CASE("a list and a watch give what the store holds") {
  InformerOptions options;
  options.page_size = 3;
  Fixture f(1, {}, options);
  for (int i = 0; i < 10; ++i) f.Put(absl::StrCat("w", i), i);
  f.informer->Start();
  f.RequireAgreement();
  CHECK(f.informer->objects().size() == 10);
  f.Put("w3", 100);
  f.Put("new", 101);
  f.Remove("w4");
  f.RequireAgreement();
  CHECK(f.informer->reflector().lists() == 1);
}

TEST_CASE("each fault of a watch is survived without losing a change") {
  for (const Fault::Kind kind :
       {Fault::Kind::kCut, Fault::Kind::kGoneInStream, Fault::Kind::kGarbage, Fault::Kind::kStall}) {
    for (const int lines : {0, 1, 3}) {
      INFO("fault " << static_cast<int>(kind) << " after " << lines << " lines");
      Fixture f(1);
      f.Put("w0", 1);
      sim::FaultRule rule;
      rule.verbs = {"watch"};
      rule.fault.kind = kind;
      rule.fault.lines = lines;
      f.server.faults().Add(rule);
      f.informer->Start();
      REQUIRE(f.executor.RunUntil([&] { return f.informer->synced() && f.server.open_watches() == 1; }, minutes(1)));
      for (int i = 0; i < 6; ++i) {
        f.Disturb();
        f.executor.RunFor(milliseconds(100));
      }
      f.RequireAgreement();
      CHECK(f.informer->reflector().watch_cuts() >= 1);
      CHECK(f.informer->reflector().lists() == (kind == Fault::Kind::kGoneInStream ? 2 : 1));
    }
  }
}

TEST_CASE("a watch from a version that was compacted away lists again, in both forms of 410") {
  for (const bool as_http : {false, true}) {
    INFO("as HTTP status: " << as_http);
    sim::ServerOptions options;
    options.gone_as_http = as_http;
    Fixture f(1, options);
    for (int i = 0; i < 5; ++i) f.Put(absl::StrCat("w", i), i);
    f.informer->Start();
    f.RequireAgreement();
    f.server.SetDown(true);
    f.Remove("w1");
    f.Put("w2", 20);
    f.Remove("w3");
    f.Put("w3", 30);  // another object under the same name
    f.Put("w9", 90);
    f.store.Compact(f.store.version());
    f.executor.RunFor(seconds(5));
    f.server.SetDown(false);
    f.RequireAgreement();
    CHECK(f.informer->reflector().lists() == 2);
  }
}

TEST_CASE("an answer of every kind to the list and the watch is only a delay") {
  for (const char* verb : {"list", "watch"}) {
    for (const int status : {400, 401, 403, 404, 409, 410, 429, 500, 503, 504}) {
      INFO(verb << " " << status);
      Fixture f(1);
      f.Put("w0", 1);
      sim::FaultRule rule;
      rule.verbs = {verb};
      rule.times = 3;
      rule.fault.kind = Fault::Kind::kAnswer;
      rule.fault.status = status;
      f.server.faults().Add(rule);
      f.informer->Start();
      f.executor.RunFor(milliseconds(500));
      f.Disturb();
      f.RequireAgreement();
      CHECK(f.informer->reflector().problem().empty());
    }
  }
}

TEST_CASE("whatever happens, the cache ends equal to the store and never goes back", "[property]") {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    INFO("seed " << seed);
    sim::ServerOptions options;
    options.gone_as_http = seed % 2 == 0;
    options.watch.max = seed % 3 == 0 ? Duration(seconds(2)) : Duration(milliseconds(4));
    InformerOptions informer_options;
    informer_options.page_size = static_cast<int>(1 + seed % 4);
    Fixture f(seed, options, informer_options);
    sim::RandomFaults rates;
    rates.write_permille = 300;
    rates.read_permille = 200;
    rates.watch_line_permille = 50;
    f.server.faults().SetRandom(f.executor.NewRandom("faults"), rates);
    f.informer->Start();
    for (int i = 0; i < 200; ++i) {
      switch (f.chance.Below(20)) {
        case 0:
          f.store.Compact(f.store.version());
          break;
        case 1:
          f.informer->Relist([] {});
          break;
        case 2:
          f.process.source->SetPaused(true);
          break;
        case 3:
        case 4:
          f.process.source->SetPaused(false);
          break;
        case 5:
          f.executor.RunFor(seconds(static_cast<int64_t>(f.chance.Below(40))));
          break;
        case 6:
        case 7:
        case 8:
        case 9:
          f.WriteOwn();
          break;
        default:
          f.Disturb();
      }
      if (f.chance.Below(2) == 0) f.executor.RunFor(milliseconds(static_cast<int64_t>(f.chance.Below(50))));
    }
    f.process.source->SetPaused(false);
    f.server.faults().ClearRandom();
    f.RequireAgreement();
  }
}

TEST_CASE("a relist shows every write that was finished before it was asked for") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    sim::ServerOptions options;
    options.watch.max = seconds(3);
    Fixture f(seed, options);
    f.informer->Start();
    f.RequireAgreement();
    for (int round = 0; round < 10; ++round) {
      f.Disturb();
      f.Disturb();
      const std::string wanted = f.Stored();
      bool done = false;
      std::string seen;
      f.informer->Relist([&] {
        seen = f.Cached();
        done = true;
      });
      REQUIRE(f.executor.RunUntil([&] { return done; }, minutes(1)));
      CHECK(seen == wanted);
    }
  }
}

}  // namespace
}  // namespace muster::k8s
