// What a leader has to see to: late renewals, Kueue beside it, terms, and Workloads that others left behind.
#include <algorithm>
#include <catch2/catch.hpp>

#include "drills.h"
#include "muster/controller/names.h"
#include "world.h"

namespace muster::controller {
namespace {

using sim::At;
using sim::Fault;
using sim::FaultRule;
using sim::Json;
using sim::Text;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr const char* kLease = "c1f6bfd2.kueue.x-k8s.io";

std::string Claim(const World& world, const std::string& job) {
  const Json annotations = At(world.Get("jobs", "team", job), "metadata", "annotations");
  const std::string record = annotations.is_object() ? annotations.value("muster.dev/admission", "") : "";
  return record.empty() ? record : Json::parse(record)["claim"].get<std::string>();
}

void MakeKueueLease(World& world, WallTime renewed) {
  world.Create(Json::parse(R"({"apiVersion":"v1","kind":"Namespace","metadata":{"name":"kueue-system"}})"));
  Json lease = Json::parse(R"({"apiVersion":"coordination.k8s.io/v1","kind":"Lease",
    "metadata":{"name":"c1f6bfd2.kueue.x-k8s.io","namespace":"kueue-system"},
    "spec":{"holderIdentity":"kueue-0","leaseDurationSeconds":15}})");
  lease["spec"]["renewTime"] = FormatMicroTime(renewed);
  world.Create(lease);
}

void RenewKueueLease(World& world, WallTime renewed) {
  world.Patch("leases", "kueue-system", kLease, {{"spec", {{"renewTime", FormatMicroTime(renewed)}}}});
}

// Its count is out of all bounds.
Json MakeUnreadableJob(World& world, const std::string& name) {
  Json job = Json::parse(R"({"apiVersion":"batch/v1","kind":"Job","metadata":{"namespace":"team",
    "labels":{"kueue.x-k8s.io/queue-name":"lq"}},"spec":{"suspend":true,"completions":3000000000,"template":{
    "spec":{"restartPolicy":"Never","containers":[{"name":"main","image":"work:1"}]}}}})");
  job["metadata"]["name"] = name;
  return world.Create(std::move(job));
}

bool Leads(const Process& process) { return process.controller->health().leading; }

