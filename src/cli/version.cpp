#include "version.h"

#include <absl/strings/str_cat.h>

#include "commit.h"

namespace muster::cli {

server::BuildInfo GetBuildInfo() {
  server::BuildInfo info;
  info.version = "v" MUSTER_VERSION;
  info.commit = MUSTER_GIT_COMMIT;
  info.date = MUSTER_BUILD_DATE;
#if defined(__clang__)
  info.compiler = absl::StrCat("clang ", __clang_major__, ".", __clang_minor__, ".", __clang_patchlevel__);
#else
  info.compiler = absl::StrCat("gcc ", __GNUC__, ".", __GNUC_MINOR__, ".", __GNUC_PATCHLEVEL__);
#endif
#if defined(__aarch64__)
  info.platform = "linux/arm64";
#else
  info.platform = "linux/amd64";
#endif
  return info;
}

}  // namespace muster::cli
