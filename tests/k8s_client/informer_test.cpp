#include "muster/k8s_client/informer.h"

#include <catch2/catch.hpp>

#include "muster/k8s_client/resources.h"
#include "muster/sim/executor.h"
#include "scripted_transport.h"

namespace muster::k8s {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

struct Thing {
  ObjectMeta meta;
  int64_t value = 0;
};

absl::StatusOr<Thing> DecodeThing(std::string_view json) {
  JsonDocument document(json);
  Thing thing;
  thing.meta = DecodeMeta(document.root());
  thing.value = document.root()["value"].Int();
  if (auto status = document.Finish("Thing " + thing.meta.key().ToString()); !status.ok()) return status;
  return thing;
}

// A thing named `name` in namespace a, whose uid is the name plus `generation`.
std::string Json(const std::string& name, int version, const std::string& value, int generation = 1) {
  return absl::StrCat(R"({"metadata":{"namespace":"a","name":")", name, R"(","uid":")", name, generation,
                      R"(","resourceVersion":")", version, R"("},"value":)", value, "}");
}
std::string Event(const std::string& type, const std::string& object) {
  return absl::StrCat(R"({"type":")", type, R"(","object":)", object, "}");
}
std::string Bookmark(int version) {
  return Event("BOOKMARK", absl::StrCat(R"({"metadata":{"resourceVersion":")", version, R"("}})"));
}
std::string Page(int version, const std::vector<std::string>& items, const std::string& next = "") {
  std::string body =
      absl::StrCat(R"({"metadata":{"resourceVersion":")", version, R"(","continue":")", next, R"("},"items":[)");
  for (size_t i = 0; i < items.size(); ++i) absl::StrAppend(&body, i == 0 ? "" : ",", items[i]);
  return body + "]}";
}

struct Fixture {
  explicit Fixture(InformerOptions options = {}) {
    Informer<Thing>::Handler handler;
    handler.upserted = [this](const Informer<Thing>::Ptr& object, const Informer<Thing>::Ptr& previous) {
      absl::StrAppend(&log, previous ? "~" : "+", object->meta.name, "=", object->value, " ");
    };
    handler.deleted = [this](const Informer<Thing>::Ptr& last) {
      absl::StrAppend(&log, "-", last->meta.name, "=", last->value, " ");
    };
    handler.undecodable = [this](const k8s::ObjectMeta&, const absl::Status& status) {
      errors.emplace_back(status.message());
    };
    informer = std::make_unique<Informer<Thing>>(executor.env(), &client, kJobs, options, DecodeThing, handler);
  }
  // Listed at `version`, and watching.
  void Sync(int version, const std::vector<std::string>& items) {
    informer->Start();
    Run();
    transport.Answer(200, Page(version, items));
    Run();
    REQUIRE(transport.watching());
    transport.Open();
    Run();
    Take();
  }
  void Run() { executor.RunReady(); }
  void Line(const std::string& line) {
    transport.Line(line);
    Run();
  }
  // What the handler was told since the last call.
  std::string Take() { return std::exchange(log, ""); }
  // Every object with its value.
  std::string Cache() const {
    std::string out;
    for (const auto& [key, object] : informer->objects()) absl::StrAppend(&out, key.name, "=", object->value, " ");
    return out;
  }
  // RETURNS: how long it takes until `predicate` holds, up to two minutes.
  template <typename P>
  Duration Until(P predicate) {
    const MonoTime start = executor.Mono();
    REQUIRE(executor.RunUntil(predicate, minutes(2)));
    return executor.Mono() - start;
  }
  Duration UntilCall() {
    return Until([this] { return transport.pending() == 1; });
  }
  Duration UntilWatch() {
    return Until([this] { return transport.watching(); });
  }
  bool Resumes(int version) const {
    return transport.watches.back()->request.query.find(absl::StrCat("&resourceVersion=", version, "&")) !=
           std::string::npos;
  }

  sim::SimExecutor executor{1};
  ScriptedTransport transport{&executor};
  Client client{executor.env(), &transport, {}};
  std::string log;
  std::vector<std::string> errors;
  std::unique_ptr<Informer<Thing>> informer;
};