// The write gate closes 10 s after the last renewal was sent; leadership ends when renewing has been tried for 10 s,
// which begins up to 2 s later. A renewal that is answered in between keeps the leader, and it has to go on.
TEST_CASE("What happens while the write gate is closed is decided on when a late renewal opens it") {
  World world;
  Process& muster = world.Start("a");
  world.MakeQueues("4");
  REQUIRE(world.RunUntil([&] { return Leads(muster); }));
  world.RunFor(seconds(5));
  FaultRule rule;
  rule.user = World::kMuster;
  rule.verbs = {"update"};
  rule.resource = "leases";
  rule.times = -1;
  rule.fault.kind = Fault::Kind::kAnswer;
  rule.fault.status = 500;
  // From just after a renewal on.
  bool renewed = false;
  world.server.SetObserver([&](const sim::ApiRequest& request, sim::SimServer::Phase at) {
    renewed = renewed ||
              (at == sim::SimServer::Phase::kAnswered && request.verb == "update" && request.Resource() == "leases");
  });
  REQUIRE(world.RunUntil([&] { return renewed; }));
  const auto id = world.server.faults().Add(rule);
  world.RunFor(seconds(9));
  world.server.faults().Remove(id);
  rule.times = 1;
  rule.fault.kind = Fault::Kind::kDelayAnswer;
  rule.fault.delay = milliseconds(1'500);
  world.server.faults().Add(rule);
  world.RunFor(milliseconds(1'300));
  world.MakeJob("late", 2, 5);
  world.RunFor(milliseconds(700));
  REQUIRE(Suspended(world, "late"));
  CHECK(world.RunUntil([&] { return world.Finished("late"); }, seconds(60)));
  CHECK_FALSE(muster.lost_leadership);
}

TEST_CASE("Kueue's lease counts as held until it was unchanged for its duration, whatever its times say") {
  // Kueue's clock is an hour behind: by the wall clock its lease has run out long ago.
  World world;
  MakeKueueLease(world, {world.executor.Now().unix_nanos - Duration(minutes(60)).count()});
  Process& muster = world.Start("a");
  for (int i = 0; i < 20; ++i) {
    world.RunFor(seconds(2));
    RenewKueueLease(world, {world.executor.Now().unix_nanos - Duration(minutes(60)).count()});
    REQUIRE_FALSE(Leads(muster));
  }
  CHECK_THAT(muster.controller->health().problems.at(0), Catch::Contains("kueue-0"));
  // And one that is an hour ahead does not keep a lease alive that nobody renews.
  RenewKueueLease(world, world.executor.Now() + minutes(60));
  CHECK(world.RunUntil([&] { return Leads(muster); }, minutes(2)));
}

TEST_CASE("A leader gives up when Kueue comes to life beside it") {
  World world;
  Process& muster = world.Start("a");
  world.MakeQueues("4");
  REQUIRE(world.RunUntil([&] { return Leads(muster); }));
  MakeKueueLease(world, world.executor.Now());
  CHECK(world.RunUntil([&] { return muster.lost_leadership; }, seconds(10)));
  CHECK_FALSE(Leads(muster));
  CHECK_THAT(muster.controller->health().problems.at(0), Catch::Contains("kueue-0"));
  const size_t before = world.server.writes().size();
  world.MakeJob("job-0", 2, 5);
  world.RunFor(seconds(10));
  CHECK(world.Writes(before)["patch jobs"] == 0);
}

TEST_CASE("Kueue that comes to life while a new leader waits keeps it from deciding") {
  World world;
  world.MakeQueues("4");
  Process& muster = world.Start("a");
  REQUIRE(world.RunUntil([&] { return !world.Get("leases", "muster-system", kLease).is_null(); }));
  MakeKueueLease(world, world.executor.Now());
  world.MakeJob("job-0", 2, 5);
  for (int i = 0; i < 10; ++i) {
    world.RunFor(seconds(2));
    RenewKueueLease(world, world.executor.Now());
  }
  CHECK_FALSE(Leads(muster));
  CHECK(Suspended(world, "job-0"));
  CHECK(world.RunUntil([&] { return world.Finished("job-0"); }, minutes(2)));
}

Json Webhooks(const std::string& kind, const std::string& name, const std::string& ns, const std::string& group) {
  return {{"apiVersion", "admissionregistration.k8s.io/v1"},
          {"kind", kind},
          {"metadata", {{"name", name}}},
          {"webhooks",
           {{{"name", "m.example.com"},
             {"clientConfig", {{"service", {{"namespace", ns}, {"name", "webhook-service"}, {"path", "/x"}}}}},
             {"rules",
              {{{"apiGroups", {group}}, {"apiVersions", {"*"}}, {"operations", {"CREATE"}}, {"resources", {"*"}}}}},
             {"sideEffects", "None"},
             {"admissionReviewVersions", {"v1"}}}}}};
}

// With nobody behind them the API server would refuse Jobs and queues.
TEST_CASE("Webhooks that Kueue left behind keep Muster from leading, under any name") {
  World world;
  // By name; and by whom they ask about what. Those of others do not count.
  world.Create(Webhooks("ValidatingWebhookConfiguration", "kueue-validating-webhook-configuration", "gone", "batch"));
  world.Create(Webhooks("MutatingWebhookConfiguration", "queue-system-mutating", "kueue-system", "kueue.x-k8s.io"));
  world.Create(Webhooks("MutatingWebhookConfiguration", "neighbour", "kueue-system", "batch"));
  world.Create(Webhooks("ValidatingWebhookConfiguration", "gatekeeper", "gatekeeper-system", "kueue.x-k8s.io"));
  Process& muster = world.Start("a");
  world.RunFor(minutes(3));
  CHECK_FALSE(Leads(muster));
  CHECK(muster.controller->health().problems ==
        std::vector<std::string>{
            "Kueue's webhooks remain: MutatingWebhookConfiguration queue-system-mutating; Kueue's webhooks remain: "
            "ValidatingWebhookConfiguration kueue-validating-webhook-configuration"});
  CHECK(world.Get("leases", "muster-system", kLease).is_null());
  world.Delete("mutatingwebhookconfigurations", "", "queue-system-mutating");
  world.RunFor(seconds(20));
  CHECK_FALSE(Leads(muster));
  world.Delete("validatingwebhookconfigurations", "", "kueue-validating-webhook-configuration");
  CHECK(world.RunUntil([&] { return Leads(muster); }, seconds(30)));
  CHECK(muster.controller->health().problems.empty());
}

TEST_CASE("A leader gives up when Kueue's webhooks are installed beside it") {
  World world;
  Process& muster = world.Start("a");
  REQUIRE(world.RunUntil([&] { return Leads(muster); }));
  world.Create(Webhooks("MutatingWebhookConfiguration", "kueue-mutating-webhook-configuration", "elsewhere", "batch"));
  CHECK(world.RunUntil([&] { return muster.lost_leadership; }, minutes(2)));
}

TEST_CASE("Webhooks that may not be read count as none, and those that cannot be read now keep from leading") {
  World world;
  FaultRule rule;
  rule.user = World::kMuster;
  rule.verbs = {"list"};
  rule.resource = "mutatingwebhookconfigurations";
  rule.times = -1;
  rule.fault.kind = Fault::Kind::kAnswer;
  rule.fault.status = 500;
  const auto broken = world.server.faults().Add(rule);
  Process& muster = world.Start("a");
  world.RunFor(minutes(1));
  CHECK_FALSE(Leads(muster));
  REQUIRE(muster.controller->health().problems.size() == 1);
  CHECK_THAT(muster.controller->health().problems[0],
             Catch::StartsWith("mutatingwebhookconfigurations cannot be read: "));
  world.server.faults().Remove(broken);
  rule.fault.status = 403;
  world.server.faults().Add(rule);
  CHECK(world.RunUntil([&] { return Leads(muster); }, seconds(30)));
}

// Terms count transitions of the Lease; one that is made anew begins at the first.
TEST_CASE("A leader on a new Lease waits for the former one's writes, and its claims are of a later term") {
  World world;
  Process& first = world.Start("a");
  world.MakeQueues("4");
  world.MakeJob("job-0", 2, 300);
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "job-0"); }));
  const std::string claim = Claim(world, "job-0");
  CHECK(claim.starts_with("1-"));
  world.Kill(first);
  world.Delete("leases", "muster-system", kLease);
  world.MakeJob("job-1", 2, 300);

  Process& second = world.Start("b");
  REQUIRE(world.RunUntil([&] { return !world.Get("leases", "muster-system", kLease).is_null(); }));
  world.RunFor(World::DefaultOptions().takeover_wait - milliseconds(100));
  CHECK_FALSE(Leads(second));
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "job-1"); }));
  CHECK(Claim(world, "job-0") == claim);
  CHECK(Claim(world, "job-1").starts_with("2-"));
  // The fence policy compares claims with this.
  CHECK(sim::Number(At(world.Get("leases", "muster-system", kLease), "spec", "leaseTransitions")) == 1);
}

