// Deletion as kube-apiserver 1.36.3 does it: finalizers, preconditions, propagation, namespaces.
#include <catch2/catch.hpp>
#include <string>

#include "store_fixture.h"

namespace muster::sim {
namespace {

TEST_CASE_METHOD(StoreFixture, "without finalizers an object is gone at once", "[store]") {
  const Json w = Make(Workload("w"));
  const Answer gone = Delete(To("workloads", "w"));
  CHECK(gone.code == 200);
  CHECK(At(gone.body, "kind") == "Status");
  CHECK(At(gone.body, "status") == "Success");
  CHECK(At(gone.body, "details", "uid") == At(w, "metadata", "uid"));
  CHECK(store.Read(To("workloads", "w")).code == 404);
  CHECK(Delete(To("workloads", "w")).code == 404);
}

TEST_CASE_METHOD(StoreFixture, "with finalizers it is marked, and goes with the last of them", "[store]") {
  Json object = Workload("w");
  object["metadata"]["finalizers"] = {"a.b/c"};
  Make(object);
  const Answer marked = Delete(To("workloads", "w"));
  CHECK(marked.code == 200);
  CHECK(At(marked.body, "metadata", "deletionTimestamp") == "2026-01-01T00:00:00Z");
  CHECK(At(marked.body, "metadata", "deletionGracePeriodSeconds") == 0);
  CHECK(Generation(marked.body) == 2);
  const int64_t version = store.version();
  CHECK(Rv(Delete(To("workloads", "w")).body) == Rv(marked.body));
  CHECK(store.version() == version);
  CHECK(Generation(Merge(To("workloads", "w"), R"({"spec":{"a":9}})").body) == 3);
  CHECK(Merge(To("workloads", "w"), R"({"metadata":{"finalizers":["a.b/c","d.e/f"]}})").code == 422);
  const Answer last = Merge(To("workloads", "w"), R"({"metadata":{"finalizers":null}})");
  CHECK(last.code == 200);
  CHECK(At(last.body, "metadata", "finalizers").is_null());
  CHECK(store.Read(To("workloads", "w")).code == 404);
}

TEST_CASE_METHOD(StoreFixture, "preconditions", "[store]") {
  const Json w = Make(Workload("w"));
  DeleteOptions options;
  options.uid = "x";
  const Answer refused = Delete(To("workloads", "w"), options);
  CHECK(refused.code == 409);
  CHECK(refused.message() ==
        "Operation cannot be fulfilled on Workload.kueue.x-k8s.io \"w\": the UID in the "
        "precondition (x) does not match the UID in record (" +
            Text(At(w, "metadata", "uid")) + "). The object might have been deleted and then recreated");
  options.uid = Text(At(w, "metadata", "uid"));
  options.resource_version = "1";
  CHECK(Delete(To("workloads", "w"), options).code == 409);
  options.resource_version = Rv(w);
  CHECK(Delete(To("workloads", "w"), options).code == 200);
}

TEST_CASE_METHOD(StoreFixture, "propagation is a finalizer; a Job orphans by default", "[store]") {
  const auto finalizers = [&](const std::string& name, const std::string& propagation) {
    Make(Job(name));
    DeleteOptions options;
    options.propagation = propagation;
    const Answer answer = Delete(To("jobs", name), options);
    CHECK(answer.code == 200);
    return At(answer.body, "metadata", "finalizers");
  };
  CHECK(finalizers("a", "") == Json({"orphan"}));
  CHECK(finalizers("b", "Orphan") == Json({"orphan"}));
  CHECK(finalizers("c", "Foreground") == Json({"foregroundDeletion"}));
  CHECK(finalizers("d", "Background").is_null());
  CHECK(store.Read(To("jobs", "d")).code == 404);
  DeleteOptions options;
  options.propagation = "Foo";
  CHECK(Delete(To("jobs", "a"), options).code == 422);
  options.propagation = "Foreground";  // a later policy replaces the earlier
  CHECK(At(Delete(To("jobs", "a"), options).body, "metadata", "finalizers") == Json({"foregroundDeletion"}));
}

TEST_CASE_METHOD(StoreFixture, "a terminating namespace takes nothing new and is finalized from outside", "[store]") {
  const Answer terminating = Delete(To("namespaces", "p"));
  CHECK(terminating.code == 200);
  CHECK(At(terminating.body, "status", "phase") == "Terminating");
  const Answer refused = Create(Workload("w"));
  CHECK(refused.code == 403);
  CHECK(refused.message() ==
        "workloads.kueue.x-k8s.io \"w\" is forbidden: unable to create new content in namespace p "
        "because it is being terminated");
  store.FinalizeNamespace("p");
  CHECK(store.Read(To("namespaces", "p")).code == 404);
}

TEST_CASE_METHOD(StoreFixture, "a collection is deleted by selector", "[store]") {
  for (const char* name : {"a", "b", "c"}) {
    Json w = Workload(name);
    w["metadata"]["labels"] = {{"n", name}};
    Make(w);
  }
  ListOptions which;
  which.label_selector = "n in (a,c)";
  const Answer gone = store.DeleteCollection("user", To("workloads"), which, {});
  CHECK(gone.code == 200);
  CHECK(gone.body["items"].size() == 2);
  CHECK(store.List(To("workloads"), {}).body["items"].size() == 1);
}

}  // namespace
}  // namespace muster::sim
