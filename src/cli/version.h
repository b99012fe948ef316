// What this binary is.
#pragma once

#include "muster/server/metrics.h"

namespace muster::cli {

// The commit is git's, unless the build says another (-DMUSTER_GIT_COMMIT=..., -DMUSTER_BUILD_DATE=...).
server::BuildInfo GetBuildInfo();

}  // namespace muster::cli
