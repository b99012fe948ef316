// The policies on Jobs, as the API server runs them: who is suspended, who may start what, and what a user is told.

#include <catch2/catch.hpp>

#include "fixture/text.h"
#include "muster/controller/policies.h"
#include "world.h"

namespace muster::config_test {
namespace {

using Catch::Contains;
using cluster::Cat;
using cluster::Cluster;
using cluster::Eventually;
using cluster::Quote;

constexpr char kQueue[] = "kueue.x-k8s.io/queue-name";
constexpr char kRecord[] = "muster.dev/admission";

std::string Label(const ApiResponse& job, std::string_view name) {
  return job.json.At("metadata/labels")[name].Str("(none)");
}
bool HasRecord(const ApiResponse& job) { return !job.json.At("metadata/annotations")[kRecord].IsNull(); }

std::string LabelPatch(const std::string& name, const std::string& value) {
  return Cat(R"({"metadata": {"labels": {")", name, R"(": )", value, "}}}");
}

// A queued Job that Muster has started, with a record.
void Running(const std::string& ns, const std::string& name, const std::string& metadata = "",
             const std::string& spec = "") {
  World& world = Shared();
  const ApiResponse created = Create(
      *world.user, Jobs(ns), JobYaml(name, metadata.empty() ? Cat("labels: {", kQueue, ": lq}") : metadata, spec));
  INFO(created.text);
  REQUIRE(created.status == 201);
  const ApiResponse started = Patch(
      *world.muster, Cat(Jobs(ns), "/", name),
      Cat(R"({"metadata": {"annotations": {")", kRecord, R"(": "record of Muster"}}, "spec": {"suspend": false}})"));
  INFO(started.text);
  REQUIRE(started.ok());
}

TEST_CASE("a Job with a queue name is suspended on its way in, whoever writes it") {
  World& world = Shared();
  for (ApiClient* client : {world.user.get(), &world.admin()}) {
    for (const char* spec : {"", "suspend: false", "suspend: true"}) {
      INFO(spec);
      const ApiResponse job = Create(*client, Jobs("team"), QueuedJob("in", "lq", spec), "dryRun=All");
      REQUIRE(job.status == 201);
      CHECK(job.json.At("spec/suspend").Bool());
      CHECK(Label(job, kQueue) == "lq");
    }
  }
}

TEST_CASE("a Job without a queue name is left alone where there is no default queue") {
  World& world = Shared();
  for (const std::string& metadata : {std::string(), Cat("labels: {", kQueue, ": ''}")}) {
    const ApiResponse job = Create(*world.user, Jobs("team"), JobYaml("free", metadata), "dryRun=All");
    REQUIRE(job.status == 201);
    CHECK_FALSE(job.json.At("spec/suspend").Bool());
  }
}

TEST_CASE("Jobs of Muster's own and the system's namespaces are left alone, queue name or not") {
  World& world = Shared();
  for (const char* ns : {"muster-system", "kube-system"}) {
    const ApiResponse job = Create(world.admin(), Jobs(ns), QueuedJob("own"), "dryRun=All");
    REQUIRE(job.status == 201);
    CHECK_FALSE(job.json.At("spec/suspend").Bool());
  }
}

TEST_CASE("a LocalQueue named default takes the Jobs that name none") {
  World& world = Shared();
  for (const std::string& metadata :
       {std::string(), Cat("labels: {", kQueue, ": ''}"), std::string("labels: {a: b}")}) {
    INFO(metadata);
    const ApiResponse job = Create(*world.user, Jobs("homed"), JobYaml("some", metadata), "dryRun=All");
    INFO(job.text);
    REQUIRE(job.status == 201);
    CHECK(Label(job, kQueue) == "default");
    CHECK(job.json.At("spec/suspend").Bool());
  }
  const ApiResponse other = Create(*world.user, Jobs("homed"), QueuedJob("some", "mine"), "dryRun=All");
  CHECK(Label(other, kQueue) == "mine");
}

// By it a Job would look as if it had been started with the admission of that Workload.
TEST_CASE("the annotation that names a Job's Workload is put into its template by Muster alone") {
  World& world = Shared();
  const auto with = [](const std::string& name, const char* queue, const char* workload) {
    return Cat("{apiVersion: batch/v1, kind: Job, metadata: {name: ", name, ", labels: {", kQueue, ": '", queue,
               "'}}, spec: {suspend: true, template: {metadata: {annotations: {kueue.x-k8s.io/workload: '", workload,
               "'}}, spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}");
  };
  CHECK_THAT(
      Refusal(Create(*world.user, Jobs("team"), with("forged", "lq", "own"), "dryRun=All")),
      Contains("spec.template.metadata.annotations[kueue.x-k8s.io/workload]: \"own\" is written by Muster alone; "
               "remove it from the manifest"));
  CHECK(Create(*world.user, Jobs("team"), with("free", "", "own"), "dryRun=All").status == 201);
  REQUIRE(Create(*world.user, Jobs("team"), with("unforged", "lq", "")).status == 201);
  const std::string path = Cat(Jobs("team"), "/unforged");
  const auto patch = [](const char* workload) {
    return Cat(R"({"spec": {"template": {"metadata": {"annotations": {"kueue.x-k8s.io/workload": )", workload, "}}}}}");
  };
  CHECK_THAT(Refusal(Patch(*world.user, path, patch(R"("own")"))), Contains("keep the stored value"));
  REQUIRE(Patch(*world.muster, path, patch(R"("own")")).ok());
  CHECK(Patch(*world.user, path, R"({"metadata": {"labels": {"a": "b"}}})").ok());
  CHECK_THAT(Refusal(Patch(*world.user, path, patch(R"("other")"))), Contains("keep the stored value"));
  CHECK(Patch(*world.user, path, patch("null")).ok());
}

TEST_CASE("a default queue on hold takes no Jobs by default") {
  World& world = Shared();
  REQUIRE(world.cluster->CreateNamespace("held").ok());
  REQUIRE(Create(world.admin(), Kueue(kV2, "localqueues", "held"),
                 "{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: default}, "
                 "spec: {clusterQueue: x}}")
              .status == 201);
  const auto default_label = [&] {
    return Label(Create(*world.user, Jobs("held"), JobYaml("some"), "dryRun=All"), kQueue);
  };
  REQUIRE(Eventually([&] { return default_label() == "default"; }));
  REQUIRE(Patch(world.admin(), Kueue(kV2, "localqueues/default", "held"), R"({"spec": {"stopPolicy": "Hold"}})").ok());
  CHECK(Eventually([&] { return default_label() == "(none)"; }));
}

TEST_CASE("a WorkloadPriorityClass named default is given to queued Jobs that name none") {
  World& world = Shared();
  const char* const kPriority = "kueue.x-k8s.io/priority-class";
  const auto class_of = [&](const std::string& ns, const std::string& job) {
    const ApiResponse made = Create(*world.user, Jobs(ns), job, "dryRun=All");
    INFO(made.text);
    REQUIRE(made.status == 201);
    return Label(made, kPriority);
  };
  CHECK(class_of("team", QueuedJob("some")) == "(none)");
  REQUIRE(Create(world.admin(), Kueue(kV2, "workloadpriorityclasses"),
                 "{apiVersion: kueue.x-k8s.io/v1beta2, kind: WorkloadPriorityClass, metadata: {name: default}, "
                 "value: 10}")
              .status == 201);
  CHECK(Eventually([&] { return class_of("team", QueuedJob("some")) == "default"; }));
  CHECK(class_of("team", JobYaml("some", Cat("labels: {", kQueue, ": lq, ", kPriority, ": high}"))) == "high");
  CHECK(class_of("team", JobYaml("plain")) == "(none)");
  // The queue is a default too, whichever policy comes first.
  CHECK(Eventually([&] { return class_of("homed", JobYaml("some")) == "default"; }));
  REQUIRE(world.admin().Delete(Kueue(kV2, "workloadpriorityclasses/default")).ok());
  CHECK(Eventually([&] { return class_of("team", QueuedJob("some")) == "(none)"; }));
}

TEST_CASE("the pods of a queued elastic Job are made with a scheduling gate") {
  World& world = Shared();
  const std::string elastic = "annotations: {kueue.x-k8s.io/elastic-job: 'true'}";
  const auto gates_of = [&](const std::string& ns, const std::string& metadata, const std::string& spec = "") {
    const ApiResponse made = Create(*world.user, Jobs(ns), JobYaml("some", metadata, spec), "dryRun=All");
    INFO(made.text);
    REQUIRE(made.status == 201);
    std::string names;
    for (const auto& gate : made.json.At("spec/template/spec/schedulingGates").Items())
      names += gate["name"].Str() + " ";
    return names;
  };
  const std::string queued = Cat("labels: {", kQueue, ": lq}, ");
  CHECK(gates_of("team", Cat(queued, elastic)) == "kueue.x-k8s.io/elastic-job ");
  CHECK(gates_of("team", Cat(queued, "annotations: {kueue.x-k8s.io/elastic-job: 'false'}")).empty());
  CHECK(gates_of("team", elastic).empty());
  // The queue is a default, whichever policy comes first.
  CHECK(gates_of("homed", elastic) == "kueue.x-k8s.io/elastic-job ");
}

TEST_CASE("a Job does not leave a namespace's default queue by losing its label") {
  World& world = Shared();
  REQUIRE(Create(*world.user, Jobs("homed"), JobYaml("stays")).status == 201);
  REQUIRE(Create(*world.user, Jobs("team"), QueuedJob("leaves")).status == 201);
  CHECK_THAT(Refusal(Patch(*world.user, Cat(Jobs("homed"), "/stays"), LabelPatch(kQueue, "null"))),
             Contains("metadata.labels[kueue.x-k8s.io/queue-name]: \"default\" cannot be removed in a namespace with a "
                      "LocalQueue named default"));
  CHECK_THAT(Refusal(Patch(*world.user, Cat(Jobs("homed"), "/stays"), LabelPatch(kQueue, "\"\""))),
             Contains("\"\" cannot name a LocalQueue"));
  CHECK(Patch(*world.user, Cat(Jobs("homed"), "/stays"), LabelPatch(kQueue, "\"mine\"")).ok());
  CHECK(Patch(*world.user, Cat(Jobs("team"), "/leaves"), LabelPatch(kQueue, "null")).ok());
}

TEST_CASE("a record is taken off at creation, and the rest is kept") {
  World& world = Shared();
  for (const char* label : {"", "kueue.x-k8s.io/queue-name: lq"}) {
    const ApiResponse job = Create(
        *world.user, Jobs("team"),
        JobYaml("copied", Cat("labels: {", label, "}, annotations: {", kRecord, ": forged, example.com/note: kept}")),
        "dryRun=All");
    INFO(job.text);
    REQUIRE(job.status == 201);
    CHECK_FALSE(HasRecord(job));
    CHECK(job.json.At("metadata/annotations")["example.com/note"].Str() == "kept");
  }
}

TEST_CASE("only Muster starts a queued Job and writes its record") {
  World& world = Shared();
  const std::string path = Cat(Jobs("team"), "/guarded");
  REQUIRE(Create(*world.user, Jobs("team"), QueuedJob("guarded")).status == 201);
  const std::string start = R"({"spec": {"suspend": false}})";
  const std::string record = Cat(R"({"metadata": {"annotations": {")", kRecord, R"(": "forged"}}})");
  for (ApiClient* client : {world.user.get(), &world.admin()}) {
    CHECK_THAT(Refusal(Patch(*client, path, start)),
               Contains("spec.suspend: cannot be set to false, the Job waits in LocalQueue \"lq\"; Muster starts it"));
    CHECK_THAT(Refusal(Patch(*client, path, record)),
               Contains("metadata.annotations[muster.dev/admission]: is written by Muster alone"));
    // Neither by leaving the queue in the same request, nor by dropping the field.
    CHECK_THAT(
        Refusal(Patch(*client, path,
                      Cat(R"({"metadata": {"labels": {")", kQueue, R"(": null}}, "spec": {"suspend": false}})"))),
        Contains("waits in LocalQueue \"lq\""));
    CHECK_THAT(Refusal(Patch(*client, path, R"({"spec": {"suspend": null}})")), Contains("waits in LocalQueue"));
  }
  // Both problems of one request are named.
  const std::string both =
      Cat(R"({"metadata": {"annotations": {")", kRecord, R"(": "forged"}}, "spec": {"suspend": false}})");
  CHECK_THAT(Refusal(Patch(*world.user, path, both)),
             Contains("is written by Muster alone") && Contains("spec.suspend"));

  REQUIRE(Patch(*world.muster, path, both).ok());
  CHECK_THAT(Refusal(Patch(*world.user, path, Cat(R"({"metadata": {"annotations": {")", kRecord, R"(": null}}})"))),
             Contains("keep the stored value"));
  CHECK_THAT(
      Refusal(Patch(*world.user, path, LabelPatch(kQueue, "\"other\""))),
      Contains("metadata.labels[kueue.x-k8s.io/queue-name]: cannot change from \"lq\" to \"other\" while the Job "
               "runs; suspend it first"));
  CHECK_THAT(Refusal(Patch(*world.user, path, LabelPatch(kQueue, "null"))), Contains("to \"\" while the Job runs"));
  // A user may always stop, and may then choose another queue.
  CHECK(Patch(*world.user, path, R"({"spec": {"suspend": true}})").ok());
  CHECK(Patch(*world.user, path, LabelPatch(kQueue, "\"other\"")).ok());
  CHECK_THAT(Refusal(Patch(*world.user, path, start)), Contains("waits in LocalQueue \"other\""));
}

TEST_CASE("what a Job's labels and annotations may not say cannot be written along with its status either") {
  World& world = Shared();
  const std::string path = Cat(Jobs("team"), "/by-status");
  const std::string status = path + "/status";
  REQUIRE(Create(*world.user, Jobs("team"), QueuedJob("by-status")).status == 201);
  const std::string record = Cat(R"({"metadata": {"annotations": {")", kRecord, R"(": "forged"}}})");
  CHECK_THAT(Refusal(Patch(world.admin(), status, record)),
             Contains("metadata.annotations[muster.dev/admission]: is written by Muster alone"));
  CHECK_THAT(Refusal(Patch(world.admin(), status, LabelPatch(kQueue, "\"Bad_Name\""))), Contains("cannot name"));
  // What controllers write there goes on, also together with a label of somebody else's.
  CHECK(Patch(world.admin(), status, R"({"status": {"active": 0}})").ok());
  CHECK(Patch(world.admin(), status, R"({"metadata": {"labels": {"example.com/x": "y"}}, "status": {"active": 0}})")
            .ok());
  REQUIRE(Patch(*world.muster, path,
                Cat(R"({"metadata": {"annotations": {")", kRecord, R"(": "true one"}}, "spec": {"suspend": false}})"))
              .ok());
  for (const std::string& patch : {record, Cat(R"({"metadata": {"annotations": {")", kRecord, R"(": null}}})")}) {
    CHECK_THAT(Refusal(Patch(world.admin(), status, patch)), Contains("keep the stored value"));
  }
  CHECK_THAT(Refusal(Patch(world.admin(), status, LabelPatch(kQueue, "null"))), Contains("while the Job runs"));
  CHECK(Patch(world.admin(), status, R"({"status": {"active": 0}})").ok());
  CHECK(Patch(*world.muster, status, R"({"status": {"startTime": null}})").ok());

  REQUIRE(Create(*world.user, Jobs("homed"), JobYaml("by-status")).status == 201);
  CHECK_THAT(Refusal(Patch(world.admin(), Cat(Jobs("homed"), "/by-status/status"), LabelPatch(kQueue, "null"))),
             Contains("cannot be removed in a namespace with a LocalQueue named default"));
}

TEST_CASE("an admitted Job keeps its queue name, suspended or not, until Muster has stopped it") {
  World& world = Shared();
  const std::string path = Cat(Jobs("team"), "/admitted");
  REQUIRE(Create(*world.user, Jobs("team"), QueuedJob("admitted")).status == 201);
  const auto write = [&](const char* state, bool suspend) {
    return Patch(*world.muster, path,
                 Cat(R"({"metadata": {"annotations": {")", kRecord, R"(": "{\"v\":1,\"state\":\")", state,
                     R"(\"}"}}, "spec": {"suspend": )", suspend ? "true" : "false", "}}"));
  };
  REQUIRE(write("started", false).ok());
  REQUIRE(Patch(*world.user, path, R"({"spec": {"suspend": true}})").ok());
  for (const char* value : {"null", "\"\""}) {
    CHECK_THAT(
        Refusal(Patch(*world.user, path, LabelPatch(kQueue, value))),
        Contains("metadata.labels[kueue.x-k8s.io/queue-name]: \"lq\" cannot be removed while the Job is admitted; "
                 "set spec.active of its Workload to false first"));
  }
  REQUIRE(write("stopped", true).ok());
  CHECK(Patch(*world.user, path, LabelPatch(kQueue, "null")).ok());
}

TEST_CASE("a running Job without a queue cannot take one, and a suspended one starts freely") {
  World& world = Shared();
  REQUIRE(Create(*world.user, Jobs("team"), JobYaml("runs")).status == 201);
  CHECK_THAT(Refusal(Patch(*world.user, Cat(Jobs("team"), "/runs"), LabelPatch(kQueue, "\"lq\""))),
             Contains("cannot change from \"\" to \"lq\" while the Job runs"));
  REQUIRE(Create(*world.user, Jobs("team"), JobYaml("rests", "", "suspend: true")).status == 201);
  CHECK(Patch(*world.user, Cat(Jobs("team"), "/rests"), R"({"spec": {"suspend": false}})").ok());
}

TEST_CASE("a finished Job may lose its queue name") {
  World& world = Shared();
  Running("team", "finished");
  const std::string path = Cat(Jobs("team"), "/finished");
  const ApiResponse failed = world.admin().MergePatch(
      Cat(path, "/status"), R"({"status": {"startTime": "2026-01-01T00:00:00Z", "failed": 0, "conditions": [
      {"type": "FailureTarget", "status": "True", "reason": "x", "message": "x", "lastTransitionTime": "2026-01-01T00:00:00Z"},
      {"type": "Failed", "status": "True", "reason": "x", "message": "x", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}})");
  INFO(failed.text);
  REQUIRE(failed.ok());
  CHECK(Patch(*world.user, path, LabelPatch(kQueue, "null")).ok());
}

