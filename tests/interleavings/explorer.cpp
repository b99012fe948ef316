#include "explorer.h"

#include <ucontext.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>

// AddressSanitizer must be told of each change of stacks.
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MUSTER_FIBER_ASAN 1
#endif
#endif
#ifdef MUSTER_FIBER_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace muster::explore {

namespace {

constexpr size_t kStack = size_t{256} * 1024;

struct Access {
  const void* object = nullptr;
  bool writes = false;
};

bool Dependent(const Access& a, const Access& b) {
  return a.object != nullptr && a.object == b.object && (a.writes || b.writes);
}

// Threads that run until their next step when they are told to.
class Fibers {
 public:
  explicit Fibers(const std::vector<std::function<void()>>& threads);
  Fibers(const Fibers&) = delete;
  Fibers& operator=(const Fibers&) = delete;
  ~Fibers();

  size_t size() const { return fibers_.size(); }
  bool done(size_t i) const { return fibers_[i]->done; }
  // The step that it stands before.
  const Access& next(size_t i) const { return fibers_[i]->next; }
  void Resume(size_t i);
  void Pause(const Access& next);

 private:
  struct Fiber {
    std::function<void()> body;
    char* stack = nullptr;
    ucontext_t context{};
    Access next;
    bool done = false;
#ifdef MUSTER_FIBER_ASAN
    void* fake_stack = nullptr;
#endif
  };

  static void Main();
  void Switch(Fiber* from, Fiber* to);  // null: the scheduler

  std::vector<std::unique_ptr<Fiber>> fibers_;
  ucontext_t scheduler_{};
  Fiber* running_ = nullptr;
#ifdef MUSTER_FIBER_ASAN
  void* fake_stack_ = nullptr;
  const void* scheduler_stack_ = nullptr;
  size_t scheduler_size_ = 0;
#endif
};

Fibers* g_fibers = nullptr;

// Used again by each program: making one costs more than a whole run.
char* StackOf(size_t fiber) {
  static std::vector<std::unique_ptr<char[]>> stacks;
  while (stacks.size() <= fiber) stacks.push_back(std::make_unique<char[]>(kStack));
#ifdef MUSTER_FIBER_ASAN
  ASAN_UNPOISON_MEMORY_REGION(stacks[fiber].get(), kStack);  // of frames that were left for good
#endif
  return stacks[fiber].get();
}

Fibers::Fibers(const std::vector<std::function<void()>>& threads) {
  g_fibers = this;
  for (const std::function<void()>& thread : threads) {
    auto fiber = std::make_unique<Fiber>();
    fiber->body = thread;
    fiber->stack = StackOf(fibers_.size());
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = fiber->stack;
    fiber->context.uc_stack.ss_size = kStack;
    fiber->context.uc_link = nullptr;
    makecontext(&fiber->context, &Fibers::Main, 0);
    fibers_.push_back(std::move(fiber));
  }
  for (size_t i = 0; i < fibers_.size(); ++i) Resume(i);  // up to the first step
}

Fibers::~Fibers() { g_fibers = nullptr; }

void Fibers::Switch(Fiber* from, Fiber* to) {
  running_ = to;
#ifdef MUSTER_FIBER_ASAN
  void** save = from == nullptr ? &fake_stack_ : from->done ? nullptr : &from->fake_stack;
  const void* bottom = to == nullptr ? scheduler_stack_ : to->stack;
  __sanitizer_start_switch_fiber(save, bottom, to == nullptr ? scheduler_size_ : kStack);
#endif
  swapcontext(from == nullptr ? &scheduler_ : &from->context, to == nullptr ? &scheduler_ : &to->context);
#ifdef MUSTER_FIBER_ASAN
  const bool in_fiber = running_ != nullptr;
  __sanitizer_finish_switch_fiber(in_fiber ? running_->fake_stack : fake_stack_, in_fiber ? &scheduler_stack_ : nullptr,
                                  in_fiber ? &scheduler_size_ : nullptr);
#endif
}

void Fibers::Main() {
  Fibers* self = g_fibers;
  Fiber* fiber = self->running_;
#ifdef MUSTER_FIBER_ASAN
  __sanitizer_finish_switch_fiber(nullptr, &self->scheduler_stack_, &self->scheduler_size_);
#endif
  fiber->body();
  fiber->done = true;
  self->Switch(fiber, nullptr);
  abort();
}

void Fibers::Resume(size_t i) { Switch(nullptr, fibers_[i].get()); }

void Fibers::Pause(const Access& next) {
  if (running_ == nullptr) return;
  Fiber* fiber = running_;
  fiber->next = next;
  Switch(fiber, nullptr);
}

// ---- all orders ---------------------------------------------------------------------------------

// The state before one step of the order at hand.
struct Node {
  size_t chosen = 0;
  Access access;
  uint64_t enabled = 0;    // threads, as bits
  uint64_t backtrack = 0;  // to be tried here
  uint64_t done = 0;       // tried
  uint64_t sleep = 0;      // need not be tried: what they lead to is covered elsewhere
  std::vector<size_t> clock;
};

uint64_t Bit(size_t thread) { return uint64_t{1} << thread; }

class Exploration {
 public:
  explicit Exploration(size_t threads) : threads_(threads) {}