TEST_CASE("a list comes in pages and a watch follows it") {
  InformerOptions options;
  options.page_size = 2;
  options.label_selector = "app in (x, y)";
  options.field_selector = "spec.a=b";
  options.ns = "a";
  Fixture f(options);
  f.informer->Start();
  f.Run();
  CHECK(f.transport.next().path == "/apis/batch/v1/namespaces/a/jobs");
  CHECK(f.transport.next().query == "labelSelector=app%20in%20%28x%2C%20y%29&fieldSelector=spec.a%3Db&limit=2");
  f.transport.Answer(200, Page(10, {Json("x", 3, "1"), Json("y", 4, "2")}, "to/ken"));
  f.Run();
  CHECK_FALSE(f.informer->synced());
  CHECK(f.transport.next().query ==
        "labelSelector=app%20in%20%28x%2C%20y%29&fieldSelector=spec.a%3Db&limit=2&continue=to%2Fken");
  CHECK(f.Take() == "+x=1 +y=2 ");
  f.transport.Answer(200, Page(10, {Json("z", 5, "3")}));
  f.Run();
  CHECK(f.informer->synced());
  CHECK(f.informer->reflector().lists() == 1);
  CHECK(f.Take() == "+z=3 ");
  REQUIRE(f.transport.watching());
  const HttpRequest& watch = f.transport.watch().request;
  CHECK(watch.path == "/apis/batch/v1/namespaces/a/jobs");
  CHECK_THAT(watch.query, Catch::StartsWith("labelSelector=app%20in%20%28x%2C%20y%29&fieldSelector=spec.a%3Db&watch=1&"
                                            "allowWatchBookmarks=true&resourceVersion=10&timeoutSeconds="));
  CHECK(watch.timeout == minutes(3));
  f.transport.Open();
  f.Line(Event("MODIFIED", Json("x", 11, "7")));
  f.Line(Event("DELETED", Json("y", 12, "8")));
  f.Line(Event("ADDED", Json("w", 13, "9")));
  CHECK(f.Take() == "~x=7 -y=8 +w=9 ");
  CHECK(f.Cache() == "w=9 x=7 z=3 ");
  CHECK(f.informer->Get({"a", "x"})->value == 7);
  CHECK(f.informer->Get({"a", "y"}) == nullptr);
}

TEST_CASE("watch limits are drawn between 300 and 600 seconds") {
  Fixture f;
  f.Sync(1, {});
  std::set<std::string> seen;
  for (int i = 0; i < 40; ++i) {
    const std::string& query = f.transport.watch().request.query;
    const int limit = std::stoi(query.substr(query.rfind('=') + 1));
    CHECK(limit >= 300);
    CHECK(limit <= 600);
    seen.insert(std::to_string(limit));
    f.transport.Open();
    f.executor.RunFor(seconds(limit));
    f.transport.Close(absl::OkStatus());
    f.Run();
  }
  CHECK(seen.size() > 20);
  CHECK(f.informer->reflector().lists() == 1);
  CHECK(f.informer->reflector().watch_cuts() == 0);
}

TEST_CASE("metadata only is asked for by the Accept header") {
  InformerOptions options;
  options.metadata_only = true;
  Fixture f(options);
  f.informer->Start();
  f.Run();
  CHECK_THAT(f.transport.next().accept,
             Catch::StartsWith("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"));
  f.transport.Answer(200, Page(1, {}));
  f.Run();
  CHECK_THAT(f.transport.watch().request.accept,
             Catch::StartsWith("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"));
}

TEST_CASE("states that nobody has taken yet are replaced by newer ones; deletions are not") {
  Fixture f;
  f.Sync(10, {Json("x", 3, "1")});
  f.transport.Line(Event("MODIFIED", Json("x", 11, "2")));
  f.transport.Line(Event("ADDED", Json("y", 12, "1")));
  f.transport.Line(Event("MODIFIED", Json("x", 13, "3")));
  f.transport.Line(Event("DELETED", Json("x", 14, "4")));
  f.transport.Line(Event("ADDED", Json("x", 15, "5", 2)));
  f.transport.Line(Event("MODIFIED", Json("x", 16, "6", 2)));
  f.Run();
  CHECK(f.Take() == "~x=3 -x=4 +x=6 +y=1 ");
}

