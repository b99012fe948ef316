// The rights that ship with Muster: enough for it, no more, and roles for people.

#include <catch2/catch.hpp>

#include "fixture/text.h"
#include "muster/controller/policies.h"
#include "muster/controller/rights.h"
#include "world.h"

namespace muster::config_test {
namespace {

using cluster::Cat;
using cluster::Eventually;
using cluster::Quote;

struct Right {
  const char* verb;
  const char* group;
  const char* resource;  // "workloads/status"
  const char* ns = "";
  const char* name = "";
};

// What the API server's own authorizer says of `user`.
bool May(const std::string& user, const std::vector<std::string>& groups, const Right& right) {
  const std::string resource = right.resource;
  const size_t slash = resource.find('/');
  std::string group_list;
  for (const std::string& group : groups) group_list += Cat(group_list.empty() ? "" : ", ", Quote(group));
  const ApiResponse answer = Shared().admin().Create(
      "/apis/authorization.k8s.io/v1/subjectaccessreviews",
      Cat(R"({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {"user": )", Quote(user),
          R"(, "groups": [)", group_list, R"(], "resourceAttributes": {"verb": )", Quote(right.verb), R"(, "group": )",
          Quote(right.group), R"(, "resource": )", Quote(resource.substr(0, slash)), R"(, "subresource": )",
          Quote(slash == std::string::npos ? "" : resource.substr(slash + 1)), R"(, "name": )", Quote(right.name),
          R"(, "namespace": )", Quote(right.ns), "}}}"));
  REQUIRE(answer.status == 201);
  return answer.json.At("status/allowed").Bool();
}

constexpr char kMuster[] = "system:serviceaccount:muster-system:muster";
constexpr char kKueue[] = "kueue.x-k8s.io";
constexpr char kPolicies[] = "admissionregistration.k8s.io";

// user_pains G7
TEST_CASE("Muster may do what its work takes") {
  controller::Options options;
  options.retention.after_deactivated = Duration(0);
  options.check_machines = true;
  options.lease.ns = "muster-system";
  for (const controller::Right& right : controller::RequiredRights(options)) {
    INFO(controller::ToString(right));
    CHECK(May(kMuster, {},
              {right.verb.c_str(), right.group.c_str(), right.resource.c_str(), right.ns.c_str(), right.name.c_str()}));
  }
  // What it asks about others, and about itself.
  const Right rights[] = {
      {"create", "authentication.k8s.io", "tokenreviews"},
      {"create", "authorization.k8s.io", "subjectaccessreviews"},
      {"create", "authentication.k8s.io", "selfsubjectreviews"},
      {"create", "authorization.k8s.io", "selfsubjectaccessreviews"},
  };
  for (const Right& right : rights) {
    INFO(right.verb << " " << right.group << "/" << right.resource);
    CHECK(May(kMuster, {}, right));
  }
}

TEST_CASE("Muster may not do more") {
  const Right rights[] = {
      {"create", "batch", "jobs"},
      {"deletecollection", "batch", "jobs"},
      {"get", "", "secrets", "team"},
      {"list", "", "secrets"},
      {"get", "", "configmaps", "muster-system"},
      {"create", "", "pods", "team"},
      {"delete", "", "pods", "team"},
      {"patch", "", "pods/status", "team"},
      {"patch", "", "nodes"},
      {"patch", kKueue, "topologies"},
      {"patch", "", "namespaces"},
      {"patch", kKueue, "clusterqueues"},
      {"update", kKueue, "clusterqueues"},
      {"patch", kKueue, "localqueues"},
      {"delete", kKueue, "clusterqueues"},
      {"deletecollection", kKueue, "workloads"},
      {"create", kKueue, "resourceflavors"},
      {"patch", kPolicies, "validatingwebhookconfigurations"},
      {"delete", kPolicies, "mutatingwebhookconfigurations"},
      {"patch", kPolicies, "validatingadmissionpolicies"},
      {"delete", kPolicies, "mutatingadmissionpolicybindings"},
      {"get", "coordination.k8s.io", "leases", "kube-system"},
      {"update", "coordination.k8s.io", "leases", "kube-system"},
      {"update", "coordination.k8s.io", "leases", "kueue-system", "c1f6bfd2.kueue.x-k8s.io"},
      {"list", "apiextensions.k8s.io", "customresourcedefinitions"},
      {"patch", "apiextensions.k8s.io", "customresourcedefinitions", "", "workloads.kueue.x-k8s.io"},
      {"create", "rbac.authorization.k8s.io", "clusterrolebindings"},
      {"impersonate", "", "users"},
  };
  for (const Right& right : rights) {
    INFO(right.verb << " " << right.group << "/" << right.resource << " in " << right.ns);
    CHECK_FALSE(May(kMuster, {}, right));
  }
}

void Bind(const std::string& role, const std::string& user, const std::string& ns) {
  const std::string binding = Cat(
      R"({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": ")", ns.empty() ? "ClusterRoleBinding" : "RoleBinding",
      R"(", "metadata": {"name": ")", user,
      R"("}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
      "name": ")",
      role, R"("}, "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": ")", user, R"("}]})");
  const std::string path = ns.empty() ? "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
                                      : Cat("/apis/rbac.authorization.k8s.io/v1/namespaces/", ns, "/rolebindings");
  REQUIRE(Shared().admin().Create(path, binding).status == 201);
}

