#include "muster/core/small_file.h"

#include <absl/status/status.h>
#include <absl/strings/str_cat.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

namespace muster {
namespace {

absl::Status Failed(const std::string& path, int error) {
  const std::string text = absl::StrCat(path, ": ", std::generic_category().message(error));
  return error == ENOENT || error == ENOTDIR ? absl::NotFoundError(text) : absl::InvalidArgumentError(text);
}

absl::StatusOr<std::string> ReadAll(int file, const std::string& path, size_t bytes_max) {
  struct stat facts {};
  if (::fstat(file, &facts) != 0) return Failed(path, errno);
  // A pipe or device might never end.
  if (!S_ISREG(facts.st_mode)) return absl::InvalidArgumentError(absl::StrCat(path, ": is not a regular file"));
  std::string out;
  std::array<char, 16 * 1024> block;
  while (true) {
    const ssize_t got = ::read(file, block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Failed(path, errno);
    if (got == 0) return out;
    out.append(block.data(), static_cast<size_t>(got));
    if (out.size() > bytes_max) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": is longer than ", bytes_max, " bytes"));
    }
  }
}

}  // namespace

absl::StatusOr<std::string> ReadSmallFile(const std::string& path, size_t bytes_max) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return Failed(path, errno);
  auto out = ReadAll(file, path, bytes_max);
  ::close(file);
  return out;
}

}  // namespace muster