TEST_CASE("a bookmark moves the point to resume from and touches no object") {
  Fixture f;
  f.Sync(10, {Json("x", 3, "1")});
  f.Line(Bookmark(50));
  CHECK(f.Take().empty());
  CHECK(f.informer->reflector().resource_version() == "50");
  f.transport.Close(absl::UnavailableError("connection reset"));
  f.Run();
  REQUIRE(f.transport.watching());
  CHECK(f.Resumes(50));
}

TEST_CASE("a watch that is cut is resumed from the last version, the first time at once") {
  Fixture f;
  f.Sync(10, {});
  f.Line(Event("ADDED", Json("x", 11, "1")));
  f.transport.Close(absl::UnavailableError("connection reset"));
  f.Run();
  REQUIRE(f.transport.watching());
  CHECK(f.Resumes(11));
  CHECK(f.informer->reflector().watch_cuts() == 1);
  CHECK(f.informer->reflector().problem() == "connection reset");
  f.transport.Open();
  f.Run();
  CHECK(f.informer->reflector().problem().empty());

  // Then 0.8 s, 1.6 s, ... up to 30 s, each stretched by up to its own length.
  Duration base = milliseconds(800);
  for (int i = 0; i < 8; ++i) {
    f.transport.Open();
    f.transport.Close(absl::UnavailableError("connection reset"));
    f.Run();
    REQUIRE_FALSE(f.transport.watching());
    const Duration waited = f.UntilWatch();
    CHECK(waited >= base);
    CHECK(waited <= base * 2);
    base = std::min<Duration>(base * 2, seconds(30));
  }
  // Two minutes of health, and the next one is free again.
  f.transport.Open();
  f.executor.RunFor(seconds(121));
  f.transport.Close(absl::UnavailableError("connection reset"));
  f.Run();
  CHECK(f.transport.watching());
  CHECK(f.informer->reflector().lists() == 1);
}

TEST_CASE("a watch that never opened waits before the next") {
  Fixture f;
  f.informer->Start();
  f.Run();
  f.transport.Answer(200, Page(10, {}));
  f.Run();
  f.transport.Close(absl::UnavailableError("connection refused"));
  f.Run();
  CHECK_FALSE(f.transport.watching());
  CHECK(f.UntilWatch() >= milliseconds(800));
}

