#include "muster/cli/main.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "config_values.h"
#include "run.h"
#include "version.h"

namespace muster::cli {
namespace {

void AddNamespace(CLI::App* command, std::string* ns) {
  command->add_option("--namespace", *ns, "Muster's own namespace, where the configuration names none");
}

void AddRunOptions(CLI::App* command, RunFlags* flags) {
  command->add_option("--config", flags->config, "Configuration file (config.kueue.x-k8s.io); default: none");
  command->add_option("--kubeconfig", flags->kubeconfig,
                      "Default: the service account inside a cluster, else $KUBECONFIG or ~/.kube/config");
  command->add_option("--context", flags->context, "Context of the kubeconfig");
  AddNamespace(command, &flags->ns);
  command->add_option("--log-format", flags->log_format, "json or text")->check(CLI::IsMember({"json", "text"}));
  command->add_option("--log-level", flags->log_level, "debug, info, warn or error")
      ->check(CLI::IsMember({"debug", "info", "warn", "error"}));
}

// The parser would say that an argument was not expected.
bool SayIfUnknownCommand(const CLI::App& app, int argc, const char* const* argv) {
  if (argc < 2 || *argv[1] == '-') return false;
  std::vector<std::string_view> names;
  std::string all;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
    all += (all.empty() ? "" : ", ") + command->get_name();
  }
  const std::string_view given = argv[1];
  if (std::find(names.begin(), names.end(), given) != names.end()) return false;
  const std::string near = NearestName(given, names);
  std::fprintf(stderr, "muster: there is no command \"%s\"%s There are: %s. More with muster --help\n", argv[1],
               near.empty() ? "." : (", did you mean " + near + "?").c_str(), all.c_str());
  return true;
}

}  // namespace

int Main(int argc, const char* const* argv) {
  CLI::App app("Decides when a batch job may start on a Kubernetes cluster, and starts it whole or not at all.",
               "muster");
  app.require_subcommand(1);
  app.footer("Exit codes: 0 all well, 1 failed while running, 2 wrong flags or configuration.");

  RunFlags run;
  CLI::App* run_command = app.add_subcommand("run", "Run the service until SIGTERM");
  AddRunOptions(run_command, &run);
  CLI::App* release_command =
      app.add_subcommand("release",
                         "Hand over to Kueue: admit nothing more, show every admission on its Workload, "
                         "take Muster's records from the Jobs, and exit");
  AddRunOptions(release_command, &run);
  release_command->add_flag("--stay", run.stay, "Do not exit then, but keep the lease until SIGTERM");

  std::string config;
  std::string ns;
  std::string kinds = "all";
  CLI::App* check_command = app.add_subcommand("check-config", "Read a configuration and list every error in it");
  check_command->add_option("file", config, "Configuration file")->required();
  AddNamespace(check_command, &ns);
  CLI::App* policies_command =
      app.add_subcommand("policies", "Print the admission policies that a configuration asks for, for kubectl apply");
  policies_command->add_option("--config", config, "Configuration file; default: none");
  AddNamespace(policies_command, &ns);
  policies_command->add_option("--kinds", kinds, "all, or mutating or validating alone")
      ->check(CLI::IsMember({"all", "mutating", "validating"}));
  CLI::App* version_command = app.add_subcommand("version", "Print what this binary is");

  if (SayIfUnknownCommand(app, argc, argv)) return kExitUsage;
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? kExitOk : kExitUsage;
  }
  run.release = release_command->parsed();
  if (run_command->parsed() || run.release) return Run(run);
  if (check_command->parsed()) return CheckConfig(config, ns);
  if (policies_command->parsed()) return PrintPolicies(config, ns, kinds);
  if (version_command->parsed()) {
    const server::BuildInfo info = GetBuildInfo();
    std::printf("muster %s, commit %s, built %s with %s for %s\n", info.version.c_str(), info.commit.c_str(),
                info.date.c_str(), info.compiler.c_str(), info.platform.c_str());
  }
  return kExitOk;
}

}  // namespace muster::cli