// user_pains G9
TEST_CASE("kubectl works on queued Jobs as on any other: dry run, apply, apply again, delete") {
  World& world = Shared();
  for (const bool server_side : {false, true}) {
    INFO(server_side);
    const std::string yaml = QueuedJob("applied");
    const auto kubectl = [&](std::vector<std::string> args) {
      if (server_side && args[0] == "apply") args.push_back("--server-side");
      args.insert(args.end(), {"-n", "spare", "-f", "-"});
      absl::StatusOr<cluster::Output> output = world.cluster->Kubectl(args, yaml);
      REQUIRE(output.ok());
      INFO(output->err);
      CHECK(output->exit_code == 0);
      return output->out;
    };
    const auto generation = [&] {
      return world.admin().Get(Cat(Jobs("spare"), "/applied")).json.At("metadata/generation").Int();
    };
    kubectl({"apply", "--dry-run=server"});
    CHECK(world.admin().Get(Cat(Jobs("spare"), "/applied")).status == 404);
    kubectl({"apply"});
    kubectl({"apply"});
    CHECK(generation() == 1);
    // Once Muster has started it, the manifest says nothing of it and stays without effect.
    REQUIRE(Patch(*world.muster, Cat(Jobs("spare"), "/applied"), R"({"spec": {"suspend": false}})").ok());
    kubectl({"apply"});
    CHECK(generation() == 2);
    kubectl({"delete"});
  }
}

