// Short ways to talk to a SimStore, for tests.
#pragma once

#include <catch2/catch.hpp>
#include <string>

#include "muster/sim/executor.h"
#include "muster/sim/store.h"

namespace muster::sim {

struct StoreFixture {
  SimExecutor executor{1};
  SimStore store{executor.clock(), executor.NewRandom("store")};

  StoreFixture() { Make(R"({"apiVersion":"v1","kind":"Namespace","metadata":{"name":"p"}})"); }

  Target To(const std::string& plural, const std::string& name = "", const std::string& subresource = "",
            const std::string& ns = "p") {
    for (const auto& kind : store.kinds()) {
      if (kind->plural == plural) {
        return {kind.get(), kind->versions.front(), kind->namespaced ? ns : "", name, subresource};
      }
    }
    FAIL("no kind " << plural);
    return {};
  }
  static Json Parse(const std::string& text) {
    const auto json = ParseJson(text);
    REQUIRE(json.has_value());
    return *json;
  }
  Answer Create(const Json& object, const std::string& user = "user") {
    const Kind* kind = store.FindKindOf(object);
    REQUIRE(kind != nullptr);
    std::string api_version = Text(Get(object, "apiVersion"));
    const size_t slash = api_version.find('/');
    if (slash != std::string::npos) api_version = api_version.substr(slash + 1);
    return store.Create(user, {kind, api_version, kind->namespaced ? "p" : "", "", ""}, object);
  }
  Answer Create(const char* text) { return Create(Parse(text)); }
  // Creates what must succeed. RETURNS: the object.
  Json Make(const Json& object) {
    const Answer answer = Create(object);
    INFO(answer.body);
    REQUIRE(answer.code == 201);
    return answer.body;
  }
  Json Make(const char* text) { return Make(Parse(text)); }
  Answer Merge(const Target& target, const std::string& patch, const std::string& user = "user") {
    return store.Patch(user, target, PatchKind::kMergePatch, patch);
  }
  Answer JsonPatch(const Target& target, const std::string& patch, const std::string& user = "user") {
    return store.Patch(user, target, PatchKind::kJsonPatch, patch);
  }
  Answer Delete(const Target& target, const DeleteOptions& options = {}) {
    return store.Delete("user", target, options);
  }
  Json Now(const Target& target) {
    const Answer answer = store.Read(target);
    INFO(answer.body);
    REQUIRE(answer.code == 200);
    return answer.body;
  }

  static Json Workload(const std::string& name) {
    return {{"apiVersion", "kueue.x-k8s.io/v1beta2"},
            {"kind", "Workload"},
            {"metadata", {{"name", name}}},
            {"spec", {{"active", true}}}};
  }
  static Json Job(const std::string& name) {
    return Parse(R"({"apiVersion":"batch/v1","kind":"Job","metadata":{"name":")" + name + R"("},
                     "spec":{"suspend":true,"template":{"spec":{"restartPolicy":"Never",
                     "containers":[{"name":"c","image":"x"}]}}}})");
  }
};

inline std::string Rv(const Json& object) { return Text(At(object, "metadata", "resourceVersion")); }
inline int64_t Generation(const Json& object) { return Number(At(object, "metadata", "generation"), -1); }

}  // namespace muster::sim
