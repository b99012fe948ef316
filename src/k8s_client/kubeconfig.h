// The two halves of LoadKubeconfig, apart so that text can be tried without files around it.
//
// Threading: values.
#pragma once

#include <absl/status/statusor.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "muster/k8s_client/connection.h"

namespace muster::k8s {

struct KubeconfigCluster {
  std::string server;
  std::string tls_server_name;
  bool insecure = false;
  std::string ca_file;  // absolute or relative to the working directory, as are the paths below
  std::string ca_pem;
  std::string exec_config;  // JSON, for exec plugins; empty: none
};

struct KubeconfigUser {
  std::string client_cert_file;
  std::string client_cert_pem;
  std::string client_key_file;
  std::string client_key_pem;
  std::string token;
  std::string token_file;
  std::optional<ExecPlugin> exec;
};

struct KubeconfigContext {
  std::string cluster;
  std::string user;
  std::string ns;
};

// Entries by name. An entry that cannot be used holds the reason, which counts only if it is chosen.
struct Kubeconfig {
  template <typename T>
  struct Entry {
    std::string where;  // "kubeconfig FILE: users[NAME]"
    absl::StatusOr<T> value;
  };
  std::string current_context;
  std::map<std::string, Entry<KubeconfigCluster>> clusters;
  std::map<std::string, Entry<KubeconfigUser>> users;
  std::map<std::string, Entry<KubeconfigContext>> contexts;

  // Takes from `other` what is not here yet: the first file wins, entry by entry.
  void Merge(Kubeconfig other);
};

// `file` names the text in errors, and relative paths begin where it lies.
absl::StatusOr<Kubeconfig> ParseKubeconfig(std::string_view text, const std::string& file);

// Reads the files that the entries of `context` (empty: the current one) name. `files` names all in errors.
absl::StatusOr<ConnectionConfig> ResolveKubeconfig(const Kubeconfig& config, const std::string& context,
                                                   const std::string& files);

}  // namespace muster::k8s