TEST_CASE("a watch that gets no answer is given up after half a minute, and begun again after a pause") {
  Fixture f;
  f.informer->Start();
  f.Run();
  f.transport.Answer(200, Page(10, {}));
  f.Run();
  REQUIRE(f.transport.watching());
  f.executor.RunFor(milliseconds(29'999));
  CHECK(f.transport.watching());
  f.executor.RunFor(milliseconds(1));
  CHECK_FALSE(f.transport.watching());
  CHECK(f.informer->reflector().watch_cuts() == 1);
  CHECK(f.informer->reflector().problem() == "the watch was not answered");
  CHECK(f.UntilWatch() >= milliseconds(800));
  CHECK_THAT(f.transport.watch().request.query, Catch::Contains("resourceVersion=10"));
  // What happened meanwhile is too far back for it: the list tells.
  f.transport.Close(absl::FailedPreconditionError("gone"), 410,
                    ScriptedTransport::StatusBody(410, "Expired", "too old resource version: 10 (90)"));
  f.executor.RunFor(seconds(10));
  REQUIRE(f.transport.pending() == 1);
  f.transport.Answer(200, Page(90, {Json("a", 80, "8")}));
  f.Run();
  CHECK(f.Take() == "+a=8 ");
  // An answer is enough, however silent it is then.
  f.transport.Open();
  const size_t watches = f.transport.watches.size();
  f.executor.RunFor(seconds(300));
  CHECK(f.transport.watches.size() == watches);
  CHECK(f.informer->reflector().problem().empty());
}

TEST_CASE("a watch that the server ends at once, again and again, is not taken up in a tight loop") {
  Fixture f;
  f.Sync(10, {});
  f.transport.Close(absl::OkStatus());
  f.Run();
  CHECK_FALSE(f.transport.watching());
}

TEST_CASE("a watch that outlives its time is cut") {
  Fixture f;
  f.Sync(10, {});
  const size_t before = f.transport.watches.size();
  CHECK(f.executor.RunUntil([&] { return f.transport.watches.size() > before; }, seconds(640)));
  CHECK(f.transport.watches[before - 1]->closed);
  CHECK(f.informer->reflector().problem() == "the watch outlived its time");
}

TEST_CASE("410 in either form leads to a list that replaces the cache as a diff") {
  const auto gone = ScriptedTransport::StatusBody(410, "Expired", "too old resource version: 10 (90)");
  for (const bool in_stream : {true, false}) {
    INFO("in the stream: " << in_stream);
    Fixture f;
    f.Sync(10, {Json("kept", 1, "1"), Json("changed", 2, "2"), Json("vanished", 3, "3"), Json("reborn", 4, "4")});
    if (in_stream) {
      f.Line(Event("ERROR", gone));
    } else {
      f.transport.Close(absl::UnavailableError("answered 410"), 410, gone);
      f.Run();
    }
    REQUIRE(f.transport.pending() == 1);  // at once: this one was the first
    CHECK(f.transport.next().query == "limit=500");
    CHECK_FALSE(f.transport.watching());
    f.transport.Answer(200, Page(90, {Json("changed", 80, "20"), Json("kept", 1, "1"), Json("new", 81, "5"),
                                      Json("reborn", 82, "40", 2)}));
    f.Run();
    CHECK(f.Take() == "~changed=20 +new=5 -reborn=4 +reborn=40 -vanished=3 ");
    CHECK(f.Resumes(90));
    // Again within two minutes: after a pause.
    f.Line(Event("ERROR", gone));
    CHECK(f.transport.pending() == 0);
    CHECK(f.UntilCall() >= milliseconds(800));
  }
}

TEST_CASE("410 between pages starts the list again, without pages") {
  Fixture f;
  f.Sync(10, {Json("x", 1, "1"), Json("y", 2, "2")});
  f.informer->Relist([] {});
  f.Run();
  f.transport.Answer(200, Page(20, {Json("x", 11, "7")}, "more"));
  f.Run();
  f.transport.AnswerStatus(410, "Expired", "the provided continue parameter is too old");
  f.Run();
  CHECK(f.transport.next().query.empty());
  // What came counts, what did not come is not deleted.
  CHECK(f.Cache() == "x=7 y=2 ");
  f.transport.Answer(200, Page(30, {Json("y", 21, "8")}));
  f.Run();
  CHECK(f.Cache() == "y=8 ");
  CHECK(f.Resumes(30));
  f.informer->Relist([] {});
  f.Run();
  CHECK(f.transport.next().query == "limit=500");
}

TEST_CASE("a refused version is listed anew after a pause") {
  const auto too_large = ScriptedTransport::StatusBody(
      504, "Timeout", "Too large resource version: 10, current: 5",
      R"({"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}],"retryAfterSeconds":9})");
  for (const int form : {0, 1, 2}) {
    INFO(form);
    Fixture f;
    f.Sync(10, {Json("x", 9, "1")});
    if (form == 0) f.transport.Close(absl::UnavailableError("answered"), 504, too_large);
    if (form == 1) f.transport.Line(Event("ERROR", too_large));
    if (form == 2)
      f.transport.Close(absl::UnavailableError("answered"), 400,
                        ScriptedTransport::StatusBody(400, "BadRequest", "bad"));
    f.Run();
    CHECK(f.transport.pending() == 0);
    const Duration waited = f.UntilCall();
    CHECK(waited >= (form == 2 ? Duration(milliseconds(800)) : Duration(seconds(9))));
    // The server was restored from a backup: its state is older, and it is the truth.
    f.transport.Answer(200, Page(5, {Json("x", 4, "0")}));
    f.Run();
    CHECK(f.Cache() == "x=0 ");
    CHECK(f.Resumes(5));
  }
}

TEST_CASE("Retry-After is kept, and an overloaded server is not listed") {
  Fixture f;
  f.Sync(10, {});
  for (int i = 0; i < 5; ++i) {
    f.transport.Close(absl::UnavailableError("answered"), 429, "{}", seconds(100));
    f.Run();
    CHECK(f.UntilWatch() >= seconds(100));
  }
  CHECK(f.informer->reflector().lists() == 1);
}