// A start that is still on its way shows nowhere yet.
TEST_CASE("A process without leader election waits for the writes of a former one before it decides") {
  World world;
  world.MakeQueues("2");
  Process& first = world.Start();
  REQUIRE(world.RunUntil([&] { return Leads(first); }));
  FaultRule rule;
  rule.user = World::kMuster;
  rule.verbs = {"patch"};
  rule.resource = "jobs";
  rule.name = "job-0";
  rule.fault.kind = Fault::Kind::kDelayRequest;
  rule.fault.delay = seconds(4);
  const auto id = world.server.faults().Add(rule);
  world.MakeJob("job-0", 2, 60);
  REQUIRE(world.RunUntil([&] { return world.server.faults().hits(id) == 1; }));
  world.Kill(first);
  world.MakeJob("job-1", 2, 60);
  Process& second = world.Launch();
  world.RunFor(World::DefaultOptions().takeover_wait - milliseconds(100));
  CHECK_FALSE(Leads(second));
  for (int i = 0; i < 20; ++i) {
    world.RunFor(seconds(1));
    CHECK((Suspended(world, "job-0") || Suspended(world, "job-1")));
  }
  REQUIRE(world.RunUntil([&] { return world.Finished("job-0") && world.Finished("job-1"); }, minutes(5)));
}