TEST_CASE("the batch user's role lets a team submit Jobs and see its queues, in its namespace") {
  Bind("muster-batch-user-role", "ulla", "team");
  // The role gathers others by label, which a controller does after it was created.
  REQUIRE(Eventually([] { return May("ulla", {}, {"create", "batch", "jobs", "team"}); }));
  CHECK(May("ulla", {}, {"list", kKueue, "localqueues", "team"}));
  CHECK(May("ulla", {}, {"watch", kKueue, "workloads", "team"}));
  CHECK(May("ulla", {}, {"get", kKueue, "workloads/status", "team"}));
  CHECK_FALSE(May("ulla", {}, {"create", "batch", "jobs", "spare"}));
  CHECK_FALSE(May("ulla", {}, {"patch", kKueue, "workloads", "team"}));
  CHECK_FALSE(May("ulla", {}, {"patch", kKueue, "workloads/status", "team"}));
  CHECK_FALSE(May("ulla", {}, {"create", kKueue, "localqueues", "team"}));
  CHECK_FALSE(May("ulla", {}, {"list", kKueue, "clusterqueues"}));
}

// user_pains G7
TEST_CASE("the batch administrator's role covers every kind") {
  Bind("muster-batch-admin-role", "arno", "");
  REQUIRE(Eventually([] { return May("arno", {}, {"create", kKueue, "clusterqueues"}); }));
  for (const char* resource : {"clusterqueues", "cohorts", "resourceflavors", "topologies", "admissionchecks",
                               "workloadpriorityclasses", "localqueues", "workloads"}) {
    for (const char* verb : {"get", "list", "watch", "create", "update", "patch", "delete"}) {
      INFO(verb << " " << resource);
      CHECK(May("arno", {}, {verb, kKueue, resource}));
    }
  }
  CHECK_FALSE(May("arno", {}, {"patch", kKueue, "workloads/status"}));
  CHECK_FALSE(May("arno", {}, {"get", "", "secrets"}));
}

TEST_CASE("Kubernetes' own roles show queues and Workloads to those who may view a namespace") {
  Bind("view", "vera", "team");
  REQUIRE(Eventually([] { return May("vera", {}, {"list", kKueue, "localqueues", "team"}); }));
  CHECK(May("vera", {}, {"list", kKueue, "workloads", "team"}));
  CHECK_FALSE(May("vera", {}, {"create", kKueue, "localqueues", "team"}));
}

// ---- drift

Json Live(const controller::PolicyExpectation& policy) {
  std::string plural = policy.kind;
  plural = plural.ends_with("y") ? plural.substr(0, plural.size() - 1) + "ies" : plural + "s";
  for (char& c : plural) c = static_cast<char>(std::tolower(c));
  return Shared().admin().Get(Cat("/apis/admissionregistration.k8s.io/v1/", plural, "/", policy.name)).json;
}

TEST_CASE("the policies on the API server are those that Muster expects, and a change shows") {
  const std::vector<controller::PolicyExpectation> expected = controller::ExpectedPolicies({});
  REQUIRE(expected.size() > 10);
  for (const controller::PolicyExpectation& policy : expected) {
    INFO(policy.kind << " " << policy.name);
    const absl::StatusOr<std::string> hash = controller::LivePolicyHash(Live(policy).Dump());
    REQUIRE(hash.ok());
    CHECK(*hash == policy.hash);
  }
  const std::string path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/muster-cohorts";
  REQUIRE(Shared().admin().MergePatch(path, R"({"spec": {"validationActions": ["Warn"]}})").ok());
  const absl::StatusOr<std::string> changed = controller::LivePolicyHash(Shared().admin().Get(path).json.Dump());
  REQUIRE(changed.ok());
  for (const controller::PolicyExpectation& policy : expected) {
    if (policy.kind == "ValidatingAdmissionPolicyBinding" && policy.name == "muster-cohorts")
      CHECK(*changed != policy.hash);
  }
  REQUIRE(Shared().admin().MergePatch(path, R"({"spec": {"validationActions": ["Deny"]}})").ok());
}

}  // namespace
}  // namespace muster::config_test
