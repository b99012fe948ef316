// Pages that not everybody may read: the reader shows a bearer token, and the cluster's own rules decide.
//
// Threading: a factory; the handler runs on the server's thread, what it guards on the executor.
#pragma once

#include "muster/core/access.h"
#include "muster/core/clock.h"
#include "muster/server/http_server.h"

namespace muster::server {

// `handler` for those who may, else 401 (no token, or one that nobody knows), 403, or 503 where that cannot be
// found out. The right asked for is the request's method ("get") on its path. `handler` sees no token.
// REQUIRES: `review` outlives the executor's tasks.
Handler RequireAccess(Executor* executor, AccessReview* review, Handler handler);

}  // namespace muster::server