// Nobody answers the conversion any more: objects that were stored in v1beta1 cannot be read.
TEST_CASE("Conversion by Kueue's webhook that was left in the CRDs is a standing problem that says what to do") {
  World world;
  const auto crd = [](const std::string& plural, const Json& conversion) -> Json {
    return {{"apiVersion", "apiextensions.k8s.io/v1"},
            {"kind", "CustomResourceDefinition"},
            {"metadata", {{"name", plural + ".kueue.x-k8s.io"}}},
            {"spec", {{"group", "kueue.x-k8s.io"}, {"conversion", conversion}}}};
  };
  for (const char* plural : {"workloads", "clusterqueues"}) world.Create(crd(plural, {{"strategy", "Webhook"}}));
  world.Create(crd("localqueues", {{"strategy", "None"}}));
  Process& muster = world.Start("a");
  REQUIRE(world.RunUntil([&] { return Leads(muster); }, minutes(2)));
  REQUIRE(muster.controller->health().problems.size() == 1);
  CHECK_THAT(muster.controller->health().problems[0],
             Catch::Contains("clusterqueues.kueue.x-k8s.io, workloads.kueue.x-k8s.io") &&
                 Catch::Contains("kubectl patch crd NAME"));
  for (const char* plural : {"workloads", "clusterqueues"}) {
    world.Patch("customresourcedefinitions", "", std::string(plural) + ".kueue.x-k8s.io",
                {{"spec", {{"conversion", {{"strategy", "None"}}}}}});
  }
  CHECK(world.RunUntil([&] { return muster.controller->health().problems.empty(); }, minutes(2)));
}

// user_pains G7
TEST_CASE("Rights that Muster lacks are named at its start, each, until it has them") {
  World world;
  world.server.SetAuthorizer([](const sim::ApiRequest& request) {
    return request.user != World::kMuster || !((request.verb == "patch" && request.Resource() == "jobs/status") ||
                                               (request.verb == "delete" && request.Resource() == "workloads"));
  });
  Process& muster = world.Start("a");
  REQUIRE(world.RunUntil([&] { return Leads(muster); }, minutes(2)));
  CHECK(muster.controller->health().problems ==
        std::vector<std::string>{
            "missing rights: patch jobs.batch/status, delete workloads.kueue.x-k8s.io; apply config/rbac"});
  world.server.SetAuthorizer(nullptr);
  CHECK(world.RunUntil([&] { return muster.controller->health().problems.empty(); }, minutes(2)));
}

// The policies would refuse each start: they let through one user.
TEST_CASE("A Muster that runs as another user than the policies let through says so, with the remedy") {
  World world;
  Options options = World::DefaultOptions();
  SECTION("as its ServiceAccount") {}
  SECTION("as a starter that the configuration allows") {
    options.service_account = "other";
    options.allowed_starters = {World::kMuster};
  }
  SECTION("as somebody else") { options.service_account = "other"; }
  const bool good = options.service_account == "muster" || !options.allowed_starters.empty();
  Process& muster = world.Start("a", options);
  REQUIRE(world.RunUntil([&] { return Leads(muster); }, minutes(2)));
  const std::vector<std::string> problems = muster.controller->health().problems;
  REQUIRE(problems.size() == (good ? 0 : 1));
  if (good) return;
  CHECK_THAT(problems[0], Catch::Contains(World::kMuster) &&
                              Catch::Contains("system:serviceaccount:muster-system:other") &&
                              Catch::Contains("muster.allowedStarters"));
}

