// Each rule as kube-apiserver 1.36.3 follows it; codes, reasons and messages are its answers to the same
// requests.
#include "muster/sim/store.h"

#include <catch2/catch.hpp>
#include <set>
#include <string>

#include "store_fixture.h"

namespace muster::sim {
namespace {

TEST_CASE_METHOD(StoreFixture, "create sets what the server alone decides", "[store]") {
  executor.RunFor(std::chrono::seconds(5));
  const Json made = Make(R"({"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"Workload",
      "metadata":{"name":"w","uid":"mine","generation":7,"deletionTimestamp":"2026-01-01T00:00:00Z"},
      "spec":{"a":1},"status":{"x":1}})");
  CHECK(Generation(made) == 1);
  CHECK(At(made, "metadata", "namespace") == "p");
  CHECK(At(made, "metadata", "creationTimestamp") == "2026-01-01T00:00:05Z");
  CHECK(At(made, "metadata", "uid") != "mine");
  CHECK(Text(At(made, "metadata", "uid")).size() == 36);
  CHECK(At(made, "metadata", "deletionTimestamp").is_null());
  CHECK_FALSE(made.contains("status"));
  CHECK(Now(To("workloads", "w")) == made);
}

TEST_CASE_METHOD(StoreFixture, "create refuses what the server refuses", "[store]") {
  Make(Workload("w"));
  const Answer again = Create(Workload("w"));
  CHECK(again.code == 409);
  CHECK(again.reason() == "AlreadyExists");
  CHECK(again.message() == "workloads.kueue.x-k8s.io \"w\" already exists");
  CHECK(again.body["details"] == Parse(R"({"group":"kueue.x-k8s.io","kind":"workloads","name":"w"})"));

  Json unnamed = Workload("");
  CHECK(Create(unnamed).code == 422);
  CHECK(Create(unnamed).message() ==
        "Workload.kueue.x-k8s.io \"\" is invalid: metadata.name: Required value: name or generateName is required");
  CHECK(Create(Workload("Bad_Name")).code == 422);

  Json versioned = Workload("v");
  versioned["metadata"]["resourceVersion"] = "5";
  CHECK(Create(versioned).code == 500);
  CHECK(Create(versioned).message() == "resourceVersion should not be set on objects to be created");

  Json elsewhere = Workload("v");
  elsewhere["metadata"]["namespace"] = "q";
  CHECK(Create(elsewhere).code == 400);
  const Answer nowhere = store.Create("user", To("workloads", "", "", "nope"), Workload("v"));
  CHECK(nowhere.code == 404);
  CHECK(nowhere.message() == "namespaces \"nope\" not found");

  Json other_version = Workload("v");
  other_version["apiVersion"] = "kueue.x-k8s.io/v1beta1";
  CHECK(store.Create("user", To("workloads"), other_version).code == 400);
  CHECK(store.Create("user", To("workloads"), Json(3)).code == 400);
  Json mistyped = Workload("v");
  mistyped["metadata"]["labels"] = {{"x", 1}};
  CHECK(store.Create("user", To("workloads"), mistyped).code == 400);
}

TEST_CASE_METHOD(StoreFixture, "generateName adds five letters or digits and avoids what exists", "[store]") {
  Json object = Workload("");
  object["metadata"] = {{"generateName", "gg-"}};
  std::set<std::string> names;
  for (int i = 0; i < 50; ++i) {
    const std::string name = Text(At(Make(object), "metadata", "name"));
    CHECK(name.size() == 8);
    CHECK(name.starts_with("gg-"));
    names.insert(name);
  }
  CHECK(names.size() == 50);
  object["metadata"]["generateName"] = std::string(100, 'a');
  CHECK(Text(At(Make(object), "metadata", "name")).size() == 63);
}

TEST_CASE_METHOD(StoreFixture, "resourceVersion grows over all kinds; what changes nothing is not written", "[store]") {
  const Json w = Make(Workload("w"));
  const Json j = Make(Job("j"));
  CHECK(std::stoll(Rv(j)) == std::stoll(Rv(w)) + 1);
  // Made without labels, it shows its template's; the first write stores them.
  CHECK(Rv(JsonPatch(To("jobs", "j"), "[]").body) != Rv(j));
  const int64_t version = store.version();
  CHECK(Merge(To("workloads", "w"), R"({"spec":{"active":true}})").code == 200);
  CHECK(Merge(To("workloads", "w"), R"({"metadata":{"labels":null}})").code == 200);
  CHECK(JsonPatch(To("jobs", "j"), "[]").code == 200);
  CHECK(store.Update("user", To("workloads", "w"), w).code == 200);
  CHECK(store.version() == version);
  CHECK(Rv(Now(To("workloads", "w"))) == Rv(w));
}

TEST_CASE_METHOD(StoreFixture, "generation: spec moves it, metadata and status do not", "[store]") {
  Make(Workload("w"));
  const Target w = To("workloads", "w");
  CHECK(Generation(Merge(w, R"({"metadata":{"labels":{"a":"b"},"annotations":{"c":"d"}}})").body) == 1);
  CHECK(Generation(Merge(To("workloads", "w", "status"), R"({"status":{"x":1}})").body) == 1);
  CHECK(Generation(Merge(w, R"({"spec":{"active":false}})").body) == 2);
  CHECK(Generation(Merge(w, R"({"other":{"q":1}})").body) == 3);  // any field of a custom resource
  CHECK(Generation(Merge(w, R"({"metadata":{"generation":99}})").body) == 3);

  Make(Job("j"));
  CHECK(Generation(Merge(To("jobs", "j"), R"({"metadata":{"labels":{"a":"b"}}})").body) == 1);
  CHECK(Generation(Merge(To("jobs", "j", "status"), R"({"status":{"ready":0}})").body) == 1);
  CHECK(Generation(Merge(To("jobs", "j"), R"({"spec":{"suspend":false}})").body) == 2);

  const Json lease = Make(R"({"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"l"},
                              "spec":{"holderIdentity":"a"}})");
  CHECK(Generation(lease) == -1);
  CHECK(Generation(Merge(To("leases", "l"), R"({"spec":{"holderIdentity":"b"}})").body) == -1);
}