TEST_CASE("a server that answers watches with 500 is listed after the third") {
  Fixture f;
  f.Sync(10, {});
  for (int i = 0; i < 2; ++i) {
    f.transport.Close(absl::UnavailableError("answered"), 500,
                      ScriptedTransport::StatusBody(500, "InternalError", "boom"));
    f.Run();
    CHECK(f.informer->reflector().problem() == "the server answered 500 InternalError: boom");
    f.UntilWatch();
  }
  f.transport.Close(absl::UnavailableError("answered"), 500);
  f.Run();
  f.UntilCall();
}

TEST_CASE("an unreadable line is reported and the watch resumed from before it") {
  const std::string bad[] = {
      "garbage",
      "",
      R"({"type":"ADDED"})",
      R"({"type":"ADDED","object":{"metadata":{"name":"x"}}})",
      R"({"type":"EXPLODED","object":{"metadata":{"name":"x","resourceVersion":"12"}}})",
      R"({"type":"ADDED","object":{"metadata":{"resourceVersion":"12"}}})",
      R"({"type":"BOOKMARK","object":{"metadata":{}}})",
      Event("ADDED", Json("x", 12, "1")) + "}",
      std::string(5 << 20, 'x'),
  };
  for (const std::string& line : bad) {
    INFO(line.substr(0, 80));
    Fixture f;
    f.Sync(10, {});
    f.Line(Event("ADDED", Json("good", 11, "1")));
    f.transport.Line(line);
    f.transport.Line(Event("ADDED", Json("late", 13, "1")));  // of the same stream: not to be trusted
    f.Run();
    CHECK(f.informer->reflector().bad_lines() == 1);
    CHECK_THAT(f.informer->reflector().problem(), Catch::StartsWith("unreadable watch: "));
    CHECK(f.Cache() == "good=1 ");
    CHECK_FALSE(f.transport.watching());
    f.UntilWatch();
    CHECK(f.Resumes(11));
    // Twice more without any progress: perhaps it is the version, so list.
    for (int i = 0; i < 2; ++i) {
      f.transport.Open();
      f.transport.Line(line);
      f.Run();
      if (i == 0) f.UntilWatch();
    }
    f.UntilCall();
    CHECK(f.informer->reflector().lists() == 1);
  }
}

TEST_CASE("an object that cannot be decoded is reported, and the rest goes on") {
  Fixture f;
  f.Sync(10, {Json("x", 1, "1"), Json("y", 2, "2"), Json("bad", 3, "\"three\"")});
  REQUIRE(f.errors.size() == 1);
  CHECK(f.errors[0] == "Thing a/bad: value: must be an integer of 64 bits, got \"three\"");
  CHECK(f.Cache() == "x=1 y=2 ");
  f.Line(Event("MODIFIED", Json("x", 11, "{}")));
  CHECK(f.errors.size() == 2);
  CHECK(f.Cache() == "x=1 y=2 ");  // its last readable state
  f.Line(Event("MODIFIED", Json("bad", 12, "4")));
  CHECK(f.Take() == "+bad=4 ");
  f.Line(Event("DELETED", Json("x", 13, "{}")));
  CHECK(f.Take() == "-x=1 ");
  // In a list, too; but a new object under the old name is another one.
  f.informer->Relist([] {});
  f.Run();
  f.transport.Answer(200, Page(20, {Json("bad", 14, "[]"), Json("y", 15, "[]", 2)}));
  f.Run();
  CHECK(f.Cache() == "bad=4 ");
  CHECK(f.Take() == "-y=2 ");
}

