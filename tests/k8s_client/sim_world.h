// A simulated API server with namespace p and one process under test, for tests of the client on a store that
// behaves.
#pragma once

#include <absl/strings/str_cat.h>

#include <memory>
#include <string>

#include "muster/core/check.h"
#include "muster/k8s_client/client.h"
#include "muster/k8s_client/json_reader.h"
#include "muster/sim/executor.h"
#include "muster/sim/server.h"
#include "muster/sim/store.h"

namespace muster::k8s {

// What a process owns: a stream of tasks, a connection, a client.
struct SimProcess {
  SimProcess(sim::SimExecutor* executor, sim::SimServer* server, const std::string& name, ClientOptions options = {})
      : source(executor->NewSource(name)), random(executor->NewRandom(name)) {
    env = {executor->clock(), &random, source.get()};
    transport = server->Connect(name, source.get(), nullptr);
    client = std::make_unique<Client>(env, transport.get(), options);
  }

  std::unique_ptr<sim::SimSource> source;
  SeededRandom random;
  Environment env;
  std::unique_ptr<Transport> transport;
  std::unique_ptr<Client> client;
};

struct SimWorld {
  explicit SimWorld(uint64_t seed, sim::ServerOptions options = {})
      : executor(seed), store(executor.clock(), executor.NewRandom("store")), server(&executor, &store, options) {
    sim::Json ns = {{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", {{"name", "p"}}}};
    MUSTER_CHECK(store.Create("admin", To("", "namespaces", "v1", ""), ns).ok());
  }

  sim::Target To(const std::string& group, const std::string& plural, const std::string& version,
                 const std::string& name, const std::string& ns = "") const {
    return {store.FindKind(group, plural), version, ns, name, ""};
  }
  sim::Target Workload(const std::string& name) const {
    return To("kueue.x-k8s.io", "workloads", "v1beta2", name, "p");
  }
  // Writes a Workload whose spec.value is this, as another user would. RETURNS: the stored object.
  sim::Json Put(const std::string& name, int64_t value) {
    const std::string patch = absl::StrCat(R"({"spec":{"value":)", value, "}}");
    sim::Answer answer = store.Patch("other", Workload(name), sim::PatchKind::kMergePatch, patch);
    if (answer.code == 404) answer = store.Create("other", Workload(""), Body(name, value));
    MUSTER_CHECK(answer.ok());
    return answer.body;
  }
  void Remove(const std::string& name) { store.Delete("other", Workload(name), {}); }
  static sim::Json Body(const std::string& name, int64_t value) {
    return {{"apiVersion", "kueue.x-k8s.io/v1beta2"},
            {"kind", "Workload"},
            {"metadata", {{"name", name}, {"namespace", "p"}}},
            {"spec", {{"value", value}}}};
  }

  sim::SimExecutor executor;
  sim::SimStore store;
  sim::SimServer server;
};

// A decoded Workload of these tests.
struct Thing {
  ObjectMeta meta;
  int64_t value = 0;
  static absl::StatusOr<Thing> Decode(std::string_view json) {
    JsonDocument document(json);
    Thing thing;
    thing.meta = DecodeMeta(document.root());
    thing.value = document.root()["spec"]["value"].Int();
    if (auto status = document.Finish("Thing " + thing.meta.name); !status.ok()) return status;
    return thing;
  }
};

}  // namespace muster::k8s