TEST_CASE_METHOD(StoreFixture, "status of a custom resource: each way in ignores the other's part", "[store]") {
  Make(Workload("w"));
  const Json status =
      Merge(To("workloads", "w", "status"),
            R"({"metadata":{"labels":{"x":"y"}},"spec":{"active":false},"status":{"s":[{"a":null,"b":1}]}})")
          .body;
  CHECK(At(status, "status") == Parse(R"({"s":[{"b":1}]})"));
  CHECK(At(status, "spec", "active") == true);
  CHECK(At(status, "metadata", "labels").is_null());
  const Json main = Merge(To("workloads", "w"), R"({"spec":{"active":false},"status":null})").body;
  CHECK(At(main, "spec", "active") == false);
  CHECK(At(main, "status") == Parse(R"({"s":[{"b":1}]})"));
  CHECK_FALSE(Merge(To("workloads", "w", "status"), R"({"status":null})").body.contains("status"));
}

TEST_CASE_METHOD(StoreFixture, "status of a Job: metadata may be changed there, spec not", "[store]") {
  Make(Job("j"));
  const Json job = Merge(To("jobs", "j", "status"),
                         R"({"metadata":{"annotations":{"a":"b"}},"spec":{"suspend":false},"status":{"ready":0}})")
                       .body;
  CHECK(At(job, "metadata", "annotations", "a") == "b");
  CHECK(At(job, "spec", "suspend") == true);
  CHECK(At(job, "status", "ready") == 0);
  const Json main = JsonPatch(To("jobs", "j"), R"([{"op":"add","path":"/status/active","value":3}])").body;
  CHECK(At(main, "status", "active").is_null());
}

TEST_CASE_METHOD(StoreFixture, "a kind without the status subresource stores status as any field", "[store]") {
  Json flavor = Parse(R"({"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"ResourceFlavor","metadata":{"name":"f"},
                          "spec":{},"status":{"x":1}})");
  CHECK(At(Make(flavor), "status", "x") == 1);
  CHECK(Generation(Merge(To("resourceflavors", "f"), R"({"status":{"x":2}})").body) == 2);
}