TEST_CASE("a failed list is tried again, and deletes nothing") {
  Fixture f;
  f.Sync(10, {Json("x", 1, "1")});
  int done = 0;
  f.informer->Relist([&] { ++done; });
  f.Run();
  f.transport.AnswerStatus(500, "InternalError", "etcd");
  f.Run();
  CHECK(f.UntilCall() >= milliseconds(800));
  f.transport.Fail(true, "connection reset");
  f.Run();
  CHECK(f.UntilCall() >= milliseconds(1600));
  f.transport.Answer(200, "{\"items\":[");
  f.Run();
  CHECK(f.UntilCall() >= milliseconds(3200));
  CHECK(f.Cache() == "x=1 ");
  CHECK(done == 0);
  CHECK(f.informer->synced());
  f.transport.AnswerStatus(403, "Forbidden", "jobs is forbidden");
  f.Run();
  CHECK(f.informer->reflector().problem() == "the server answered 403 Forbidden: jobs is forbidden");
  f.UntilCall();
  f.transport.Answer(200, Page(20, {}));
  f.Run();
  CHECK(done == 1);
  CHECK(f.Cache().empty());
  CHECK(f.informer->reflector().problem().empty());
}

TEST_CASE("a relist is answered by a list that began after it") {
  Fixture f;
  f.informer->Start();
  f.Run();
  int done = 0;
  f.informer->Relist([&] { ++done; });
  f.Run();
  REQUIRE(f.transport.pending() == 2);
  f.transport.Answer(200, Page(1, {Json("old", 1, "1")}));  // of the list before: ignored
  f.Run();
  CHECK(done == 0);
  CHECK_FALSE(f.informer->synced());
  f.transport.Answer(200, Page(2, {Json("new", 2, "1")}));
  f.Run();
  CHECK(done == 1);
  CHECK(f.Cache() == "new=1 ");
}

TEST_CASE("versions are compared as numbers") {
  CHECK(IsNewerVersion("10", "9"));
  CHECK_FALSE(IsNewerVersion("9", "10"));
  CHECK_FALSE(IsNewerVersion("9", "9"));
  CHECK(IsNewerVersion("123456789012345678901234567890", "99"));
  CHECK(IsNewerVersion("1", "0"));
  CHECK_FALSE(IsNewerVersion("00", "0"));
  CHECK_FALSE(IsNewerVersion("", "1"));
  CHECK_FALSE(IsNewerVersion("abc", "1"));
  CHECK_FALSE(IsNewerVersion("2", "abc"));
}

TEST_CASE("an own write runs ahead of the watch, and older states are not taken any more") {
  Fixture f;
  f.Sync(10, {Json("x", 5, "1")});
  f.informer->Observe(Json("x", 13, "3"));
  CHECK(f.Take() == "~x=3 ");
  f.Line(Event("MODIFIED", Json("x", 12, "2")));  // between the two
  CHECK(f.Take().empty());
  f.Line(Event("MODIFIED", Json("x", 13, "3")));  // the write itself
  CHECK(f.Take().empty());
  f.Line(Event("MODIFIED", Json("x", 14, "4")));
  CHECK(f.Take() == "~x=4 ");
  f.informer->Observe(Json("x", 13, "3"));  // the answer came late
  CHECK(f.Take().empty());
  CHECK(f.Cache() == "x=4 ");
}

TEST_CASE("a state that waits to be taken counts against an own write") {
  Fixture f;
  f.Sync(10, {Json("x", 5, "1")});
  f.transport.Line(Event("MODIFIED", Json("x", 14, "4")));
  // The line has arrived, and nobody has taken it yet.
  REQUIRE(f.executor.RunUntil([&] { return f.informer->reflector().resource_version() == "14"; }, seconds(1)));
  REQUIRE(f.Take().empty());
  f.informer->Observe(Json("x", 13, "3"));
  CHECK(f.Take() == "~x=4 ");
  f.Run();
  CHECK(f.Take().empty());
}

TEST_CASE("an own write whose answer comes after the deletion does not raise the dead") {
  Fixture f;
  f.Sync(10, {Json("x", 5, "1")});
  f.Line(Event("DELETED", Json("x", 14, "4")));
  f.informer->Observe(Json("x", 13, "3"));
  CHECK(f.Take() == "-x=4 ");
  CHECK(f.Cache().empty());
}

