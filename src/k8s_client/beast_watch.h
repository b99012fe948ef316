// Watches over Beast, each on a connection of its own; one thread reads them all.
//
// Lines go to the executor in batches: a stream that delivers faster than the executor takes is no longer
// read once kQueuedBytesMax wait, so memory stays bounded, and the server sees a slow watcher.
//
// Threading: used from the executor only; callbacks run there, never inside the call.
#pragma once

#include <memory>
#include <string>

#include "http_address.h"
#include "http_credentials.h"
#include "http_tls.h"
#include "muster/core/clock.h"
#include "muster/k8s_client/transport.h"

namespace muster::k8s {

inline constexpr size_t kWatchLineBytesMax = 4 * 1024 * 1024;
inline constexpr size_t kQueuedBytesMax = 8 * 1024 * 1024;

class BeastWatches {
 public:
  // `tls` null: plain HTTP. REQUIRES: `credentials` outlives it.
  BeastWatches(Environment env, const ServerAddress& address, std::shared_ptr<const TlsSettings> tls,
               std::string user_agent, Credentials* credentials);
  // Closes every stream; no callback follows. Streams may be destroyed later.
  ~BeastWatches();
  BeastWatches(const BeastWatches&) = delete;
  BeastWatches& operator=(const BeastWatches&) = delete;

  std::unique_ptr<WatchStream> Open(HttpRequest request, WatchHandler* handler);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::k8s
