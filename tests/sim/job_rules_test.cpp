// batch/v1 Job as kube-apiserver 1.36.3 treats it: defaults as recorded, immutable fields as tried.
#include <catch2/catch.hpp>
#include <string>

#include "store_fixture.h"

namespace muster::sim {
namespace {

TEST_CASE_METHOD(StoreFixture, "a minimal Job is defaulted", "[job_rules]") {
  const Json job = Make(Job("a"));
  const std::string uid = Text(At(job, "metadata", "uid"));
  const Json labels = {{"batch.kubernetes.io/controller-uid", uid},
                       {"batch.kubernetes.io/job-name", "a"},
                       {"controller-uid", uid},
                       {"job-name", "a"}};
  CHECK(job["metadata"]["labels"] == labels);  // a Job without labels shares its template's
  CHECK(job["status"] == Json::object());
  Json spec = Parse(R"({"backoffLimit":6,"completionMode":"NonIndexed","completions":1,"manualSelector":false,
    "parallelism":1,"podReplacementPolicy":"TerminatingOrFailed","suspend":true,
    "template":{"spec":{"containers":[{"image":"x","imagePullPolicy":"Always","name":"c","resources":{},
      "terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}],
      "dnsPolicy":"ClusterFirst","restartPolicy":"Never","schedulerName":"default-scheduler","securityContext":{},
      "terminationGracePeriodSeconds":30}}})");
  spec["selector"] = {{"matchLabels", {{"batch.kubernetes.io/controller-uid", uid}}}};
  spec["template"]["metadata"]["labels"] = labels;
  CHECK(job["spec"] == spec);
}

TEST_CASE_METHOD(StoreFixture, "defaults depend on what is given", "[job_rules]") {
  Json queue = Job("work-queue");
  queue["spec"]["parallelism"] = 4;
  CHECK(At(Make(queue), "spec", "completions").is_null());
  Json serial = Job("serial");
  serial["spec"]["completions"] = 4;
  serial["spec"].erase("suspend");
  const Json made = Make(serial);
  CHECK(At(made, "spec", "parallelism") == 1);
  CHECK(At(made, "spec", "suspend") == false);
  Json tagged = Job("tagged");
  tagged["spec"]["template"]["spec"]["containers"][0]["image"] = "registry.example.com:5000/work:1";
  CHECK(At(Make(tagged), "spec", "template", "spec", "containers")[0]["imagePullPolicy"] == "IfNotPresent");
  Json labelled = Job("labelled");
  labelled["metadata"]["labels"] = {{"kueue.x-k8s.io/queue-name", "lq"}};
  CHECK(At(Make(labelled), "metadata", "labels") == Json({{"kueue.x-k8s.io/queue-name", "lq"}}));
}

TEST_CASE_METHOD(StoreFixture, "what a Job must have", "[job_rules]") {
  const auto refused = [&](const std::string& patch) {
    Json job = Job("bad");
    job.merge_patch(Parse(patch));
    const Answer answer = Create(job);
    INFO(answer.body);
    return answer.code;
  };
  CHECK(refused(R"({"spec":{"template":{"spec":{"restartPolicy":null}}}})") == 422);
  CHECK(refused(R"({"spec":{"template":{"spec":{"restartPolicy":"Always"}}}})") == 422);
  CHECK(refused(R"({"spec":{"parallelism":-1}})") == 422);
  CHECK(refused(R"({"spec":{"completionMode":"Indexed","parallelism":2}})") == 422);
  CHECK(refused(R"({"spec":{"template":{"spec":{"containers":[]}}}})") == 422);
  CHECK(refused(R"({"spec":{"template":{"spec":{"tolerations":[{"key":"a","operator":"Foo"}]}}}})") == 422);
  CHECK(refused(R"({"spec":{"template":{"spec":{"nodeSelector":{"a":"b c"}}}}})") == 422);
  CHECK(refused(R"({"metadata":{"name":"n64-abcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcdefghij"}})") == 422);
  CHECK(refused(R"({"spec":{"suspend":"yes"}})") == 400);
  CHECK(refused(R"({"spec":{"parallelism":"2"}})") == 400);
  CHECK(Create(Parse(R"({"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"b"},"spec":{"template":{"spec":
      {"containers":[{"name":"c","image":"x"}]}}}})"))
            .message() ==
        "Job.batch \"b\" is invalid: spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", "
        "\"Never\"");
}

TEST_CASE_METHOD(StoreFixture, "completions are immutable, except in step with parallelism when Indexed",
                 "[job_rules]") {
  Make(Job("plain"));
  const Answer refused = Merge(To("jobs", "plain"), R"({"spec":{"completions":3}})");
  CHECK(refused.code == 422);
  CHECK(refused.message() == "Job.batch \"plain\" is invalid: spec.completions: Invalid value: 3: field is immutable");
  CHECK(Merge(To("jobs", "plain"), R"({"spec":{"parallelism":3}})").code == 200);
  Json indexed = Job("indexed");
  indexed["spec"].update({{"completionMode", "Indexed"}, {"parallelism", 4}, {"completions", 4}});
  Make(indexed);
  CHECK(Merge(To("jobs", "indexed"), R"({"spec":{"completions":2}})").code == 422);
  CHECK(Merge(To("jobs", "indexed"), R"({"spec":{"completions":2,"parallelism":2}})").code == 200);
  for (const char* field : {"completionMode", "selector", "managedBy"}) {
    CHECK(Merge(To("jobs", "indexed"), R"({"spec":{")" + std::string(field) + R"(":null}})").code ==
          (std::string(field) == "managedBy" ? 200 : 422));
  }
}

// What a start injects into the pod template.
constexpr const char* kInjection = R"({"spec":{"template":{"metadata":{"labels":{"l":"1"},"annotations":{"a":"1"}},
    "spec":{"nodeSelector":{"n":"1"},"tolerations":[{"key":"t","operator":"Exists"}],"schedulingGates":[{"name":"g"}],
    "affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[]}}}}}}})";

TEST_CASE_METHOD(StoreFixture, "the template of a Job that never ran takes injections, and nothing else",
                 "[job_rules]") {
  Make(Job("j"));
  CHECK(Merge(To("jobs", "j"), kInjection).code == 200);
  CHECK(JsonPatch(To("jobs", "j"), R"([{"op":"replace","path":"/spec/template/spec/containers/0/resources",
      "value":{"requests":{"cpu":"2"}}}])")
            .code == 200);
  CHECK(JsonPatch(To("jobs", "j"), R"([{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"y"}])")
            .code == 422);
  CHECK(Merge(To("jobs", "j"), R"({"spec":{"template":{"spec":{"hostNetwork":true}}}})").code == 422);
  CHECK(Merge(To("jobs", "j"), R"({"spec":{"template":{"spec":{"affinity":{"podAffinity":{}}}}}})").code == 422);
  CHECK(Merge(To("jobs", "j"), R"({"spec":{"template":{"spec":{"affinity":null,"nodeSelector":null}}}})").code == 200);
  CHECK(At(Now(To("jobs", "j")), "spec", "template", "spec", "nodeSelector").is_null());
  // Injecting and unsuspending in one write is one update of a suspended Job.
  CHECK(Merge(To("jobs", "j"), R"({"spec":{"suspend":false,"template":{"spec":{"nodeSelector":{"z":"1"}}}}})").code ==
        200);
  CHECK(Merge(To("jobs", "j"), R"({"spec":{"template":{"spec":{"nodeSelector":{"z":"2"}}}}})").code == 422);
}

TEST_CASE_METHOD(StoreFixture, "after a stop the template is locked until the job controller has let go",
                 "[job_rules]") {
  Make(Job("j"));
  const Target job = To("jobs", "j");
  const Target status = To("jobs", "j", "status");
  const std::string restore = R"({"spec":{"template":{"spec":{"nodeSelector":{"z":"2"}}}}})";
  REQUIRE(Merge(job, R"({"spec":{"suspend":false}})").ok());
  REQUIRE(Merge(status, R"({"status":{"startTime":"2026-01-01T00:00:00Z","active":2,"ready":1}})").ok());
  REQUIRE(Merge(job, R"({"spec":{"suspend":true}})").ok());
  CHECK(Merge(job, restore).code == 422);  // startTime set, not yet Suspended
  REQUIRE(Merge(status, R"({"status":{"conditions":[{"type":"Suspended","status":"True"}],"ready":0}})").ok());
  CHECK(Merge(job, restore).code == 422);  // pods still active
  REQUIRE(Merge(status, R"({"status":{"active":0}})").ok());
  CHECK(Merge(job, restore).code == 200);  // Suspended and none active is enough on 1.36
  REQUIRE(Merge(status, R"({"status":{"startTime":null,"conditions":null}})").ok());
  CHECK(Merge(job, R"({"spec":{"template":{"spec":{"nodeSelector":{"z":"3"}}}}})").code == 200);
}

TEST_CASE_METHOD(StoreFixture, "what a typed server does not encode is not there to be tested", "[job_rules]") {
  Make(Job("j"));
  const Target job = To("jobs", "j");
  REQUIRE(Merge(job, kInjection).ok());
  REQUIRE(JsonPatch(job, R"([{"op":"remove","path":"/spec/template/spec/nodeSelector/n"},
      {"op":"remove","path":"/spec/template/spec/tolerations/0"},
      {"op":"remove","path":"/spec/template/metadata/annotations/a"}])")
              .ok());
  const Json pod_template = At(Now(job), "spec", "template");
  CHECK_FALSE(pod_template["spec"].contains("nodeSelector"));
  CHECK_FALSE(pod_template["spec"].contains("tolerations"));
  CHECK_FALSE(pod_template["metadata"].contains("annotations"));
  CHECK(JsonPatch(job, R"([{"op":"add","path":"/metadata/annotations","value":{"n":null}}])").ok());
  CHECK(At(Now(job), "metadata", "annotations", "n") == "");
}