// ---- Workloads of others ------------------------------------------------------------------------

Json ForeignWorkload(const std::string& name, const std::string& kind, const std::string& api_version,
                     const std::string& owner, const std::string& uid) {
  return {{"apiVersion", "kueue.x-k8s.io/v1beta2"},
          {"kind", "Workload"},
          {"metadata",
           {{"namespace", "team"},
            {"name", name},
            {"labels", {{"kueue.x-k8s.io/job-uid", uid}}},
            {"ownerReferences",
             {{{"apiVersion", api_version}, {"kind", kind}, {"name", owner}, {"uid", uid}, {"controller", true}}}}}},
          {"spec",
           {{"queueName", "lq"},
            {"podSets",
             {{{"name", "main"},
               {"count", 1},
               {"template",
                {{"spec", {{"restartPolicy", "Never"}, {"containers", {{{"name", "c"}, {"image", "i"}}}}}}}}}}}}}};
}

// user_pains H10
TEST_CASE("Only Workloads of batch Jobs that are gone are declared finished") {
  World world(1, false);
  world.MakeQueues("4");
  world.Create(ForeignWorkload("jobset-a", "JobSet", "jobset.x-k8s.io/v1alpha2", "a", "uid-a"));
  world.Create(ForeignWorkload("job-like-b", "Job", "batch.volcano.sh/v1alpha1", "b", "uid-b"));
  world.Create(ForeignWorkload("job-gone", "Job", "batch/v1", "gone", "uid-gone"));
  // Its name was taken by another Job since.
  world.MakeJob("again", 1, 5);
  world.Create(ForeignWorkload("job-again", "Job", "batch/v1", "again", "uid-of-the-former"));
  // A Job that cannot be read exists all the same.
  const std::string uid = Text(At(MakeUnreadableJob(world, "strange"), "metadata", "uid"));
  world.Create(ForeignWorkload("job-strange", "Job", "batch/v1", "strange", uid));

  Process& muster = world.Start("a");
  REQUIRE(world.RunUntil([&] { return Leads(muster); }));
  world.RunFor(seconds(20));
  const auto finished = [&world](const char* name) {
    return sim::HasCondition(world.Get("workloads", "team", name), "Finished");
  };
  CHECK(finished("job-gone"));
  CHECK(finished("job-again"));
  CHECK_FALSE(finished("jobset-a"));
  CHECK_FALSE(finished("job-like-b"));
  CHECK_FALSE(finished("job-strange"));
  REQUIRE(muster.controller->health().problems.size() == 1);
  CHECK_THAT(muster.controller->health().problems[0], Catch::Contains("team/strange"));
}

// Kueue takes its finalizer away itself; what it left behind would keep Workloads, and Jobs that are deleted in the
// foreground, for ever.
TEST_CASE("Kueue's finalizer is taken away from Workloads of Jobs that are taken over or deleted") {
  World world;
  world.MakeQueues("4");
  const auto make = [&world](const std::string& name, const std::vector<std::string>& finalizers) {
    const std::string uid = Text(At(world.MakeJob(name, 1, 600), "metadata", "uid"));
    Json workload = ForeignWorkload(WorkloadName("Job", "batch", name, uid), "Job", "batch/v1", name, uid);
    workload["metadata"]["finalizers"] = finalizers;
    world.Create(workload);
    return WorkloadName("Job", "batch", name, uid);
  };
  const std::string kept = make("kept", {"kueue.x-k8s.io/resource-in-use", "example.com/theirs"});
  const std::string deleted = make("deleted", {"kueue.x-k8s.io/resource-in-use"});
  const std::string gone = make("gone", {"kueue.x-k8s.io/resource-in-use"});
  world.Delete("jobs", "team", "gone");
  world.RunFor(seconds(5));
  REQUIRE(world.Get("jobs", "team", "gone").is_null());
  REQUIRE_FALSE(world.Get("workloads", "team", gone).is_null());

  Process& muster = world.Start("a");
  REQUIRE(world.RunUntil([&] { return Leads(muster); }));
  const auto finalizers = [&world](const std::string& name) {
    return At(world.Get("workloads", "team", name), "metadata", "finalizers");
  };
  CHECK(world.RunUntil([&] { return finalizers(kept) == Json{"example.com/theirs"}; }));
  CHECK(world.RunUntil([&] { return world.Get("workloads", "team", gone).is_null(); }));
  world.Delete("jobs", "team", "deleted");
  CHECK(world.RunUntil([&] { return world.Get("workloads", "team", deleted).is_null(); }));
}