// user_pains H16
TEST_CASE("Jobs of a CronJob whose template carries a queue name and a record wait in the queue") {
  World& world = Shared();
  const ApiResponse created = world.admin().Call(
      "POST", "/apis/batch/v1/namespaces/spare/cronjobs",
      Cat("{apiVersion: batch/v1, kind: CronJob, metadata: {name: nightly}, spec: {schedule: '* * * * *', jobTemplate: "
          "{metadata: {labels: {",
          kQueue, ": lq}, annotations: {", kRecord,
          ": copied}}, spec: {managedBy: example.com/nobody, template: {spec: {restartPolicy: Never, containers: "
          "[{name: main, image: train}]}}}}}}"),
      "application/yaml");
  INFO(created.text);
  REQUIRE(created.status == 201);
  Json job;
  REQUIRE(Eventually(
      [&] {
        for (const Json& item : world.admin().Get(Jobs("spare")).json["items"].Items()) {
          if (item.At("metadata/ownerReferences/0/kind").Str() == "CronJob") job = item;
        }
        return !job.IsNull();
      },
      std::chrono::minutes(4)));
  CHECK(job.At("spec/suspend").Bool());
  CHECK(job.At("metadata/annotations")[kRecord].IsNull());
  CHECK(world.admin().Delete("/apis/batch/v1/namespaces/spare/cronjobs/nightly").ok());
}

