// What this binary is.
#pragma once

#include "muster/server/metrics.h"

namespace muster::cli {

// Version and commit are set by the build (-DMUSTER_GIT_COMMIT=..., -DMUSTER_BUILD_DATE=...).
server::BuildInfo GetBuildInfo();

}  // namespace muster::cli