TEST_CASE_METHOD(StoreFixture, "optimistic locking", "[store]") {
  const Json w = Make(Workload("w"));
  REQUIRE(Merge(To("workloads", "w"), R"({"spec":{"active":false}})").ok());
  Json stale = w;
  stale["spec"]["a"] = 2;
  const Answer conflict = store.Update("user", To("workloads", "w"), stale);
  CHECK(conflict.code == 409);
  CHECK(conflict.reason() == "Conflict");
  CHECK(conflict.message() ==
        "Operation cannot be fulfilled on workloads.kueue.x-k8s.io \"w\": the object has been modified; please apply "
        "your changes to the latest version and try again");
  const std::string rv = Rv(w);
  CHECK(Merge(To("workloads", "w"), R"({"metadata":{"resourceVersion":")" + rv + R"("},"spec":{"a":1}})").code == 409);
  CHECK(JsonPatch(To("workloads", "w"), R"([{"op":"replace","path":"/metadata/resourceVersion","value":"1"}])").code ==
        409);
  CHECK(JsonPatch(To("workloads", "w"), R"([{"op":"test","path":"/metadata/resourceVersion","value":")" + rv + R"("}])")
            .code == 422);
  const std::string now = Rv(Now(To("workloads", "w")));
  CHECK(Merge(To("workloads", "w", "status"), R"({"metadata":{"resourceVersion":")" + now + R"("},"status":{"a":1}})")
            .code == 200);
}

TEST_CASE_METHOD(StoreFixture, "a PUT without a version: a Job takes it, custom resources and leases do not",
                 "[store]") {
  Json job = Make(Job("j"));
  job["metadata"].erase("resourceVersion");
  CHECK(store.Update("user", To("jobs", "j"), job).code == 200);
  Json w = Make(Workload("w"));
  w["metadata"].erase("resourceVersion");
  const Answer refused = store.Update("user", To("workloads", "w"), w);
  CHECK(refused.code == 422);
  CHECK(refused.message() ==
        "workloads.kueue.x-k8s.io \"w\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for "
        "an update");
  CHECK(Merge(To("workloads", "w"), R"({"metadata":{"resourceVersion":null}})").code == 422);
}

TEST_CASE_METHOD(StoreFixture, "a PUT of an absent object: a lease is created, a workload is not", "[store]") {
  const Json lease = Parse(R"({"apiVersion":"coordination.k8s.io/v1","kind":"Lease",
                               "metadata":{"name":"l"},"spec":{}})");
  CHECK(store.Update("user", To("leases", "l"), lease).code == 201);
  CHECK(store.Update("user", To("workloads", "w"), Workload("w")).code == 404);
}

TEST_CASE_METHOD(StoreFixture, "name, namespace, uid and deletion time cannot be changed", "[store]") {
  Json job = Make(Job("j"));
  CHECK(JsonPatch(To("jobs", "j"), R"([{"op":"replace","path":"/metadata/uid","value":"u"}])").code == 422);
  CHECK(JsonPatch(To("jobs", "j"), R"([{"op":"replace","path":"/metadata/name","value":"u"}])").code == 400);
  CHECK(JsonPatch(To("jobs", "j"), R"([{"op":"replace","path":"/metadata/namespace","value":"u"}])").code == 400);
  CHECK(JsonPatch(To("jobs", "j"),
                  R"([{"op":"add","path":"/metadata/deletionTimestamp","value":"2026-01-01T00:00:00Z"}])")
            .code == 422);
  CHECK(Merge(To("jobs", "j"), R"({"metadata":{"creationTimestamp":null}})").code == 200);
  CHECK(At(Now(To("jobs", "j")), "metadata", "creationTimestamp") == At(job, "metadata", "creationTimestamp"));
  job["metadata"]["uid"] = "x";
  CHECK(store.Update("user", To("jobs", "j"), job).code == 409);
}