  // RETURNS: whether there is another order to be run.
  bool Next() {
    while (!path_.empty()) {
      Node& node = path_.back();
      node.done |= Bit(node.chosen);
      const uint64_t rest = node.backtrack & ~node.done & ~node.sleep;
      if (rest != 0) {
        node.chosen = static_cast<size_t>(__builtin_ctzll(rest));
        return true;
      }
      path_.pop_back();
    }
    return false;
  }

  // RETURNS: whether the order was run to its end.
  bool Run(const Program& program, uint64_t* steps) {
    if (program.begin) program.begin();
    bool ended = true;
    {
      Fibers fibers(program.threads);
      ended = Walk(&fibers, steps);
      for (size_t i = 0; i < fibers.size(); ++i) {
        while (!fibers.done(i)) fibers.Resume(i);
      }
    }
    if (ended && program.end) program.end();
    return ended;
  }

 private:
  bool Walk(Fibers* fibers, uint64_t* steps) {
    clocks_.assign(threads_, std::vector<size_t>(threads_, 0));
    uint64_t sleep = 0;
    for (size_t depth = 0;; ++depth) {
      uint64_t enabled = 0;
      for (size_t i = 0; i < threads_; ++i) enabled |= fibers->done(i) ? 0 : Bit(i);
      if (enabled == 0) {
        *steps = std::max<uint64_t>(*steps, depth);
        return true;
      }
      for (size_t i = 0; i < threads_; ++i) {
        if ((enabled & Bit(i)) != 0) AddBacktrack(depth, i, fibers->next(i));
      }
      if (depth == path_.size()) {
        const uint64_t awake = enabled & ~sleep;
        if (awake == 0) return false;
        Node node;
        // Stay with the thread that ran last, where that is possible: few switches first.
        const bool stay = depth > 0 && (awake & Bit(path_[depth - 1].chosen)) != 0;
        node.chosen = stay ? path_[depth - 1].chosen : static_cast<size_t>(__builtin_ctzll(awake));
        node.enabled = enabled;
        node.backtrack = Bit(node.chosen);
        node.sleep = sleep;
        path_.push_back(node);
      }
      Node& node = path_[depth];
      node.access = fibers->next(node.chosen);
      sleep = 0;
      for (size_t i = 0; i < threads_; ++i) {
        const bool asleep = ((node.sleep | node.done) & Bit(i)) != 0 && (enabled & Bit(i)) != 0 && i != node.chosen;
        if (asleep && !Dependent(fibers->next(i), node.access)) sleep |= Bit(i);
      }
      Tick(depth);
      fibers->Resume(node.chosen);
    }
  }

  // Where the last step that this one does not commute with could have come after it, that order is to be tried.
  void AddBacktrack(size_t depth, size_t thread, const Access& access) {
    for (size_t i = std::min(depth, path_.size()); i-- > 0;) {
      Node& node = path_[i];
      if (node.chosen == thread || !Dependent(node.access, access)) continue;
      if (clocks_[thread][node.chosen] > i) continue;  // happened before anyway
      node.backtrack |= (node.enabled & Bit(thread)) != 0 ? Bit(thread) : node.enabled;
      return;
    }
  }

  // Happens-before clocks: index of the step, plus one.
  void Tick(size_t depth) {
    Node& node = path_[depth];
    std::vector<size_t>& clock = clocks_[node.chosen];
    for (size_t i = 0; i < depth; ++i) {
      if (!Dependent(path_[i].access, node.access)) continue;
      for (size_t t = 0; t < threads_; ++t) clock[t] = std::max(clock[t], path_[i].clock[t]);
    }
    clock[node.chosen] = depth + 1;
    node.clock = clock;
  }

  const size_t threads_;
  std::vector<Node> path_;
  std::vector<std::vector<size_t>> clocks_;  // by thread
};

}  // namespace

void Step(const void* object, bool writes) {
  if (g_fibers != nullptr) g_fibers->Pause({object, writes});
}

Explored Explore(const std::function<Program()>& make, uint64_t orders_max) {
  Explored explored;
  std::optional<Exploration> exploration;
  do {
    if (explored.orders + explored.redundant == orders_max) {
      explored.all = false;
      break;
    }
    const Program program = make();
    if (!exploration.has_value()) exploration.emplace(program.threads.size());
    ++(exploration->Run(program, &explored.steps) ? explored.orders : explored.redundant);
  } while (exploration->Next());
  return explored;
}

Ran Run(const Program& program, const Scheduler& scheduler) {
  Ran ran;
  if (program.begin) program.begin();
  {
    Fibers fibers(program.threads);
    ran.steps.assign(fibers.size(), 0);
    while (true) {
      std::vector<int> running;
      for (size_t i = 0; i < fibers.size(); ++i) {
        if (!fibers.done(i)) running.push_back(static_cast<int>(i));
      }
      if (running.empty()) break;
      const int chosen = scheduler(running, ran.steps);
      if (chosen < 0) break;
      ++ran.steps[static_cast<size_t>(chosen)];
      fibers.Resume(static_cast<size_t>(chosen));
    }
    for (size_t i = 0; i < fibers.size(); ++i) ran.completed.push_back(fibers.done(i));
    for (size_t i = 0; i < fibers.size(); ++i) {
      while (!fibers.done(i)) fibers.Resume(i);
    }
  }
  if (program.end) program.end();
  return ran;
}

}  // namespace muster::explore