TEST_CASE("After an eviction a Workload does not go on naming the former claim") {
  World world;
  world.Start("a");
  world.MakeQueues("4");
  world.MakeJob("job-0", 2, 600);
  const auto named = [&world] {
    const Json annotations = At(world.WorkloadOf("job-0"), "metadata", "annotations");
    return annotations.is_object() ? annotations.value("muster.dev/claim", "") : "";
  };
  REQUIRE(world.RunUntil([&] { return !named().empty() && named() == Claim(world, "job-0"); }));
  const std::string first = named();
  world.Patch("clusterqueues", "", "cq", {{"spec", {{"stopPolicy", "HoldAndDrain"}}}});
  REQUIRE(world.RunUntil([&] { return Suspended(world, "job-0"); }));
  world.RunFor(seconds(5));
  world.Patch("clusterqueues", "", "cq", {{"spec", {{"stopPolicy", "None"}}}});
  REQUIRE(world.RunUntil([&] { return !Suspended(world, "job-0"); }, minutes(5)));
  // Never is the new admission shown under the old claim.
  REQUIRE(world.RunUntil(
      [&] { return sim::HasCondition(world.WorkloadOf("job-0"), "Admitted") && Claim(world, "job-0") != first; }));
  CHECK(named() == Claim(world, "job-0"));
}

TEST_CASE("A problem of one object stands until that object is good or gone, whatever becomes of others") {
  World world(1, false);
  Process& muster = world.Start();
  world.MakeQueues("4");
  world.MakeJob("good", 1, 5);
  const auto problems = [&muster] { return muster.controller->health().problems; };
  MakeUnreadableJob(world, "bad-1");
  MakeUnreadableJob(world, "bad-2");
  world.MakeJob("good-2", 1, 5);
  world.RunFor(seconds(2));
  REQUIRE(problems().size() == 1);
  CHECK_THAT(problems()[0], Catch::Contains("team/bad-1") && Catch::Contains("1 more of kind Job"));
  world.Delete("jobs", "team", "bad-1");
  world.RunFor(seconds(2));
  REQUIRE(problems().size() == 1);
  CHECK_THAT(problems()[0], Catch::Contains("team/bad-2") && !Catch::Contains("more of kind"));
  world.Delete("jobs", "team", "bad-2");
  world.RunFor(seconds(2));
  CHECK(problems().empty());
}

TEST_CASE("Policies that cannot be read are a standing problem until they can") {
  World world(1, false);
  Options options = World::DefaultOptions();
  options.check_policies = true;
  world.server.SetAuthorizer(
      [](const sim::ApiRequest& request) { return request.Resource().find("admissionpolic") == std::string::npos; });
  const Process& muster = world.Start("", options);
  const auto unread = [&muster] {
    const std::vector<std::string> problems = muster.controller->health().problems;
    return std::count_if(problems.begin(), problems.end(), [](const std::string& problem) {
      return problem.find("AdmissionPolicy muster-jobs cannot be read: ") != std::string::npos;
    });
  };
  // The mutating and the validating one.
  CHECK(world.RunUntil([&] { return unread() == 2; }, seconds(10)));
  world.server.SetAuthorizer(nullptr);
  CHECK(world.RunUntil([&] { return unread() == 0; }, minutes(2)));
}

}  // namespace
}  // namespace muster::controller
