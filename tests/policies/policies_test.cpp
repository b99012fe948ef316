// The generated admission policies, without an API server: what the options change, that the committed files are the
// output for the default options, and the hash by which drift is found. What the policies do is tested in
// tests/config on a real API server.

#include "muster/controller/policies.h"

#include <rapidjson/document.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <set>
#include <sstream>

#include "muster/cli/configuration.h"
#include "muster/controller/options.h"

namespace muster::controller {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream in(std::string(MUSTER_SOURCE_DIR) + "/" + path);
  REQUIRE(in.good());
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// YAML, which here holds only strings, lists and maps, as JSON in YAML's own order.
void WriteJson(const YAML::Node& node, rapidjson::Writer<rapidjson::StringBuffer>* out) {
  if (node.IsMap()) {
    out->StartObject();
    for (const auto& entry : node) {
      out->Key(entry.first.as<std::string>().c_str());
      WriteJson(entry.second, out);
    }
    out->EndObject();
  } else if (node.IsSequence()) {
    out->StartArray();
    for (const auto& item : node) WriteJson(item, out);
    out->EndArray();
  } else {
    out->String(node.as<std::string>());
  }
}

std::string ToJson(const YAML::Node& node) {
  rapidjson::StringBuffer buffer;
  rapidjson::Writer<rapidjson::StringBuffer> writer(buffer);
  WriteJson(node, &writer);
  return buffer.GetString();
}

YAML::Node Find(const PolicyOptions& options, const std::string& kind, const std::string& name) {
  for (const YAML::Node& object : YAML::LoadAll(GeneratePolicies(options))) {
    if (object["kind"].as<std::string>() == kind && object["metadata"]["name"].as<std::string>() == name) return object;
  }
  FAIL("no " << kind << " " << name);
  return {};
}

std::string Condition(const YAML::Node& policy, const std::string& name) {
  for (const auto& condition : policy["spec"]["matchConditions"]) {
    if (condition["name"].as<std::string>() == name) return condition["expression"].as<std::string>();
  }
  return {};
}

std::string Variable(const YAML::Node& policy, const std::string& name) {
  for (const auto& variable : policy["spec"]["variables"]) {
    if (variable["name"].as<std::string>() == name) return variable["expression"].as<std::string>();
  }
  FAIL("no variable " << name);
  return {};
}

// The first line in which the two differ; empty if they are equal.
std::string FirstDifference(const std::string& committed, const std::string& generated) {
  std::stringstream left(committed), right(generated);
  for (int number = 1;; ++number) {
    std::string a, b;
    const bool more_left = static_cast<bool>(std::getline(left, a));
    const bool more_right = static_cast<bool>(std::getline(right, b));
    if (!more_left && !more_right) return {};
    if (a != b || more_left != more_right) {
      return "line " + std::to_string(number) + " is '" + a + "', generated is '" + b + "'";
    }
  }
}

TEST_CASE("the committed policies are those of the default configuration") {
  CHECK(FirstDifference(ReadFile("config/policies/mutating.yaml"), GeneratePolicies({}, PolicyKinds::kMutating)) == "");
  CHECK(FirstDifference(ReadFile("config/policies/validating.yaml"), GeneratePolicies({}, PolicyKinds::kValidating)) ==
        "");
}

TEST_CASE("the configuration that ships is valid, and asks for the policies that ship") {
  const auto parsed = cli::ParseConfiguration(ReadFile("config/manager/config.yaml"), "muster-system");
  if (const auto* errors = std::get_if<std::vector<cli::ConfigError>>(&parsed)) {
    for (const cli::ConfigError& error : *errors) UNSCOPED_INFO(error.ToString("config.yaml"));
    FAIL();
  }
  const controller::Options& options = std::get<cli::Configuration>(parsed).controller;
  CHECK(FirstDifference(GeneratePolicies({}), GeneratePolicies(PolicyOptionsOf(options))) == "");
}

TEST_CASE("every policy is followed by a binding that denies, and no two objects share kind and name") {
  const std::vector<GeneratedPolicy> policies = Policies({});
  REQUIRE(policies.size() % 2 == 0);
  std::set<std::pair<std::string, std::string>> seen;
  for (size_t i = 0; i < policies.size(); i += 2) {
    const GeneratedPolicy& policy = policies[i];
    const GeneratedPolicy& binding = policies[i + 1];
    INFO(policy.kind << " " << policy.name);
    CHECK(binding.kind == policy.kind + "Binding");
    CHECK(seen.insert({policy.kind, policy.name}).second);
    const YAML::Node object = YAML::Load(policy.yaml);
    const YAML::Node bound = YAML::Load(binding.yaml);
    CHECK(object["apiVersion"].as<std::string>() == "admissionregistration.k8s.io/v1");
    CHECK(object["spec"]["failurePolicy"].as<std::string>() == "Fail");
    CHECK(bound["spec"]["policyName"].as<std::string>() == policy.name);
    if (policy.kind == "ValidatingAdmissionPolicy") {
      CHECK(bound["spec"]["validationActions"][0].as<std::string>() == "Deny");
      for (const auto& validation : object["spec"]["validations"]) {
        CHECK_FALSE(validation["message"].as<std::string>().empty());
        CHECK_FALSE(validation["messageExpression"].as<std::string>().empty());
      }
    }
    // Without this, a missing default queue would block every Job of the namespace.
    if (object["spec"]["paramKind"]) {
      CHECK(bound["spec"]["paramRef"]["parameterNotFoundAction"].as<std::string>() == "Allow");
    }
  }
}

TEST_CASE("both halves together are the whole") {
  const auto count = [](PolicyKinds kinds) { return YAML::LoadAll(GeneratePolicies({}, kinds)).size(); };
  CHECK(count(PolicyKinds::kMutating) + count(PolicyKinds::kValidating) == count(PolicyKinds::kAll));
  CHECK(count(PolicyKinds::kAll) == Policies({}).size());
}

TEST_CASE("identities of the configuration are let through, whatever characters they hold") {
  PolicyOptions options;
  options.ns = "batch";
  options.service_account = "gang";
  options.allowed_starters = {"alice", R"(o'neil\x)"};
  const std::string others = Condition(Find(options, "ValidatingAdmissionPolicy", "muster-jobs"), "others");
  CHECK(others == R"(!(request.userInfo.username in ['system:serviceaccount:batch:gang', 'alice', 'o\'neil\\x']))");
}

TEST_CASE("the fence looks at the Lease that the leader is elected by, and needs one") {
  Options options;
  options.lease.ns = "elsewhere";
  options.lease.name = "other";
  options.ns = "batch";
  const YAML::Node fence = Find(PolicyOptionsOf(options), "ValidatingAdmissionPolicy", "muster-fence");
  CHECK(fence["spec"]["paramKind"]["kind"].as<std::string>() == "Lease");
  CHECK(Condition(fence, "muster") == "request.userInfo.username == 'system:serviceaccount:batch:muster'");
  const YAML::Node binding = Find(PolicyOptionsOf(options), "ValidatingAdmissionPolicyBinding", "muster-fence");
  CHECK(binding["spec"]["paramRef"]["namespace"].as<std::string>() == "elsewhere");
  CHECK(binding["spec"]["paramRef"]["name"].as<std::string>() == "other");
  options.leader_elect = false;
  for (const GeneratedPolicy& policy : Policies(PolicyOptionsOf(options))) CHECK(policy.name != "muster-fence");
}

TEST_CASE("parents are known by user and owner") {
  const YAML::Node none = Find({}, "ValidatingAdmissionPolicy", "muster-jobs");
  CHECK(Variable(none, "child") == "false");
  PolicyOptions options;
  options.parents = {{"system:serviceaccount:jobset-system:jobset", "jobset.x-k8s.io", "JobSet"}};
  const std::string child = Variable(Find(options, "MutatingAdmissionPolicy", "muster-jobs"), "child");
  CHECK(child.find("'user': 'system:serviceaccount:jobset-system:jobset'") != std::string::npos);
  CHECK(child.find("'kind': 'JobSet'") != std::string::npos);
  CHECK(child == Variable(Find(options, "ValidatingAdmissionPolicy", "muster-jobs"), "child"));
  CHECK(child == Variable(Find(options, "MutatingAdmissionPolicy", "muster-jobs-default-queue"), "child"));
  // By owner alone, as the controller knows them.
  const std::string has_parent = Variable(Find(options, "ValidatingAdmissionPolicy", "muster-jobs"), "hasParent");
  CHECK(has_parent.find("'kind': 'JobSet'") != std::string::npos);
  CHECK(has_parent.find("userInfo") == std::string::npos);
}

TEST_CASE("managing Jobs without a queue name makes every Job of the namespaces wait") {
  PolicyOptions options;
  options.manage_jobs_without_queue_name = true;
  const YAML::Node guard = Find(options, "ValidatingAdmissionPolicy", "muster-jobs");
  CHECK(Condition(guard, "queued-or-recorded").empty());
  CHECK(Variable(guard, "managed") == "true");
  const YAML::Node suspend = Find(options, "MutatingAdmissionPolicy", "muster-jobs");
  CHECK(Variable(suspend, "suspends").find("queue-name") == std::string::npos);
  CHECK(Condition(suspend, "runs-or-recorded").find("queue-name") == std::string::npos);
}

TEST_CASE("the namespace selector is on every policy of Jobs and on no other") {
  PolicyOptions options;
  options.managed_jobs_namespace_selector = {};
  options.managed_jobs_namespace_selector.match_labels = {{"team", "yes"}, {"zone", "1"}};
  options.managed_jobs_namespace_selector.match_expressions = {
      {"tier", Requirement::Operator::kIn, {"gold", "no"}},
      {"opt-out", Requirement::Operator::kDoesNotExist, {}},
      {"opt-in", Requirement::Operator::kExists, {}},
  };
  int on_jobs = 0;
  for (const YAML::Node& object : YAML::LoadAll(GeneratePolicies(options))) {
    const YAML::Node constraints = object["spec"]["matchConstraints"];
    if (!constraints) continue;
    const YAML::Node selector = constraints["namespaceSelector"];
    if (constraints["resourceRules"][0]["resources"][0].as<std::string>() != "jobs") {
      CHECK(selector.size() == 0);
      continue;
    }
    ++on_jobs;
    // Values that YAML would read as a boolean or a number stay strings.
    CHECK(ToJson(selector) == R"({"matchLabels":{"team":"yes","zone":"1"},"matchExpressions":[)"
                              R"({"key":"tier","operator":"In","values":["gold","no"]},)"
                              R"({"key":"opt-out","operator":"DoesNotExist"},{"key":"opt-in","operator":"Exists"}]})");
    CHECK(selector["matchLabels"]["team"].Tag() == "!");  // quoted
    CHECK(selector["matchLabels"]["zone"].Tag() == "!");
  }
  CHECK(on_jobs == 8);
}

TEST_CASE("the hash is that of the spec, in whatever order its keys are") {
  for (const GeneratedPolicy& policy : Policies({})) {
    INFO(policy.kind << " " << policy.name);
    const YAML::Node object = YAML::Load(policy.yaml);
    CHECK(object["metadata"]["annotations"]["muster.dev/policy-hash"].as<std::string>() == policy.hash);
    const absl::StatusOr<std::string> live = LivePolicyHash(ToJson(object));
    REQUIRE(live.ok());
    CHECK(*live == policy.hash);
  }
  const auto hash = [](const char* json) { return LivePolicyHash(json).value(); };
  CHECK(hash(R"({"spec":{"a":"1","b":["x"]}})") == hash(R"({"kind":"K","spec":{"b":["x"],"a":"1"},"status":{}})"));
  CHECK(hash(R"({"spec":{"a":"1"}})") != hash(R"({"spec":{"a":"2"}})"));
  CHECK(hash(R"({"spec":{"a":"true"}})") != hash(R"({"spec":{"a":true}})"));
  CHECK(hash(R"({"spec":{"a":["x","y"]}})") != hash(R"({"spec":{"a":["y","x"]}})"));
  CHECK(hash(R"({"spec":{"a":"x\"y\n"}})") != hash(R"({"spec":{"a":"x\"y"}})"));
}

