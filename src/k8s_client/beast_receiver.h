// The way of one watch from the thread that reads it to the executor that handles it.
//
// Threading: the first part of the class is for the reading thread, the second for the executor.
#pragma once

#include <absl/status/status.h>

#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "muster/core/clock.h"
#include "muster/k8s_client/transport.h"

namespace muster::k8s {

// How a connection ended; see WatchHandler::OnClose.
struct WatchEnd {
  absl::Status status;
  int http_status = 0;
  std::string body = {};
  std::optional<Duration> retry_after = {};
};

// The connection, as its owner on the executor sees it. Each call returns at once and acts on the reading
// thread.
class WatchConnection {
 public:
  virtual ~WatchConnection() = default;
  virtual void Start() = 0;
  // Reads on after a pause.
  virtual void Resume() = 0;
  // Closes without a word.
  virtual void Abort() = 0;
};

class WatchReceiver : public std::enable_shared_from_this<WatchReceiver> {
 public:
  // Given the end of a connection. RETURNS: true if a new connection was begun instead, so that the handler
  // is not told.
  using Retry = absl::AnyInvocable<bool(const WatchEnd&)>;

  WatchReceiver(Executor* executor, WatchHandler* handler, Retry retry);

  // --- reading thread ---
  void Opened();
  // `lines`: whole lines, each with its newline.
  void Lines(std::string lines);
  void Ended(WatchEnd end);
  // RETURNS: true where so much waits that reading must pause until Resume.
  bool PauseIfFull();

  // --- executor ---
  void Connect(std::shared_ptr<WatchConnection> connection);
  // No callback follows.
  void Detach();
  bool attached() const { return handler_ != nullptr; }

 private:
  struct Item {
    bool opened = false;
    std::string lines;
    std::optional<WatchEnd> end;
  };
  void Push(Item item);
  // Handles one item, so that other tasks of the executor get their turn in between.
  void DrainOne();
  void Deliver(const std::string& lines);

  Executor* const executor_;

  std::mutex mutex_;
  std::deque<Item> items_;   // guarded by mutex_
  size_t queued_bytes_ = 0;  // guarded by mutex_
  bool scheduled_ = false;   // guarded by mutex_; a DrainOne is posted
  bool paused_ = false;      // guarded by mutex_

  WatchHandler* handler_;                        // of the executor; null: detached or ended
  Retry retry_;                                  // of the executor
  std::shared_ptr<WatchConnection> connection_;  // of the executor
};

}  // namespace muster::k8s
