// Nothing that a test started may outlive it.

#include "fixture/process.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "fixture/cluster.h"
#include "fixture/text.h"

namespace muster::cluster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Processes whose command line holds `text`. Zombies have none.
std::vector<pid_t> ProcessesWith(const std::string& text) {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const pid_t pid = atoi(entry.path().filename().c_str());
    if (pid > 0 && ReadFile(entry.path().string() + "/cmdline").find(text) != std::string::npos) found.push_back(pid);
  }
  return found;
}

std::unique_ptr<Process> Start(const SpawnOptions& options) {
  auto process = Process::Spawn(options);
  INFO(process.status());
  REQUIRE(process.ok());
  return *std::move(process);
}

TEST_CASE("A control plane ends, and its files go, when the process that started it is killed") {
  const TempDir log("muster-process-test");
  const auto tool =
      Start({.args = {MUSTER_BIN_DIR "/muster-cluster", "--nodes", "0"}, .log_file = log.path() + "/log"});
  const auto output = [&] { return ReadFile(tool->log_file()); };
  REQUIRE(Eventually([&] { return output().find("ready: ") != std::string::npos || !tool->Running(); },
                     std::chrono::minutes(3)));
  INFO(output());
  REQUIRE(tool->Running());
  const size_t begin = output().find("KUBECONFIG=") + strlen("KUBECONFIG=");
  const std::string dir = output().substr(begin, output().find("/admin.kubeconfig") - begin);
  REQUIRE(std::filesystem::is_directory(dir));
  // etcd, API server, controllers, scheduler, kwok.
  CHECK(ProcessesWith(dir).size() == 5);

  kill(tool->pid(), SIGKILL);  // it alone, not its group
  CHECK(Eventually([&] { return ProcessesWith(dir).empty(); }));
  CHECK(Eventually([&] { return !std::filesystem::exists(dir); }));
}

TEST_CASE("muster-cluster runs a command, with the cluster at hand, and ends with its exit code") {
  const absl::StatusOr<Output> output =
      Run({.args = {MUSTER_BIN_DIR "/muster-cluster", "--nodes=1", "--gpus=4", "--node-label=a=b", "--", "sh", "-c",
                    "\"$MUSTER_CLUSTER_DIR/kubectl\" get nodes -L a --no-headers; exit 7"}});
  REQUIRE(output.ok());
  INFO(output->err);
  CHECK(output->exit_code == 7);
  CHECK_THAT(output->out, Catch::Matches("node-0 +Ready .* b\n"));
}

TEST_CASE("A process can be paused, resumed, ended and killed, with all that it started") {
  const TempDir dir("muster-process-test");
  const std::string file = dir.path() + "/count";
  const auto ticker = [&](const char* prelude) {
    return Start({.args = {"sh", "-c", Cat(prelude, "sleep 1000 & while :; do echo >>", file, "; sleep 0.01; done")}});
  };
  const auto size = [&] { return ReadFile(file).size(); };

  auto process = ticker("");
  REQUIRE(Eventually([&] { return size() > 2; }));
  process->Pause();
  const size_t paused = size();
  std::this_thread::sleep_for(milliseconds(100));
  CHECK(size() == paused);
  process->Resume();
  CHECK(Eventually([&] { return size() > paused; }));
  CHECK(WTERMSIG(process->Terminate()) == SIGTERM);
  CHECK_FALSE(process->Running());

  process = ticker("trap '' TERM; ");
  const size_t begun = size();
  REQUIRE(Eventually([&] { return size() > begun; }));
  CHECK(WTERMSIG(process->Terminate(milliseconds(200))) == SIGKILL);

  process = ticker("");
  const pid_t group = process->pid();
  process.reset();
  CHECK(Eventually([&] { return kill(-group, 0) != 0; }));  // its `sleep 1000` too
}

TEST_CASE("A program that is not there, and one that fails") {
  const absl::StatusOr<std::unique_ptr<Process>> absent = Process::Spawn({.args = {"/no/such/program"}});
  CHECK_THAT(std::string(absent.status().message()), Catch::Contains("/no/such/program: No such file"));
  const absl::StatusOr<Output> output = Run({.args = {"sh", "-c", "echo to out; echo to err >&2; exit 3"}});
  REQUIRE(output.ok());
  CHECK(output->exit_code == 3);
  CHECK(output->out == "to out\n");
  CHECK(output->err == "to err\n");
  CHECK(Run({.args = {"sleep", "100"}}, milliseconds(50))->exit_code == -1);
}

}  // namespace
}  // namespace muster::cluster
