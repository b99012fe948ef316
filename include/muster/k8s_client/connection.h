// Where the API server is and who we are: kubeconfig (client certificates, token, token file, exec plugin) or the
// pod's service account (token re-read as it rotates). TLS is always verified unless the kubeconfig says
// insecure-skip-tls-verify.
//
// Threading: values and factories; the AsioExecutor may be posted to from any thread.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/core/clock.h"
#include "muster/k8s_client/transport.h"

namespace muster::k8s {

// A program that is run to get credentials, as kubeconfig's users[].user.exec has it.
struct ExecPlugin {
  std::string name;         // in messages: "exec plugin aws (kubeconfig FILE: users[NAME])"
  std::string api_version;  // "client.authentication.k8s.io/v1" or v1beta1
  std::string command;      // a path, or a name that is looked for in $PATH
  std::vector<std::string> args;
  std::vector<std::pair<std::string, std::string>> env;  // beside the process's own
  std::string install_hint;                              // where to get it
  bool provide_cluster_info = false;
  std::string cluster_config;  // JSON, from the cluster's extension for plugins; empty: none
};

struct ConnectionConfig {
  std::string server;           // "https://host[:port][/prefix]"
  std::string tls_server_name;  // the name that the certificate must carry; empty: the host
  std::string ca_pem;           // empty: the system's
  bool insecure = false;
  std::string client_cert_pem;
  std::string client_key_pem;
  std::string token;
  std::string token_file;  // re-read once a minute, and at once after a 401; wins over `token` once read
  // Run before the first call, when its credentials end, and after a 401. In place of the four above.
  std::optional<ExecPlugin> exec;
  std::string ns;          // of the context or the service account; empty: it names none
};

// `path` empty: $KUBECONFIG (a list separated by colons; the first file that has an entry wins), else
// ~/.kube/config. `context` empty: current-context. Paths in a file are relative to it; data wins over a file.
// The chosen entries are read strictly, others may hold anything. ON FAILURE: names file and field. What is
// not supported (auth-provider, basic auth, impersonation, proxy-url) is refused by name.
absl::StatusOr<ConnectionConfig> LoadKubeconfig(const std::string& path, const std::string& context);

// From $KUBERNETES_SERVICE_HOST and _PORT and the files token, ca.crt and namespace in `directory`. An IPv6
// address is replaced by the service's DNS name. ON FAILURE: names the missing variable or file.
absl::StatusOr<ConnectionConfig> InClusterConfig(
    const std::string& directory = "/var/run/secrets/kubernetes.io/serviceaccount");

// One thread (the caller of Run) runs all callbacks.
class AsioExecutor final : public Executor {
 public:
  AsioExecutor();
  ~AsioExecutor() override;
  void Post(Task task) override;
  TimerId PostAt(MonoTime when, Task task) override;
  void Cancel(TimerId id) override;
  // Until Stop.
  void Run();
  void Stop();
  // Calls `handler` on the executor, once, at the first SIGINT or SIGTERM.
  void OnTerminate(Task handler);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

struct TransportOptions {
  std::string user_agent = "muster";
  // Of one answer to a call; a longer one ends it as if the connection had been cut.
  int64_t response_bytes_max = 256 << 20;
};

// Calls over cpprestsdk, watches over Beast. REQUIRES: env outlives the transport.
absl::StatusOr<std::unique_ptr<Transport>> NewHttpTransport(Environment env, const ConnectionConfig& config,
                                                            TransportOptions options);

}  // namespace muster::k8s