struct BadJob {
  const char* metadata;
  const char* spec;
  const char* message;
};

TEST_CASE("labels and annotations of new Jobs are checked, with messages that name field and value") {
  World& world = Shared();
  const BadJob cases[] = {
      {"labels: {kueue.x-k8s.io/queue-name: Bad_Name}", "",
       "metadata.labels[kueue.x-k8s.io/queue-name]: \"Bad_Name\" cannot name a LocalQueue"},
      {"labels: {kueue.x-k8s.io/queue-name: lq, kueue.x-k8s.io/max-exec-time-seconds: '0'}", "",
       "metadata.labels[kueue.x-k8s.io/max-exec-time-seconds]: \"0\" is not a whole number of seconds"},
      {"labels: {kueue.x-k8s.io/queue-name: lq, kueue.x-k8s.io/max-exec-time-seconds: '1.5'}", "",
       "[kueue.x-k8s.io/max-exec-time-seconds]: \"1.5\" is not a whole number"},
      {"labels: {kueue.x-k8s.io/queue-name: lq, kueue.x-k8s.io/max-exec-time-seconds: ''}", "",
       "[kueue.x-k8s.io/max-exec-time-seconds]: \"\" is not a whole number"},
      {"labels: {kueue.x-k8s.io/queue-name: lq, kueue.x-k8s.io/max-exec-time-seconds: '2147483648'}", "",
       "[kueue.x-k8s.io/max-exec-time-seconds]: \"2147483648\" is not a whole number of seconds from 1 to 2147483647"},
      {"labels: {kueue.x-k8s.io/queue-name: lq}, annotations: {kueue.x-k8s.io/job-min-parallelism: '3'}",
       "parallelism: 3",
       "metadata.annotations[kueue.x-k8s.io/job-min-parallelism]: \"3\" is not a whole number greater than 0 and less "
       "than the Job's pods, 3"},
      {"labels: {kueue.x-k8s.io/queue-name: lq}, annotations: {kueue.x-k8s.io/job-min-parallelism: '2'}",
       "parallelism: 3, completions: 2", "less than the Job's pods, 2"},
      {"labels: {kueue.x-k8s.io/queue-name: lq}, annotations: {kueue.x-k8s.io/job-min-parallelism: '0'}",
       "parallelism: 3", "[kueue.x-k8s.io/job-min-parallelism]: \"0\""},
      {"labels: {kueue.x-k8s.io/queue-name: lq}, annotations: {kueue.x-k8s.io/job-min-parallelism: two}",
       "parallelism: 3", "[kueue.x-k8s.io/job-min-parallelism]: \"two\""},
      {"labels: {kueue.x-k8s.io/queue-name: lq}, annotations: {kueue.x-k8s.io/job-min-parallelism: '2', "
       "kueue.x-k8s.io/elastic-job: 'true'}",
       "parallelism: 3",
       "[kueue.x-k8s.io/job-min-parallelism]: \"2\" cannot be used together with kueue.x-k8s.io/elastic-job"},
      {"labels: {kueue.x-k8s.io/queue-name: lq}, annotations: {kueue.x-k8s.io/job-completions-equal-parallelism: "
       "'yes'}",
       "", "metadata.annotations[kueue.x-k8s.io/job-completions-equal-parallelism]: \"yes\" is neither true nor false"},
      {"labels: {kueue.x-k8s.io/queue-name: lq}, annotations: {kueue.x-k8s.io/job-completions-equal-parallelism: "
       "'true'}",
       "parallelism: 2, completions: 2", "\"true\" needs spec.completionMode Indexed"},
      {"labels: {kueue.x-k8s.io/queue-name: lq}, annotations: {kueue.x-k8s.io/job-completions-equal-parallelism: "
       "'true'}",
       "parallelism: 2, completions: 3, completionMode: Indexed", "spec.completions: 3 must equal spec.parallelism, 2"},
      {"labels: {kueue.x-k8s.io/queue-name: lq}, annotations: {kueue.x-k8s.io/prebuilt-workload-name: No_Such}", "",
       "metadata.annotations[kueue.x-k8s.io/prebuilt-workload-name]: \"No_Such\" cannot name a Workload"},
  };
  for (const BadJob& bad : cases) {
    INFO(bad.metadata << " " << bad.spec);
    CHECK_THAT(Refusal(Create(*world.user, Jobs("team"), JobYaml("bad", bad.metadata, bad.spec), "dryRun=All")),
               Contains(bad.message));
  }
}

