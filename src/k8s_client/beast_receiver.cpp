#include "beast_receiver.h"

#include <string_view>
#include <utility>

#include "beast_watch.h"

namespace muster::k8s {
namespace {
// What one task of the executor handles at most, long lines apart.
constexpr size_t kBatchBytes = 64 * 1024;
}  // namespace

WatchReceiver::WatchReceiver(Executor* executor, WatchHandler* handler, Retry retry)
    : executor_(executor), handler_(handler), retry_(std::move(retry)) {}

void WatchReceiver::Opened() {
  Item item;
  item.opened = true;
  Push(std::move(item));
}

void WatchReceiver::Lines(std::string lines) {
  Item item;
  item.lines = std::move(lines);
  Push(std::move(item));
}

void WatchReceiver::Ended(WatchEnd end) {
  Item item;
  item.end = std::move(end);
  Push(std::move(item));
}

void WatchReceiver::Push(Item item) {
  const std::lock_guard lock(mutex_);
  queued_bytes_ += item.lines.size();
  if (!items_.empty() && !item.opened && !item.end && items_.back().lines.size() + item.lines.size() <= kBatchBytes &&
      !items_.back().end) {
    items_.back().lines += item.lines;
  } else {
    items_.push_back(std::move(item));
  }
  if (scheduled_) return;
  scheduled_ = true;
  executor_->Post([self = shared_from_this()] { self->DrainOne(); });
}

bool WatchReceiver::PauseIfFull() {
  const std::lock_guard lock(mutex_);
  paused_ = queued_bytes_ >= kQueuedBytesMax;
  return paused_;
}

void WatchReceiver::Connect(std::shared_ptr<WatchConnection> connection) {
  connection_ = std::move(connection);
  connection_->Start();
}

void WatchReceiver::Detach() {
  handler_ = nullptr;
  retry_ = nullptr;
  if (connection_ != nullptr) std::exchange(connection_, nullptr)->Abort();
}

void WatchReceiver::DrainOne() {
  Item item;
  bool resume = false;
  {
    const std::lock_guard lock(mutex_);
    item = std::move(items_.front());
    items_.pop_front();
    queued_bytes_ -= item.lines.size();
    if (paused_ && queued_bytes_ < kQueuedBytesMax / 2) {
      paused_ = false;
      resume = true;
    }
    scheduled_ = !items_.empty();
    if (scheduled_) executor_->Post([self = shared_from_this()] { self->DrainOne(); });
  }
  if (resume && connection_ != nullptr) connection_->Resume();
  if (item.opened && handler_ != nullptr) handler_->OnOpen();
  Deliver(item.lines);
  if (!item.end || handler_ == nullptr) return;
  connection_.reset();
  if (retry_(*item.end)) return;
  WatchHandler* const handler = std::exchange(handler_, nullptr);
  handler->OnClose(std::move(item.end->status), item.end->http_status, std::move(item.end->body),
                   item.end->retry_after);
}

// The handler may detach us in the middle.
void WatchReceiver::Deliver(const std::string& lines) {
  std::string_view rest = lines;
  while (handler_ != nullptr && !rest.empty()) {
    const size_t end = rest.find('\n');
    if (end > 0) handler_->OnLine(rest.substr(0, end));
    rest.remove_prefix(end + 1);
  }
}

}  // namespace muster::k8s