TEST_CASE("an own create is known before the watch tells of it") {
  Fixture f;
  f.Sync(10, {Json("x", 5, "1")});
  f.informer->Observe(Json("new", 12, "1"));
  CHECK(f.Take() == "+new=1 ");
  f.Line(Event("ADDED", Json("new", 12, "1")));
  CHECK(f.Take().empty());
  // Under a name whose former object the watch has not yet seen go.
  f.informer->Observe(Json("x", 20, "2", 2));
  CHECK(f.Take() == "-x=1 +x=2 ");
  f.Line(Event("MODIFIED", Json("x", 15, "8")));
  f.Line(Event("DELETED", Json("x", 18, "9")));
  f.Line(Event("ADDED", Json("x", 20, "2", 2)));
  CHECK(f.Take().empty());
  CHECK(f.Cache() == "new=1 x=2 ");
}

TEST_CASE("a list that is older than an own write does not undo it") {
  Fixture f;
  f.Sync(10, {Json("x", 5, "1"), Json("y", 6, "1")});
  f.informer->Relist([] {});
  f.Run();
  // Written after the list was asked for; its snapshot may be from before.
  f.informer->Observe(Json("x", 23, "3"));
  f.informer->Observe(Json("new", 24, "1"));
  f.informer->Observe(Json("y", 15, "2"));
  f.Take();
  f.transport.Answer(200, Page(20, {Json("x", 19, "2")}));
  f.Run();
  // y was written at 15, and was gone at 20.
  CHECK(f.Take() == "-y=2 ");
  CHECK(f.Cache() == "new=1 x=3 ");
  f.Line(Event("MODIFIED", Json("x", 21, "2")));
  f.Line(Event("MODIFIED", Json("x", 23, "3")));
  f.Line(Event("ADDED", Json("new", 24, "1")));
  f.Line(Event("DELETED", Json("new", 25, "1")));
  CHECK(f.Take() == "-new=1 ");
}

TEST_CASE("a list that was asked for after an own write is the truth") {
  Fixture f;
  f.Sync(10, {Json("x", 5, "1")});
  f.informer->Observe(Json("x", 23, "3"));
  f.informer->Observe(Json("new", 24, "1"));
  f.Take();
  f.informer->Relist([] {});
  f.Run();
  f.transport.Answer(200, Page(12, {Json("x", 11, "0")}));  // as after a restored backup
  f.Run();
  CHECK(f.Take() == "~x=0 -new=1 ");
}

TEST_CASE("a version that is no number cannot be compared: the watch will tell") {
  Fixture f;
  f.Sync(10, {});
  const std::string opaque =
      R"({"metadata":{"namespace":"a","name":"x","uid":"x1","resourceVersion":"v-7"},"value":1})";
  f.informer->Observe(opaque);
  CHECK(f.Take().empty());
  f.Line(Event("ADDED", opaque));
  CHECK(f.Take() == "+x=1 ");
}

TEST_CASE("an informer may be asked and told from its own handler") {
  sim::SimExecutor executor(1);
  ScriptedTransport transport(&executor);
  Client client(executor.env(), &transport, {});
  std::unique_ptr<Informer<Thing>> informer;
  int relisted = 0;
  Informer<Thing>::Handler handler;
  handler.upserted = [&](const Informer<Thing>::Ptr& object, const Informer<Thing>::Ptr&) {
    if (object->meta.resource_version == "11") {
      informer->Observe(Json("y", 20, "2"));
      informer->Relist([&] { ++relisted; });
    }
  };
  handler.deleted = [](const Informer<Thing>::Ptr&) {};
  handler.undecodable = [](const k8s::ObjectMeta&, const absl::Status&) {};
  informer = std::make_unique<Informer<Thing>>(executor.env(), &client, kJobs, InformerOptions{}, DecodeThing, handler);
  informer->Start();
  executor.RunReady();
  transport.Answer(200, Page(10, {Json("y", 3, "1")}));
  executor.RunReady();
  transport.Open();
  transport.Line(Event("ADDED", Json("x", 11, "1")));
  transport.Line(Event("MODIFIED", Json("y", 12, "1")));
  executor.RunReady();
  CHECK(informer->Get({"a", "y"})->value == 2);
  REQUIRE(transport.pending() == 1);
  transport.Answer(200, Page(30, {Json("x", 11, "1"), Json("y", 20, "2")}));
  executor.RunReady();
  CHECK(relisted == 1);
  CHECK(informer->objects().size() == 2);
}

}  // namespace
}  // namespace muster::k8s
