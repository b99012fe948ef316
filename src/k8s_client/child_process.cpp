#include "child_process.h"

#include <absl/strings/str_cat.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <map>

#include "http_tls.h"
#include "muster/core/clock.h"

extern char** environ;

namespace muster::k8s {
namespace {

constexpr size_t kErrBytesMax = 4 * 1024;
// How often it is looked whether the program has ended, or is to be ended.
constexpr int kPollMs = 20;

class Fd {
 public:
  Fd() = default;
  ~Fd() { Reset(); }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  void Reset(int fd = -1) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }
  int get() const { return fd_; }

 private:
  int fd_ = -1;
};

struct Pipe {
  Fd read;
  Fd write;
  bool Open() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return false;
    read.Reset(ends[0]);
    write.Reset(ends[1]);
    return ::fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0;
  }
};

std::vector<std::string> Environment(const Program& program) {
  std::map<std::string, std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    all[text.substr(0, text.find('='))] = text;
  }
  const std::string cert_file = X509_get_default_cert_file_env();
  all.erase(cert_file);
  if (GivenCertFile().has_value()) all[cert_file] = absl::StrCat(cert_file, "=", *GivenCertFile());
  for (const auto& [name, value] : program.env) all[name] = absl::StrCat(name, "=", value);
  std::vector<std::string> out;
  for (auto& [name, entry] : all) out.push_back(std::move(entry));
  return out;
}

std::vector<char*> Pointers(std::vector<std::string>* texts) {
  std::vector<char*> out;
  for (std::string& text : *texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

// In a process group of its own, with nothing of ours but the two pipes.
int Spawn(const Program& program, const Pipe& out, const Pipe& err, pid_t* pid) {
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, out.write.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, err.write.get(), STDERR_FILENO);
  posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t all;
  sigset_t none;
  sigfillset(&all);
  sigemptyset(&none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);

  std::vector<std::string> words = {program.command};
  words.insert(words.end(), program.args.begin(), program.args.end());
  std::vector<std::string> variables = Environment(program);
  const int error = ::posix_spawnp(pid, program.command.c_str(), &files, &attributes, Pointers(&words).data(),
                                   Pointers(&variables).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  return error;
}

absl::Status CannotStart(int error) {
  const std::string text = std::strerror(error);
  if (error == ENOENT || error == ENOTDIR) return absl::NotFoundError(text);
  return error == EACCES ? absl::PermissionDeniedError(text) : absl::InternalError(text);
}

// What is there now, a pipe's worth at most: whoever never stops printing must not keep us here.
// RETURNS: false at the end of the stream.
bool Drain(int fd, std::string* into) {
  std::array<char, 16 * 1024> block;
  for (int i = 0; i < 8; ++i) {
    const ssize_t got = ::read(fd, block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got < 0 && errno == EAGAIN;
    into->append(block.data(), static_cast<size_t>(got));
  }
  return true;
}

// Leaves it to be waited for, so that nobody else gets its number meanwhile.
bool HasEnded(pid_t pid) {
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == pid;
}

// REQUIRES: it has ended, and was not waited for.
bool EndedWell(pid_t pid) {
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid &&
         info.si_code == CLD_EXITED && info.si_status == 0;
}

}  // namespace

absl::StatusOr<ProgramEnd> RunProgram(const Program& program, Duration timeout, size_t out_bytes_max,
                                      const std::atomic<bool>& cancel) {
  Pipe out;
  Pipe err;
  if (!out.Open() || !err.Open()) return CannotStart(errno);
  pid_t pid = 0;
  if (const int error = Spawn(program, out, err, &pid); error != 0) return CannotStart(error);
  out.write.Reset();
  err.write.Reset();

  const SystemClock clock;
  const MonoTime deadline = clock.Mono() + timeout;
  ProgramEnd end;
  absl::Status status;
  bool ended = false;
  while (!ended && status.ok()) {
    std::array<pollfd, 2> ready{{{out.read.get(), POLLIN, 0}, {err.read.get(), POLLIN, 0}}};
    ::poll(ready.data(), ready.size(), kPollMs);
    // Its own end counts, not that of its output: what it left in the background may hold that open.
    ended = HasEnded(pid);
    if (out.read.get() >= 0 && !Drain(out.read.get(), &end.out)) out.read.Reset();
    if (err.read.get() >= 0 && !Drain(err.read.get(), &end.err)) err.read.Reset();
    if (end.err.size() > kErrBytesMax) end.err.erase(0, end.err.size() - kErrBytesMax);
    if (end.out.size() > out_bytes_max) {
      status = absl::OutOfRangeError(absl::StrCat("printed more than ", out_bytes_max, " bytes"));
    } else if (!ended && cancel) {
      status = absl::CancelledError("was ended");
    } else if (!ended && clock.Mono() >= deadline) {
      const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout).count();
      status = absl::DeadlineExceededError(absl::StrCat("took longer than ", seconds, "s"));
    }
  }
  // What it left in the background after a good end, an agent that keeps credentials say, is its own affair.
  if (!status.ok() || !EndedWell(pid)) ::kill(-pid, SIGKILL);
  int wait_status = 0;
  while (::waitpid(pid, &wait_status, 0) < 0 && errno == EINTR) {
  }
  if (!status.ok()) return status;
  end.exit_code = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : -WTERMSIG(wait_status);
  return end;
}

}  // namespace muster::k8s
