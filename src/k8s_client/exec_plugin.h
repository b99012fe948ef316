// Credentials from a program: what it is asked, and what it may answer.
//
// Source: client-go's exec plugins, client.authentication.k8s.io/v1 and v1beta1.
// Threading: RunExecPlugin blocks; all may be called from any thread.
#pragma once

#include <absl/status/statusor.h>

#include <atomic>
#include <string>
#include <string_view>

#include "muster/core/time.h"
#include "muster/k8s_client/connection.h"

namespace muster::k8s {

struct ExecCredential {
  std::string token;
  std::string client_cert_pem;
  std::string client_key_pem;
  WallTime expires;  // unset: good until they are refused
  friend bool operator==(const ExecCredential&, const ExecCredential&) = default;
};

// The text of $KUBERNETES_EXEC_INFO. REQUIRES: config.exec.
std::string ExecInfo(const ConnectionConfig& config);

// ON FAILURE: says which field is wrong, never what it holds.
absl::StatusOr<ExecCredential> ParseExecCredential(std::string_view text, std::string_view api_version);

// ON FAILURE: names the plugin, and what it said on standard error. REQUIRES: config.exec.
absl::StatusOr<ExecCredential> RunExecPlugin(const ConnectionConfig& config, Duration timeout,
                                             const std::atomic<bool>& cancel);

}  // namespace muster::k8s