TEST_CASE("what is expected on the API server is what was generated") {
  const std::vector<GeneratedPolicy> policies = Policies({});
  const std::vector<PolicyExpectation> expected = ExpectedPolicies({});
  REQUIRE(expected.size() == policies.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    CHECK(expected[i].kind == policies[i].kind);
    CHECK(expected[i].name == policies[i].name);
    CHECK(expected[i].hash == policies[i].hash);
  }
  PolicyOptions other;
  other.allowed_starters = {"alice"};
  const std::vector<PolicyExpectation> changed = ExpectedPolicies(other);
  CHECK(std::any_of(changed.begin(), changed.end(), [&](const PolicyExpectation& e) {
    return e.name == "muster-jobs" && e.kind == "ValidatingAdmissionPolicy" &&
           std::none_of(expected.begin(), expected.end(), [&](const auto& was) { return was.hash == e.hash; });
  }));
}

TEST_CASE("what is no policy is refused with a reason") {
  for (const char* json : {"", "{", "[]", "3", "{}", R"({"spec":3})", R"({"spec":null})", R"({"spec":{})"}) {
    INFO(json);
    const absl::StatusOr<std::string> hash = LivePolicyHash(json);
    REQUIRE_FALSE(hash.ok());
    CHECK(hash.status().code() == absl::StatusCode::kInvalidArgument);
    CHECK(std::string(hash.status().message()).starts_with("policy: "));
  }
}

}  // namespace
}  // namespace muster::controller
