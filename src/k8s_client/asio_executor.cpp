// The executor on Asio's io_context. Timers are kept in a map of our own, and one steady_timer waits for the
// earliest: a handler that Asio has already queued cannot be taken back, an entry of a map can, and Cancel
// promises that.
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <csignal>
#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

#include "muster/core/check.h"
#include "muster/k8s_client/connection.h"

namespace muster::k8s {
namespace asio = boost::asio;

namespace {

// The same clock as SystemClock::Mono.
MonoTime SteadyNow() {
  const auto since_start = std::chrono::steady_clock::now().time_since_epoch();
  return {std::chrono::duration_cast<Duration>(since_start).count()};
}

}  // namespace

class AsioExecutor::Impl {
 public:
  ~Impl() {
    // Tasks may own things whose destructors come back to Cancel or Post, so they die while all else lives.
    signals_.reset();
    Timers timers;
    {
      const std::lock_guard lock(mutex_);
      timers.swap(timers_);
      due_at_.clear();
    }
  }

  void Post(Task task) {
    asio::post(io_, [task = std::move(task)]() mutable { task(); });
  }

  TimerId PostAt(MonoTime when, Task task) {
    TimerId id = 0;
    bool earliest = false;
    {
      const std::lock_guard lock(mutex_);
      id = ++last_id_;
      const auto it = timers_.emplace(Key{when, id}, std::move(task)).first;
      due_at_.emplace(id, when);
      earliest = it == timers_.begin();
    }
    // steady_timer is not safe for concurrent use: only the running thread touches it.
    if (earliest) asio::post(io_, [this] { Arm(); });
    return id;
  }

  void Cancel(TimerId id) {
    Task dead;  // destroyed outside the lock: it may own what calls Cancel
    const std::lock_guard lock(mutex_);
    const auto due = due_at_.find(id);
    if (due == due_at_.end()) return;
    const auto it = timers_.find(Key{due->second, id});
    dead = std::move(it->second);
    timers_.erase(it);
    due_at_.erase(due);
  }

  void Run() {
    auto work = asio::make_work_guard(io_);
    io_.run();
    work.reset();  // before restart: the end of the last work stops the context once more
    io_.restart();
  }

  void Stop() { io_.stop(); }

  void OnTerminate(Task handler) {
    signals_.emplace(io_, SIGINT, SIGTERM, SIGHUP);
    signals_->async_wait(
        [this, handler = std::move(handler)](const boost::system::error_code& error, int /*signal*/) mutable {
          if (error) return;
          // A second signal takes its default action: whoever is tired of waiting can end the process.
          boost::system::error_code ignored;
          signals_->clear(ignored);
          handler();
        });
  }

 private:
  using Key = std::pair<MonoTime, TimerId>;
  using Timers = std::map<Key, Task>;

  // Waits for the earliest timer. An armed wait that is replaced ends with operation_aborted.
  void Arm() {
    MonoTime when;
    {
      const std::lock_guard lock(mutex_);
      if (timers_.empty()) return;
      when = timers_.begin()->first.first;
    }
    timer_.expires_at(std::chrono::steady_clock::time_point(
        std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::nanoseconds(when.nanos))));
    timer_.async_wait([this](const boost::system::error_code& error) {
      if (!error) RunOneDue();
    });
  }

  // One at a time, so that due timers and posted tasks take turns.
  void RunOneDue() {
    Task task;
    {
      const std::lock_guard lock(mutex_);
      const auto it = timers_.begin();
      if (it != timers_.end() && it->first.first <= SteadyNow()) {
        task = std::move(it->second);
        due_at_.erase(it->first.second);
        timers_.erase(it);
      }
    }
    Arm();
    if (task) task();
  }

  std::mutex mutex_;
  Timers timers_;                                 // guarded by mutex_
  std::unordered_map<TimerId, MonoTime> due_at_;  // guarded by mutex_; the same timers by id
  TimerId last_id_ = 0;                           // guarded by mutex_

  asio::io_context io_{1};
  asio::steady_timer timer_{io_};
  std::optional<asio::signal_set> signals_;
};

AsioExecutor::AsioExecutor() : impl_(std::make_unique<Impl>()) {}
AsioExecutor::~AsioExecutor() = default;
void AsioExecutor::Post(Task task) { impl_->Post(std::move(task)); }
Executor::TimerId AsioExecutor::PostAt(MonoTime when, Task task) { return impl_->PostAt(when, std::move(task)); }
void AsioExecutor::Cancel(TimerId id) { impl_->Cancel(id); }
void AsioExecutor::Run() { impl_->Run(); }
void AsioExecutor::Stop() { impl_->Stop(); }
void AsioExecutor::OnTerminate(Task handler) { impl_->OnTerminate(std::move(handler)); }

}  // namespace muster::k8s
