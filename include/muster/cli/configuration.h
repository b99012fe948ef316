// The configuration file: Kueue's kind Configuration, config.kueue.x-k8s.io/v1beta2 or v1beta1, read strictly. Every
// field of the kind is known: those that Muster serves are used, those that ask for something it does not
// serve yet are refused by name, and those that mean nothing here (there is no webhook) are accepted and
// named in `notes`. Unknown and duplicate keys, wrong types and values out of range are errors; all errors
// of a file are reported at once. What Muster adds stands in the block `muster`.
//
// Source: kueue_semantics 1.9. docs/configuration.md lists each key.
// Threading: values and pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "muster/controller/controller.h"
#include "muster/k8s_client/client.h"
#include "muster/server/http_server.h"
#include "muster/server/metrics.h"
#include "muster/server/tls.h"

namespace muster::cli {

struct ConfigError {
  int line = 0;         // from 1; 0: of the file as a whole
  std::string path;     // "metrics.bindAddress"; empty: the document
  std::string value;    // as written, shortened; empty where there is none
  std::string message;  // what is wrong and what would be right

  // "FILE:LINE: PATH: VALUE: MESSAGE", without the parts that are empty.
  std::string ToString(std::string_view file) const;
  friend bool operator==(const ConfigError&, const ConfigError&) = default;
};

// Where an HTTP server listens; not at all if `enabled` is false.
struct Listener {
  bool enabled = false;
  server::Address address;
};

struct Configuration {
  controller::Options controller;
  k8s::ClientOptions client;
  Listener health;
  // Names of the endpoints beside /livez, /readyz and /healthz.
  std::string readiness_endpoint = "readyz";
  std::string liveness_endpoint = "healthz";
  Listener metrics;
  // HTTPS, and only for those whom the cluster's rules let read. Otherwise plain HTTP, for all who reach it.
  bool metrics_secured = true;
  server::TlsOptions metrics_tls;
  server::MetricsOptions metrics_options;
  // What is accepted but has no effect, and what is on by default in Kueue and off here; one sentence each.
  std::vector<std::string> notes;
};

// `ns`: Muster's own namespace where the file names none. An empty `text` is an error, as in Kueue.
// RETURNS: the configuration, or every error found, by line.
std::variant<Configuration, std::vector<ConfigError>> ParseConfiguration(std::string_view text, std::string_view ns);

// What holds without a file.
Configuration DefaultConfiguration(std::string_view ns);

}  // namespace muster::cli
