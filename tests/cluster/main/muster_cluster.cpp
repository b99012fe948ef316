// muster-cluster: the control plane that the tests use, by hand or from a script.
//
//   muster-cluster --nodes 4                       until Ctrl-C
//   muster-cluster --nodes 4 -- make check         for as long as the command runs, with its exit code
//
// The command, and whoever reads DIR, gets: DIR/admin.kubeconfig, DIR/kubectl (a script), DIR/logs. DIR/ready is
// there once everything serves. The command's environment has KUBECONFIG and MUSTER_CLUSTER_DIR.

#include <sys/wait.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <string_view>
#include <thread>

#include "fixture/cluster.h"
#include "fixture/text.h"

namespace muster::cluster {
namespace {

std::atomic<bool> g_stop = false;

// The command's exit code; 128 + signal where one ended it, as a shell says it; that of Ctrl-C when told to stop.
int RunCommand(const Cluster& cluster, const std::vector<std::string>& command) {
  const absl::StatusOr<std::unique_ptr<Process>> process =
      Process::Spawn({.args = command,
                      .env = {{"KUBECONFIG", cluster.AdminKubeconfig()}, {"MUSTER_CLUSTER_DIR", cluster.dir()}},
                      .inherit_files = true});
  if (!process.ok()) {
    fprintf(stderr, "muster-cluster: %s\n", process.status().ToString().c_str());
    return 127;
  }
  std::optional<int> status;
  while (!g_stop && !(status = (*process)->Wait(std::chrono::milliseconds(50)))) {
  }
  if (!status) status = (*process)->Terminate();
  return WIFEXITED(*status) ? WEXITSTATUS(*status) : 128 + WTERMSIG(*status);
}

int Main(const ClusterOptions& options, const std::vector<std::string>& command, bool install) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, [](int) { g_stop = true; });
  absl::StatusOr<std::unique_ptr<Cluster>> cluster = Cluster::Start(options);
  absl::Status status = cluster.status();
  if (status.ok() && install) status = (*cluster)->InstallMuster();
  if (!status.ok()) {
    fprintf(stderr, "muster-cluster: %s\n", std::string(status.message()).c_str());
    return 1;
  }
  WriteFile((*cluster)->dir() + "/ready", "");
  if (!command.empty()) return RunCommand(**cluster, command);
  printf("ready: KUBECONFIG=%s, or %s get nodes\n", (*cluster)->AdminKubeconfig().c_str(),
         (*cluster)->KubectlScript().c_str());
  fflush(stdout);
  while (!g_stop) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  return 0;
}

}  // namespace
}  // namespace muster::cluster

int main(int argc, char** argv) {
  CLI::App app("A Kubernetes control plane on loopback, with simulated nodes, for as long as it is needed");
  muster::cluster::ClusterOptions options;
  muster::cluster::NodePool pool{.name = "node", .count = 4};
  std::vector<std::string> command;
  std::vector<std::string> labels;
  int gpus = 8;
  bool install = false;
  bool api_only = false;
  app.add_option("--dir", options.dir, "Folder for its files, which stay (default: a temporary one)");
  app.add_option("--nodes", pool.count, "How many nodes")->capture_default_str();
  app.add_option("--gpus", gpus, "nvidia.com/gpu of each node")->capture_default_str();
  app.add_option("--node-label", labels, "KEY=VALUE for every node; may be repeated")->take_all();
  app.add_flag("--install", install, "Apply config/default");
  app.add_flag("--api-only", api_only, "No controllers, scheduler or nodes: Jobs start, but no pod is made");
  app.footer("After `--`: a command to run, for as long as it runs.");
  char** const dashes = std::find(argv, argv + argc, std::string_view("--"));
  if (dashes != argv + argc) command.assign(dashes + 1, argv + argc);
  CLI11_PARSE(app, static_cast<int>(dashes - argv), argv);
  pool.capacity["nvidia.com/gpu"] = std::to_string(gpus);
  for (const std::string& label : labels) {
    const size_t equals = label.find('=');
    if (equals == std::string::npos) {
      fprintf(stderr, "muster-cluster: --node-label %s: not KEY=VALUE\n", label.c_str());
      return 2;
    }
    pool.labels[label.substr(0, equals)] = label.substr(equals + 1);
  }
  options.nodes = {pool};
  if (api_only) {
    options.nodes.clear();
    options.controllers = options.scheduler = options.kwok = false;
  }
  return muster::cluster::Main(options, command, install);
}
