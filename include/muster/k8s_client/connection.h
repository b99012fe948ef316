// Where the API server is and who we are: kubeconfig (client certificates, token, token file) or the pod's
// service account (token re-read as it rotates). TLS is always verified unless the kubeconfig says
// insecure-skip-tls-verify.
//
// Threading: values and factories; the AsioExecutor may be posted to from any thread.
#pragma once

#include <memory>
#include <string>

#include <absl/status/statusor.h>

#include "muster/core/clock.h"
#include "muster/k8s_client/transport.h"

namespace muster::k8s {

struct ConnectionConfig {
  std::string server;            // "https://host:port"
  std::string tls_server_name;   // empty: the host
  std::string ca_pem;            // empty: the system's
  bool insecure = false;
  std::string client_cert_pem;
  std::string client_key_pem;
  std::string token;
  std::string token_file;        // re-read at most once a minute, and at once after a 401
  std::string ns;                // of the context or the service account
};

// `path` empty: $KUBECONFIG, else ~/.kube/config. `context` empty: current-context. Paths in the file are
// relative to it. ON FAILURE: names file and field; unknown auth (exec, auth-provider) is refused by name.
absl::StatusOr<ConnectionConfig> LoadKubeconfig(const std::string& path, const std::string& context);

// ON FAILURE: names the missing variable or file.
absl::StatusOr<ConnectionConfig> InClusterConfig();

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
  int threads = 2;  // of cpprestsdk's pool; fixed by the first transport of the process
  std::string user_agent = "muster";
};

// Calls over cpprestsdk, watches over Beast. REQUIRES: env outlives the transport.
absl::StatusOr<std::unique_ptr<Transport>> NewHttpTransport(Environment env, const ConnectionConfig& config,
                                                            TransportOptions options);

}  // namespace muster::k8s
