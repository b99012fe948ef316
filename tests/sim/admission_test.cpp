#include "muster/sim/admission.h"

#include <catch2/catch.hpp>
#include <string>

#include "store_fixture.h"

namespace muster::sim {
namespace {

constexpr const char* kMuster = "system:serviceaccount:muster-system:muster";

struct PolicyFixture : StoreFixture {
  PolicyFixture() { AddMusterPolicies({}, &store.admission()); }
  static Json Queued(const std::string& name, bool suspend = false) {
    Json job = Job(name);
    job["spec"]["suspend"] = suspend;
    job["metadata"]["labels"] = {{"kueue.x-k8s.io/queue-name", "lq"}};
    return job;
  }
};

TEST_CASE_METHOD(PolicyFixture, "a Job with a queue name is suspended at creation; others are not", "[admission]") {
  CHECK(Make(Queued("a"))["spec"]["suspend"] == true);
  Json plain = Job("b");
  plain["spec"]["suspend"] = false;
  CHECK(Make(plain)["spec"]["suspend"] == false);
  Json empty = Queued("c");
  empty["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "";
  CHECK(Make(empty)["spec"]["suspend"] == false);
}

TEST_CASE_METHOD(PolicyFixture, "a record at creation is taken out, unless Muster wrote it", "[admission]") {
  Json job = Queued("a");
  job["metadata"]["annotations"] = {{"muster.dev/admission", "{}"}, {"other", "x"}};
  CHECK(At(Make(job), "metadata", "annotations") == Json({{"other", "x"}}));
  job["metadata"]["name"] = "b";
  const Answer own = Create(job, kMuster);
  CHECK(own.code == 201);
  CHECK(At(own.body, "metadata", "annotations", "muster.dev/admission") == "{}");
}

TEST_CASE_METHOD(PolicyFixture, "only Muster starts a queued Job and writes its record", "[admission]") {
  Make(Queued("a"));
  const Target a = To("jobs", "a");
  const std::string start = R"({"metadata":{"annotations":{"muster.dev/admission":"r"}},"spec":{"suspend":false}})";
  const Answer refused = Merge(a, R"({"spec":{"suspend":false}})");
  CHECK(refused.code == 422);
  CHECK(refused.reason() == "Invalid");
  CHECK(refused.message() ==
        "jobs.batch \"a\" is forbidden: ValidatingAdmissionPolicy 'muster-record' with binding 'muster-record' denied "
        "request: spec.suspend: the Job waits in LocalQueue lq; Muster starts it");
  CHECK(Merge(a, start).code == 422);
  CHECK(Merge(a, R"({"metadata":{"labels":{"kueue.x-k8s.io/queue-name":"other"}}})").code == 200);
  CHECK(Merge(a, start, kMuster).code == 200);
  CHECK(Merge(a, R"({"metadata":{"labels":{"kueue.x-k8s.io/queue-name":"third"}}})").code == 422);
  CHECK(Merge(a, R"({"metadata":{"annotations":{"muster.dev/admission":null}}})").code == 422);
  CHECK(Merge(a, R"({"metadata":{"annotations":{"mine":"x"}}})").code == 200);
  CHECK(Merge(a, R"({"spec":{"suspend":true}})").code == 200);  // a user may suspend what runs
}

TEST_CASE_METHOD(PolicyFixture, "policies that are missing do nothing", "[admission]") {
  store.admission().SetAllEnabled(false);
  CHECK(Make(Queued("a"))["spec"]["suspend"] == false);
  store.admission().SetEnabled("muster-suspend", true);
  CHECK(Make(Queued("b"))["spec"]["suspend"] == true);
  CHECK(Merge(To("jobs", "b"), R"({"spec":{"suspend":false}})").code == 200);
}

TEST_CASE_METHOD(PolicyFixture, "a plug-in may look at what is deleted", "[admission]") {
  store.admission().AddValidating("keep", [](const AdmissionRequest& request, const Json& object) {
    std::optional<std::string> why;
    if (request.operation == AdmissionRequest::Operation::kDelete && At(object, "metadata", "name") == "kept") {
      why = "it stays";
    }
    return why;
  });
  Make(Workload("kept"));
  Make(Workload("other"));
  CHECK(Delete(To("workloads", "kept")).code == 422);
  CHECK(Delete(To("workloads", "other")).code == 200);
}

}  // namespace
}  // namespace muster::sim
