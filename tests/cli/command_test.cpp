// The command as its users call it: output and exit codes (include/muster/cli/main.h).

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace muster::cli {
namespace {

struct Outcome {
  int code = -1;
  std::string output;  // standard output and standard error
};

Outcome Run(const std::string& arguments) {
  // No cluster and no kubeconfig around.
  const std::string command = "env -u KUBERNETES_SERVICE_HOST -u KUBECONFIG HOME=/nonexistent '" +
                              std::string(MUSTER_BIN_DIR) + "/muster' " + arguments + " 2>&1 </dev/null";
  FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  Outcome outcome;
  char buffer[4096];
  for (size_t n = 0; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) outcome.output.append(buffer, n);
  const int status = pclose(pipe);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

// A file that goes away with the test.
class TempFile {
 public:
  explicit TempFile(const std::string& text) {
    path_ = (std::filesystem::temp_directory_path() / "muster-command-test-XXXXXX").string();
    const int fd = mkstemp(path_.data());
    REQUIRE(fd >= 0);
    close(fd);
    std::ofstream(path_) << text;
  }
  ~TempFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// The command in the background, its output in a file. Started without a shell or timeout(1) in between: those pass a
// signal on to the process and to its group, and the second one kills.
class MusterProcess {
 public:
  MusterProcess(std::vector<std::string> arguments, const std::string& log) : log_(log) {
    const std::string binary = std::string(MUSTER_BIN_DIR) + "/muster";
    std::vector<char*> argv = {const_cast<char*>(binary.c_str())};
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    pid_ = fork();
    REQUIRE(pid_ >= 0);
    if (pid_ != 0) return;
    const int out = open(log.c_str(), O_WRONLY | O_APPEND);
    const int in = open("/dev/null", O_RDONLY);
    if (out < 0 || in < 0 || dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0) _exit(126);
    unsetenv("KUBERNETES_SERVICE_HOST");
    execv(binary.c_str(), argv.data());
    _exit(127);
  }
  MusterProcess(const MusterProcess&) = delete;
  MusterProcess& operator=(const MusterProcess&) = delete;
  ~MusterProcess() {
    if (ended_) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  // RETURNS: whether the text was seen; false too where the process ended first.
  bool WaitForLog(const std::string& text) {
    return WaitUntil([&] { return Log().find(text) != std::string::npos || HasEnded(); }) &&
           Log().find(text) != std::string::npos;
  }
  void Signal(int signal) { REQUIRE(kill(pid_, signal) == 0); }
  // RETURNS: what waitpid() says; nothing if it still runs.
  std::optional<int> WaitForEnd() {
    if (!WaitUntil([this] { return HasEnded(); })) return std::nullopt;
    return status_;
  }
  std::string Log() const {
    std::ifstream in(log_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }

 private:
  bool HasEnded() {
    if (!ended_) ended_ = waitpid(pid_, &status_, WNOHANG) == pid_;
    return ended_;
  }
  template <typename Condition>
  static bool WaitUntil(Condition condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return true;
  }

  const std::string log_;
  pid_t pid_ = -1;
  bool ended_ = false;
  int status_ = 0;
};

const std::string kHeader = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n";

TEST_CASE("wrong use ends with 2 and says what would be right") {
  CHECK(Run("").code == 2);
  CHECK(Run("rum").code == 2);
  CHECK(Run("rum").output ==
        "muster: there is no command \"rum\", did you mean run? There are: run, release, check-config, policies, "
        "version. More with muster --help\n");
  CHECK(Run("frobnicate --config x").output.starts_with("muster: there is no command \"frobnicate\". There are: run"));
  CHECK(Run("run --no-such-flag").code == 2);
  CHECK(Run("run --log-level loud").code == 2);
  CHECK(Run("policies --kinds some").code == 2);
  CHECK(Run("check-config").code == 2);
  CHECK(Run("--help").code == 0);
  CHECK(Run("version").code == 0);
  CHECK(Run("version").output.starts_with("muster v"));
  // Of a clone it is known which commit it was built of.
  if (std::filesystem::exists(MUSTER_SOURCE_DIR "/.git")) {
    CHECK_THAT(Run("version").output,
               Catch::Matches("muster v[0-9.]+, commit [0-9a-f]{12,40}(-dirty)?, built (.|\n)*"));
  }
}

TEST_CASE("check-config lists every error with file and line") {
  const TempFile bad(kHeader + "metrics: {bindAdress: x}\nvisibilityServer: {bindPort: 8082}\n");
  const Outcome outcome = Run("check-config " + bad.path());
  CHECK(outcome.code == 2);
  CHECK(outcome.output == bad.path() + ":3: metrics.bindAdress: x: unknown field; did you mean bindAddress?\n" +
                              bad.path() + ":4: visibilityServer.bindPort: 8082: not supported yet\n");
  const TempFile good(kHeader);
  CHECK(Run("check-config " + good.path()).code == 0);
  const Outcome missing = Run("check-config /nonexistent/config.yaml");
  CHECK(missing.code == 2);
  CHECK(missing.output == "/nonexistent/config.yaml: No such file or directory\n");
  // What never ends or is no file at all.
  for (const char* path : {"/", "/dev/zero"}) {
    const Outcome other = Run(std::string("check-config ") + path);
    CHECK(other.code == 2);
    CHECK(other.output == std::string(path) + ": is not a regular file\n");
  }
  const TempFile endless(kHeader + std::string(2 << 20, '#'));
  const Outcome too_long = Run("check-config " + endless.path());
  CHECK(too_long.code == 2);
  CHECK(too_long.output == endless.path() + ": is longer than 1048576 bytes\n");
}

TEST_CASE("policies come out as the configuration has them") {
  const TempFile config(kHeader + "muster: {allowedStarters: [somebody-else]}\n");
  const Outcome all = Run("policies --config " + config.path());
  CHECK(all.code == 0);
  CHECK(all.output.find("kind: MutatingAdmissionPolicy\n") != std::string::npos);
  CHECK(all.output.find("somebody-else") != std::string::npos);
  const Outcome validating = Run("policies --kinds validating --config " + config.path());
  CHECK(validating.output.find("kind: MutatingAdmissionPolicy\n") == std::string::npos);
  CHECK(validating.output.find("kind: ValidatingAdmissionPolicy\n") != std::string::npos);
  CHECK(Run("policies --namespace other").output.find("system:serviceaccount:other:muster") != std::string::npos);
}

TEST_CASE("run without a way to the API server ends with 1, in the log") {
  const Outcome outcome = Run("run");
  CHECK(outcome.code == 1);
  CHECK(outcome.output.find("\"level\":\"error\"") != std::string::npos);
  CHECK(outcome.output.find("no way to the API server") != std::string::npos);
}

TEST_CASE("run with a bad configuration ends with 2 before it does anything") {
  const TempFile kubeconfig(
      "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n"
      "clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\nusers: [{name: u, user: {token: t}}]\n");
  const TempFile bad(kHeader + "clientConnection: {qps: 0}\n");
  const Outcome outcome = Run("run --kubeconfig " + kubeconfig.path() + " --config " + bad.path());
  CHECK(outcome.code == 2);
  CHECK(outcome.output.find(bad.path() + ":3: clientConnection.qps: 0: ") != std::string::npos);
}

TEST_CASE("run stops at a signal with 0, though no API server answers") {
  const int signal = GENERATE(SIGTERM, SIGINT, SIGHUP);
  const TempFile kubeconfig(
      "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n"
      "clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\nusers: [{name: u, user: {token: t}}]\n");
  const TempFile config(kHeader +
                        "health: {healthProbeBindAddress: '127.0.0.1:0'}\nmetrics: {bindAddress: '127.0.0.1:0'}\n");
  const TempFile log("");
  MusterProcess process({"run", "--kubeconfig", kubeconfig.path(), "--config", config.path()}, log.path());
  // Reached once it listens: from then on a signal ends it in order.
  REQUIRE(process.WaitForLog("metrics on"));
  process.Signal(signal);
  const std::optional<int> status = process.WaitForEnd();
  INFO(process.Log());
  REQUIRE(status.has_value());
  REQUIRE(WIFEXITED(*status));
  CHECK(WEXITSTATUS(*status) == 0);
}

}  // namespace
}  // namespace muster::cli