TEST_CASE("labels and annotations at the edge of what is allowed are accepted") {
  World& world = Shared();
  const std::pair<const char*, const char*> cases[] = {
      {"labels: {kueue.x-k8s.io/queue-name: a.b-c.9}", ""},
      {"labels: {kueue.x-k8s.io/queue-name: lq, kueue.x-k8s.io/max-exec-time-seconds: '2147483647'}", ""},
      {"labels: {kueue.x-k8s.io/queue-name: lq, kueue.x-k8s.io/max-exec-time-seconds: '007'}", ""},
      {"labels: {kueue.x-k8s.io/queue-name: lq}, annotations: {kueue.x-k8s.io/job-min-parallelism: '2'}",
       "parallelism: 3"},
      {"labels: {kueue.x-k8s.io/queue-name: lq}, annotations: {kueue.x-k8s.io/job-completions-equal-parallelism: "
       "'true'}",
       "parallelism: 2, completions: 2, completionMode: Indexed"},
      {"labels: {kueue.x-k8s.io/queue-name: lq}, annotations: {kueue.x-k8s.io/job-completions-equal-parallelism: 'F'}",
       ""},
      // Not queued: nobody's business.
      {"labels: {kueue.x-k8s.io/max-exec-time-seconds: never}", ""},
  };
  for (const auto& [metadata, spec] : cases) Accept(*world.user, Jobs("team"), JobYaml("good", metadata, spec));
}

