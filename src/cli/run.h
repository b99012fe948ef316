// The process around the service: connection, servers, signals.
//
// Threading: the main thread.
#pragma once

#include <string>

namespace muster::cli {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;

struct RunFlags {
  std::string config;      // empty: the defaults
  std::string kubeconfig;  // empty: in-cluster where there is a cluster around, else as kubectl finds it
  std::string context;
  std::string ns;  // where the configuration names none; empty: the service account's
  std::string log_format = "json";
  std::string log_level = "info";
  // Instead of serving: hand the Jobs over to Kueue. `stay`: then wait for SIGTERM, holding the lease.
  bool release = false;
  bool stay = false;
};

// RETURNS: the exit code.
int Run(const RunFlags& flags);
int CheckConfig(const std::string& path, const std::string& ns);
// `kinds`: all, mutating or validating.
int PrintPolicies(const std::string& path, const std::string& ns, const std::string& kinds);

}  // namespace muster::cli
