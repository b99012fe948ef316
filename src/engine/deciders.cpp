#include "deciders.h"

#include <algorithm>
#include <atomic>
#include <boost/asio/packaged_task.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <future>
#include <vector>

#include "muster/core/check.h"

namespace muster::engine {

struct Deciders::Pool {
  explicit Pool(size_t threads) : pool(threads) {}
  ~Pool() { pool.join(); }

  boost::asio::thread_pool pool;
};

Deciders::Deciders(int count) : count_(static_cast<size_t>(std::max(count, 1))) {
  MUSTER_CHECK(count >= 1);
  if (count_ > 1) pool_ = std::make_unique<Pool>(count_ - 1);
}

Deciders::~Deciders() = default;

void Deciders::ForEach(size_t tasks, absl::FunctionRef<void(size_t task, size_t decider)> run) {
  std::atomic<size_t> next = 0;
  // What is thrown ends the process, as a check that fails does: the others would go on with what is gone.
  const auto work = [&next, tasks, run](size_t decider) noexcept {
    for (size_t task = next++; task < tasks; task = next++) run(task, decider);
  };
  std::vector<std::future<void>> others;
  for (size_t decider = 1; decider < std::min(count_, tasks); ++decider) {
    others.push_back(boost::asio::post(pool_->pool, std::packaged_task<void()>([&work, decider] { work(decider); })));
  }
  work(0);
  for (std::future<void>& other : others) other.get();
}

}  // namespace muster::engine