TEST_CASE("what is fixed while a Job runs is refused with its old and new value") {
  World& world = Shared();
  Running("team", "fixed",
          "labels: {kueue.x-k8s.io/queue-name: lq, kueue.x-k8s.io/max-exec-time-seconds: '9'}, annotations: "
          "{kueue.x-k8s.io/prebuilt-workload-name: made, kueue.x-k8s.io/job-min-parallelism: '2', "
          "kueue.x-k8s.io/job-completions-equal-parallelism: 'true'}",
          "parallelism: 4, completions: 4, completionMode: Indexed");
  const std::string path = Cat(Jobs("team"), "/fixed");
  const auto note = [](const char* name, const char* value) {
    return Cat(R"({"metadata": {"annotations": {"kueue.x-k8s.io/)", name, R"(": )", value, "}}}");
  };
  const std::pair<std::string, const char*> cases[] = {
      {LabelPatch("kueue.x-k8s.io/max-exec-time-seconds", "\"8\""),
       "metadata.labels[kueue.x-k8s.io/max-exec-time-seconds]: cannot change from \"9\" to \"8\" unless the Job is "
       "suspended"},
      {LabelPatch("kueue.x-k8s.io/priority-class", "\"high\""),
       "metadata.labels[kueue.x-k8s.io/priority-class]: \"high\" cannot be added while the Job runs"},
      {note("prebuilt-workload-name", "\"other\""),
       "metadata.annotations[kueue.x-k8s.io/prebuilt-workload-name]: cannot change from \"made\" to \"other\" while "
       "the "
       "Job runs"},
      {R"({"spec": {"parallelism": 3}})",
       "spec.parallelism: cannot change from 4 to 3 while the Job runs with kueue.x-k8s.io/job-min-parallelism"},
      {note("job-completions-equal-parallelism", "\"false\""),
       "cannot change from \"true\" to \"false\" while the Job runs"},
      {note("elastic-job", "\"true\""), "metadata.annotations[kueue.x-k8s.io/elastic-job]: cannot change to true"},
  };
  for (const auto& [patch, message] : cases) {
    INFO(patch);
    CHECK_THAT(Refusal(Patch(*world.user, path, patch)), Contains(message));
  }
  // Anything else goes on, as controllers need it: an unrelated label, a finalizer.
  CHECK(Patch(*world.user, path, LabelPatch("example.com/x", "\"y\"")).ok());
  CHECK(Patch(world.admin(), path, R"({"metadata": {"finalizers": ["example.com/x"]}})").ok());
  CHECK(Patch(world.admin(), path, R"({"metadata": {"finalizers": null}})").ok());
}

TEST_CASE("a priority class can be replaced at any time but not removed") {
  World& world = Shared();
  Running("team", "ranked", "labels: {kueue.x-k8s.io/queue-name: lq, kueue.x-k8s.io/priority-class: low}");
  const std::string path = Cat(Jobs("team"), "/ranked");
  CHECK(Patch(*world.user, path, LabelPatch("kueue.x-k8s.io/priority-class", "\"high\"")).ok());
  CHECK_THAT(
      Refusal(Patch(*world.user, path, LabelPatch("kueue.x-k8s.io/priority-class", "null"))),
      Contains("metadata.labels[kueue.x-k8s.io/priority-class]: \"high\" can be replaced by another class but not "
               "removed"));
}

// ---- other configurations, each on its own API server