TEST_CASE_METHOD(StoreFixture, "status transitions that the server refuses", "[job_rules]") {
  Make(Job("j"));
  const auto patch = [&](const std::string& status) {
    return Merge(To("jobs", "j", "status"), R"({"status":)" + status + "}").code;
  };
  REQUIRE(Merge(To("jobs", "j"), R"({"spec":{"suspend":false}})").ok());
  CHECK(patch(R"({"startTime":"2026-01-01T00:00:00Z","active":1})") == 200);
  CHECK(patch(R"({"startTime":"2026-01-01T00:00:09Z"})") == 422);
  CHECK(patch(R"({"startTime":null})") == 422);
  CHECK(patch(R"({"ready":2})") == 422);
  CHECK(patch(R"({"active":-1})") == 422);
  CHECK(patch(R"({"conditions":[{"type":"Complete","status":"True"}]})") == 422);
  CHECK(patch(R"({"failed":2})") == 200);
  CHECK(patch(R"({"failed":1})") == 422);
  CHECK(patch(R"({"completionTime":"2026-01-01T00:00:09Z"})") == 422);
  CHECK(patch(R"({"active":0,"succeeded":1,"completionTime":"2026-01-01T00:00:09Z","conditions":[
      {"type":"SuccessCriteriaMet","status":"True"},{"type":"Complete","status":"True"}]})") == 200);
  CHECK(patch(R"({"conditions":[]})") == 422);
}

}  // namespace
}  // namespace muster::sim
