// Lists, pages, selectors, history and compaction, as kube-apiserver 1.36.3.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "store_fixture.h"

namespace muster::sim {
namespace {

std::vector<std::string> Names(const Answer& list) {
  INFO(list.body);
  REQUIRE(list.code == 200);
  std::vector<std::string> names;
  for (const Json& item : list.body["items"]) names.push_back(Text(At(item, "metadata", "name")));
  return names;
}
using V = std::vector<std::string>;

TEST_CASE_METHOD(StoreFixture, "a list names its kind; only items of custom resources repeat theirs", "[store]") {
  Make(Workload("w"));
  Make(Job("j"));
  const Answer workloads = store.List(To("workloads"), {});
  CHECK(At(workloads.body, "kind") == "WorkloadList");
  CHECK(At(workloads.body, "apiVersion") == "kueue.x-k8s.io/v1beta2");
  CHECK(At(workloads.body, "metadata", "resourceVersion") == std::to_string(store.version()));
  CHECK(workloads.body["items"][0]["kind"] == "Workload");
  const Answer jobs = store.List(To("jobs"), {});
  CHECK(At(jobs.body, "kind") == "JobList");
  CHECK_FALSE(jobs.body["items"][0].contains("kind"));
  ListOptions partial;
  partial.metadata_only = true;
  const Answer meta = store.List(To("jobs"), partial);
  CHECK(At(meta.body, "kind") == "PartialObjectMetadataList");
  CHECK(meta.body["items"][0]["kind"] == "PartialObjectMetadata");
  CHECK_FALSE(meta.body["items"][0].contains("spec"));
}

TEST_CASE_METHOD(StoreFixture, "a list is in the order of namespace/name", "[store]") {
  for (const char* ns : {"a", "a-b"}) {
    Make(Parse(R"({"apiVersion":"v1","kind":"Namespace","metadata":{"name":")" + std::string(ns) + R"("}})"));
    Json w = Workload(std::string("in-") + ns);
    w["metadata"]["namespace"] = ns;
    REQUIRE(store.Create("user", To("workloads", "", "", ns), w).code == 201);
  }
  CHECK(Names(store.List(To("workloads", "", "", ""), {})) == V{"in-a-b", "in-a"});  // '-' sorts before '/'
  CHECK(Names(store.List(To("workloads", "", "", "a"), {})) == V{"in-a"});
  CHECK(Names(store.List(To("workloads", "", "", "none"), {})).empty());
}

TEST_CASE_METHOD(StoreFixture, "pages show one moment, whatever is written between them", "[store]") {
  for (const char* name : {"a", "b", "c", "d"}) Make(Workload(name));
  ListOptions options;
  options.limit = 2;
  const Answer first = store.List(To("workloads"), options);
  CHECK(Names(first) == V{"a", "b"});
  CHECK(At(first.body, "metadata", "remainingItemCount") == 2);
  REQUIRE(Delete(To("workloads", "c")).ok());
  Make(Workload("bb"));
  Make(Workload("e"));
  REQUIRE(Merge(To("workloads", "d"), R"({"spec":{"x":1}})").ok());
  options.continue_token = Text(At(first.body, "metadata", "continue"));
  const Answer second = store.List(To("workloads"), options);
  CHECK(Names(second) == V{"c", "d"});
  CHECK(At(second.body, "metadata", "resourceVersion") == At(first.body, "metadata", "resourceVersion"));
  CHECK(At(second.body, "metadata", "continue").is_null());
  CHECK(second.body["items"][1]["spec"] == Json({{"active", true}}));
}

TEST_CASE_METHOD(StoreFixture, "a token older than the history is 410, with one for an inconsistent rest", "[store]") {
  for (const char* name : {"a", "b", "c"}) Make(Workload(name));
  ListOptions options;
  options.limit = 1;
  options.continue_token = Text(At(store.List(To("workloads"), options).body, "metadata", "continue"));
  Make(Workload("d"));
  store.Compact(store.version());
  const Answer expired = store.List(To("workloads"), options);
  CHECK(expired.code == 410);
  CHECK(expired.reason() == "Expired");
  options.continue_token = Text(At(expired.body, "metadata", "continue"));
  options.limit = 0;
  CHECK(Names(store.List(To("workloads"), options)) == V{"b", "c", "d"});
  options.continue_token = "abc";
  CHECK(store.List(To("workloads"), options).code == 400);
}

TEST_CASE_METHOD(StoreFixture, "resourceVersion of a list: 0 is any, too new is 504, exact may be gone", "[store]") {
  Make(Workload("a"));
  const std::string then = std::to_string(store.version());
  Make(Workload("b"));
  ListOptions options;
  options.resource_version = "0";
  CHECK(Names(store.List(To("workloads"), options)) == V{"a", "b"});
  options.resource_version = then;
  CHECK(Names(store.List(To("workloads"), options)) == V{"a", "b"});  // not older than
  options.resource_version_match = "Exact";
  CHECK(Names(store.List(To("workloads"), options)) == V{"a"});
  store.Compact(store.version());
  CHECK(store.List(To("workloads"), options).code == 410);
  options = {};
  options.resource_version = "999999";
  const Answer too_new = store.List(To("workloads"), options);
  CHECK(too_new.code == 504);
  CHECK(too_new.reason() == "Timeout");
  CHECK(At(too_new.body, "details", "causes")[0]["reason"] == "ResourceVersionTooLarge");
  options.resource_version = "abc";
  CHECK(store.List(To("workloads"), options).code == 400);
}

TEST_CASE_METHOD(StoreFixture, "label selectors", "[store]") {
  const auto add = [&](const char* name, Json labels) {
    Json w = Workload(name);
    w["metadata"]["labels"] = std::move(labels);
    Make(w);
  };
  add("a", {{"tier", "gold"}, {"n", "1"}});
  add("b", {{"tier", "tin"}, {"n", "20"}});
  add("c", {{"example.com/x", "y"}});
  const auto select = [&](const std::string& selector) {
    ListOptions options;
    options.label_selector = selector;
    return Names(store.List(To("workloads"), options));
  };
  CHECK(select("tier=gold") == V{"a"});
  CHECK(select("tier==gold") == V{"a"});
  CHECK(select("tier!=gold") == V{"b", "c"});
  CHECK(select("tier") == V{"a", "b"});
  CHECK(select("!tier") == V{"c"});
  CHECK(select("tier in (gold, tin)") == V{"a", "b"});
  CHECK(select("tier notin (gold)") == V{"b", "c"});
  CHECK(select("n>5") == V{"b"});
  CHECK(select("n<5,tier=gold") == V{"a"});
  CHECK(select("example.com/x=y") == V{"c"});
  CHECK(select("tier=gold,n=20").empty());
  ListOptions bad;
  bad.label_selector = "a b";
  CHECK(store.List(To("workloads"), bad).code == 400);
}

TEST_CASE_METHOD(StoreFixture, "field selectors", "[store]") {
  Make(Workload("a"));
  Make(Workload("b"));
  const auto select = [&](const std::string& selector) {
    ListOptions options;
    options.field_selector = selector;
    return store.List(To("workloads"), options);
  };
  CHECK(Names(select("metadata.name=b")) == V{"b"});
  CHECK(Names(select("metadata.name!=b")) == V{"a"});
  CHECK(Names(select("metadata.namespace=p,metadata.name=a")) == V{"a"});
  CHECK(select("spec.a=1").code == 400);
  CHECK(select("spec.a=1").message() == "field label not supported: spec.a");
}

TEST_CASE_METHOD(StoreFixture, "history tells what happened to a kind, with the state before", "[store]") {
  const int64_t start = store.version();
  Make(Workload("a"));
  Make(Job("j"));
  REQUIRE(Merge(To("workloads", "a"), R"({"spec":{"x":1}})").ok());
  REQUIRE(Delete(To("workloads", "a")).ok());
  const auto changes = store.ChangesSince(To("workloads").kind, start);
  REQUIRE(changes.size() == 3);
  CHECK(changes[0].type == Change::Type::kAdded);
  CHECK(changes[0].previous == nullptr);
  CHECK(changes[1].type == Change::Type::kModified);
  CHECK(changes[1].previous == changes[0].object);
  CHECK(changes[2].type == Change::Type::kDeleted);
  CHECK(Rv(*changes[2].object) == std::to_string(store.version()));
  CHECK((*changes[2].object)["spec"] == (*changes[1].object)["spec"]);
  CHECK(store.ChangesSince(To("workloads").kind, changes[1].version).size() == 1);
  store.Compact(changes[1].version);
  CHECK(store.IsCompacted(changes[0].version));
  CHECK_FALSE(store.IsCompacted(changes[1].version));
  CHECK(store.ChangesSince(To("workloads").kind, changes[1].version).size() == 1);
}

}  // namespace
}  // namespace muster::sim