std::unique_ptr<Cluster> BareCluster() {
  absl::StatusOr<std::unique_ptr<Cluster>> cluster =
      Cluster::Start({.scheduler = false, .kwok = false, .controllers = false});
  INFO(cluster.status());
  REQUIRE(cluster.ok());
  for (const char* part : {"/config/crd", "/config/rbac"}) {
    if (std::string_view(part) == "/config/rbac") REQUIRE((*cluster)->CreateNamespace("muster-system").ok());
    const absl::Status applied = (*cluster)->Apply(Cat(MUSTER_SOURCE_DIR, part));
    INFO(applied);
    REQUIRE(applied.ok());
  }
  REQUIRE((*cluster)->CreateNamespace("team").ok());
  (*cluster)->SubmitterKubeconfig();
  return *std::move(cluster);
}

// Muster's patch that starts a Job under `claim`.
std::string Start(const std::string& claim, bool suspend = false) {
  return Cat(R"({"metadata": {"annotations": {")", kRecord, R"(": "{\"v\":1,\"claim\":\")", claim,
             R"(\",\"uid\":\"u\"}"}}, "spec": {"suspend": )", suspend ? "true" : "false", "}}");
}

TEST_CASE("a start that a former leader decided on is refused, however late it comes") {
  World& world = Shared();
  const std::string job = Cat(Jobs("team"), "/fenced");
  REQUIRE(Create(*world.user, Jobs("team"), QueuedJob("fenced")).status == 201);
  const std::string leases = "/apis/coordination.k8s.io/v1/namespaces/muster-system/leases";
  const std::string lease = Cat(leases, "/c1f6bfd2.kueue.x-k8s.io");
  const auto try_start = [&](const std::string& claim) {
    return world.muster->MergePatch(Cat(job, "?dryRun=All"), Start(claim));
  };
  // Without a Lease nobody is held up.
  CHECK(try_start("7-1").ok());
  REQUIRE(
      Create(*world.muster, leases,
             "{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: c1f6bfd2.kueue.x-k8s.io, "
             "namespace: muster-system}, spec: {holderIdentity: me, leaseDurationSeconds: 15, leaseTransitions: 1}}")
          .status == 201);
  REQUIRE(Eventually([&] { return !try_start("1-9").ok(); }));
  CHECK_THAT(Refusal(try_start("1-9")),
             Contains(R"("claim":"1-9" was decided on by a former leader; the term now is 2)"));
  CHECK_FALSE(try_start("22-1").ok());
  CHECK(try_start("2-1").ok());
  REQUIRE(world.muster->MergePatch(job, Start("2-1")).ok());

  // The next term. What the former leader started may be stopped, and started again under the same claim: the patch
  // tests the record.
  REQUIRE(world.admin().MergePatch(lease, R"({"spec": {"leaseTransitions": 2}})").ok());
  REQUIRE(world.muster->MergePatch(job, Start("2-1", /*suspend=*/true)).ok());
  REQUIRE(Eventually([&] { return !try_start("2-2").ok(); }));
  CHECK(try_start("2-1").ok());
  CHECK(try_start("3-1").ok());
  // A Lease that was released, as one that nobody uses any more.
  REQUIRE(world.admin().MergePatch(lease, R"({"spec": {"holderIdentity": ""}})").ok());
  CHECK(Eventually([&] { return try_start("9-1").ok(); }));
  REQUIRE(world.admin().Delete(lease).ok());
  REQUIRE(Eventually([&] { return try_start("9-1").ok(); }));  // as the other tests of this file expect
}