TEST_CASE_METHOD(StoreFixture, "patches that do not apply", "[store]") {
  Make(Job("j"));
  const Answer failed = JsonPatch(To("jobs", "j"), R"([{"op":"test","path":"/spec/suspend","value":false}])");
  CHECK(failed.code == 422);
  CHECK(failed.body == Parse(R"({"apiVersion":"v1","kind":"Status","metadata":{},"status":"Failure","code":422,
      "reason":"Invalid","message":"the server rejected our request due to an error in our request","details":{}})"));
  CHECK(JsonPatch(To("jobs", "zz"), "[]").code == 404);
  CHECK(JsonPatch(To("jobs", "j"), "{}").code == 400);
  CHECK(Merge(To("jobs", "j"), "[]").code == 400);
  CHECK(Merge(To("jobs", "j"), "{").code == 400);
  CHECK(Merge(To("jobs", "j"), R"({"spec":{"suspend":"yes"}})").code == 422);
  CHECK(Merge(To("jobs", "j"), R"({"metadata":{"labels":{"x":"a b"}}})").code == 422);
  CHECK(Merge(To("jobs", "j"), R"({"metadata":{"labels":{"x":1}}})").code == 422);
  CHECK(Rv(Now(To("jobs", "j"))) == std::to_string(store.version()));
}

TEST_CASE_METHOD(StoreFixture, "owner references: complete, and one controller at most", "[store]") {
  Make(Workload("w"));
  const auto patch = [&](const std::string& owners) {
    return Merge(To("workloads", "w"), R"({"metadata":{"ownerReferences":)" + owners + "}}").code;
  };
  CHECK(patch(R"([{"apiVersion":"v1","kind":"A","name":"a","uid":"1","controller":true}])") == 200);
  CHECK(patch(R"([{"apiVersion":"v1","kind":"A","name":"a"}])") == 422);
  CHECK(patch(R"([{"apiVersion":"v1","kind":"A","name":"a","uid":"1","controller":true},
                  {"apiVersion":"v1","kind":"A","name":"b","uid":"2","controller":true}])") == 422);
}

TEST_CASE_METHOD(StoreFixture, "annotations may take 256 KiB", "[store]") {
  Make(Workload("w"));
  CHECK(Merge(To("workloads", "w"), R"({"metadata":{"annotations":{"a":")" + std::string(262'143, 'x') + R"("}}})")
            .code == 200);
  CHECK(Merge(To("workloads", "w"), R"({"metadata":{"annotations":{"a":")" + std::string(262'144, 'x') + R"("}}})")
            .code == 422);
}

TEST_CASE_METHOD(StoreFixture, "both versions show one object", "[store]") {
  Json old = Workload("w");
  old["apiVersion"] = "kueue.x-k8s.io/v1beta1";
  CHECK(At(Make(old), "apiVersion") == "kueue.x-k8s.io/v1beta1");
  CHECK(At(Now(To("workloads", "w")), "apiVersion") == "kueue.x-k8s.io/v1beta2");
  Target beta1 = To("workloads", "w");
  beta1.version = "v1beta1";
  CHECK(At(Merge(beta1, R"({"spec":{"a":1}})").body, "apiVersion") == "kueue.x-k8s.io/v1beta1");
  CHECK(Merge(beta1, R"({"apiVersion":"kueue.x-k8s.io/v1beta2"})").code == 422);
  CHECK(Generation(Now(To("workloads", "w"))) == 2);
}

TEST_CASE_METHOD(StoreFixture, "a namespace is dressed at creation", "[store]") {
  const Json ns = Make(R"({"apiVersion":"v1","kind":"Namespace","metadata":{"name":"q"}})");
  CHECK(At(ns, "metadata", "labels", "kubernetes.io/metadata.name") == "q");
  CHECK(At(ns, "spec", "finalizers") == Json({"kubernetes"}));
  CHECK(At(ns, "status", "phase") == "Active");
}

TEST_CASE_METHOD(StoreFixture, "the state hash depends on the objects alone", "[store]") {
  StoreFixture other;
  CHECK(store.StateHash() == other.store.StateHash());
  Make(Workload("w"));
  CHECK(store.StateHash() != other.store.StateHash());
  other.Make(Workload("w"));
  CHECK(store.StateHash() == other.store.StateHash());
}

}  // namespace
}  // namespace muster::sim