TEST_CASE("the configuration can name other starters and parents, and manage every Job") {
  const std::unique_ptr<Cluster> cluster = BareCluster();
  controller::PolicyOptions options;
  options.allowed_starters = {"bench"};
  options.parents = {{"jobset", "jobset.x-k8s.io", "JobSet"}};
  options.manage_jobs_without_queue_name = true;
  REQUIRE(cluster->ApplyText(controller::GeneratePolicies(options)).ok());
  const std::string rules = R"([{"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create", "patch"]}])";
  for (const char* user : {"bench", "jobset"}) {
    REQUIRE(cluster->Grant(user, rules, Cat(R"({"kind": "User", "name": ")", user, R"("})")).ok());
  }
  const auto bench = ClientAs(*cluster, "bench");
  const auto jobset = ClientAs(*cluster, "jobset");
  const auto user = ClientAs(*cluster, "submitter");
  const auto suspended = [](const ApiResponse& job) { return job.json.At("spec/suspend").Bool(); };

  // Every Job waits, with a queue name or without.
  REQUIRE(Eventually([&] { return suspended(Create(*user, Jobs("team"), JobYaml("probe"), "dryRun=All")); }));
  REQUIRE(Eventually(
      [&] { return Create(*user, Jobs("team"), QueuedJob("probe", "Bad_Name"), "dryRun=All").status == 422; }));
  REQUIRE(Create(*user, Jobs("team"), JobYaml("plain")).status == 201);
  CHECK_THAT(Refusal(Patch(*user, Cat(Jobs("team"), "/plain"), R"({"spec": {"suspend": false}})")),
             Contains("spec.suspend: cannot be set to false"));

  // A starter does what Muster does.
  const ApiResponse started =
      Patch(*bench, Cat(Jobs("team"), "/plain"),
            Cat(R"({"metadata": {"annotations": {")", kRecord, R"(": "bench"}}, "spec": {"suspend": false}})"));
  INFO(started.text);
  CHECK(started.ok());

  // A parent's child is known by who writes it and by its owner; either alone is not enough.
  const auto owned = [](const char* kind, const char* version, const char* controller) {
    return Cat("ownerReferences: [{apiVersion: ", version, ", kind: ", kind,
               ", name: p, uid: u, controller: ", controller, "}], labels: {", kQueue, ": lq}");
  };
  const std::string child = owned("JobSet", "jobset.x-k8s.io/v1alpha2", "true");
  const auto create = [&](ApiClient& client, const std::string& metadata) {
    const ApiResponse job = Create(client, Jobs("team"), JobYaml("child", metadata), "dryRun=All");
    INFO(job.text);
    REQUIRE(job.status == 201);
    return suspended(job);
  };
  CHECK_FALSE(create(*jobset, child));
  CHECK_THAT(Refusal(Create(*user, Jobs("team"), JobYaml("child", child), "dryRun=All")),
             Contains("metadata.ownerReferences: only the controller of this owner may create or queue Jobs"));
  CHECK(create(*jobset, Cat("labels: {", kQueue, ": lq}")));
  CHECK(create(*jobset, owned("JobSet", "other.io/v1", "true")));
  CHECK(create(*jobset, owned("PodSet", "jobset.x-k8s.io/v1alpha2", "true")));
  CHECK(create(*jobset, owned("JobSet", "jobset.x-k8s.io/v1alpha2", "false")));
  // And its parent's controller resumes it.
  REQUIRE(Create(*jobset, Jobs("team"), JobYaml("child", child, "suspend: true")).status == 201);
  CHECK_THAT(Refusal(Patch(*user, Cat(Jobs("team"), "/child"), R"({"spec": {"suspend": false}})")),
             Contains("spec.suspend"));
  CHECK(Patch(*jobset, Cat(Jobs("team"), "/child"), R"({"spec": {"suspend": false}})").ok());
  // Others may go on writing to it, and may not make another Job look like it.
  CHECK(Patch(*user, Cat(Jobs("team"), "/child"), R"({"metadata": {"labels": {"a": "b"}}})").ok());
  CHECK_THAT(Refusal(Patch(*user, Cat(Jobs("team"), "/plain"),
                           R"({"metadata": {"ownerReferences": [{"apiVersion": "jobset.x-k8s.io/v1alpha2",
                               "kind": "JobSet", "name": "p", "uid": "u", "controller": true}]}})")),
             Contains("metadata.ownerReferences"));
}

TEST_CASE("without mutating policies what they would mend is refused") {
  const std::unique_ptr<Cluster> cluster = BareCluster();
  REQUIRE(cluster->ApplyText(controller::GeneratePolicies({}, controller::PolicyKinds::kValidating)).ok());
  const auto user = ClientAs(*cluster, "submitter");
  REQUIRE(Eventually([&] { return Create(*user, Jobs("team"), QueuedJob("probe"), "dryRun=All").status == 422; }));
  CHECK_THAT(Refusal(Create(*user, Jobs("team"), QueuedJob("new"), "dryRun=All")),
             Contains("spec.suspend: must be true in a new Job with the queue name \"lq\"; Muster starts it"));
  Accept(*user, Jobs("team"), QueuedJob("new", "lq", "suspend: true"));
  CHECK_THAT(
      Refusal(
          Create(*user, Jobs("team"),
                 JobYaml("new", Cat("labels: {", kQueue, ": lq}, annotations: {", kRecord, ": x}"), "suspend: true"),
                 "dryRun=All")),
      Contains("metadata.annotations[muster.dev/admission]: is written by Muster alone; remove it from the manifest"));

  const auto queue = [](std::string_view version, const char* spec) {
    return Cat("{apiVersion: kueue.x-k8s.io/", version, ", kind: ClusterQueue, metadata: {name: q}, spec: {", spec,
               "}}");
  };
  ApiClient& admin = cluster->Api();
  const auto create = [&](std::string_view version, const char* spec) {
    return Refusal(Create(admin, Kueue(version, "clusterqueues"), queue(version, spec), "dryRun=All"));
  };
  REQUIRE(Eventually([&] { return create(kV1, "cohort: x").find("accepted") == std::string::npos; }));
  CHECK_THAT(create(kV1, "cohort: x"),
             Contains("spec.cohort: \"x\" needs the MutatingAdmissionPolicy muster-clusterqueue-twins"));
  CHECK_THAT(create(kV1, "admissionChecks: [a]"),
             Contains("spec.admissionChecks: [a] needs the MutatingAdmissionPolicy muster-clusterqueue-twins"));
  Accept(admin, Kueue(kV2, "clusterqueues"), queue(kV2, "cohortName: x"));
  Accept(admin, Kueue(kV1, "clusterqueues"), queue(kV1, "queueingStrategy: StrictFIFO"));
}

}  // namespace
}  // namespace muster::config_test
