#include "simulation.h"

#include <absl/container/flat_hash_map.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <functional>
#include <queue>
#include <tuple>

#include "world.h"

namespace muster::bench {
namespace {

using Clock = std::chrono::steady_clock;

// An unset time is no time, so time begins later.
constexpr WallTime kStart{1'000'000'000};

class Simulation {
 public:
  explicit Simulation(const Scenario& scenario) : scenario_(scenario) {}

  SimulationResult Run() {
    const Clock::time_point begun = Clock::now();
    const Duration processor_begun = ProcessorTime();
    SetUp();
    bool more = true;
    while (more) {
      const WallTime due = world_.NextDue();
      if (events_.empty() && !due.IsSet()) break;
      Duration next = events_.empty() ? Duration::max() : events_.top().at;
      if (due.IsSet()) next = std::min(next, due - kStart);
      now_ = std::max(now_, next);
      Step();
      more = !events_.empty() || !out_.steps.back().idle;
    }
    for (const WorkloadSample& workload : out_.workloads) out_.unfinished += workload.finished == Duration(0);
    out_.wall = Clock::now() - begun;
    out_.processor = ProcessorTime() - processor_begun;
    return std::move(out_);
  }

 private:
  struct Arrival {
    int queue = 0;
    int cls = 0;
    int number = 0;  // within the class and queue
  };
  // An arrival, or the end of the run `start` of `workload`.
  struct Event {
    Duration at{0};
    int64_t order = 0;
    bool arrival = false;
    Arrival what;
    size_t workload = 0;
    int start = 0;
    friend bool operator>(const Event& a, const Event& b) { return std::tie(a.at, a.order) > std::tie(b.at, b.order); }
  };

  void SetUp() {
    if (scenario_.machines.has_value()) world_.AddMachines(*scenario_.machines);
    for (int i = 0; i < scenario_.cohorts * scenario_.queues_per_cohort; ++i) {
      world_.AddQueue(i, absl::StrCat("cohort-", i / scenario_.queues_per_cohort), scenario_.queue);
      for (size_t c = 0; c < scenario_.classes.size(); ++c) {
        if (scenario_.classes[c].count > 0) Push(Duration(0), {i, static_cast<int>(c), 0});
      }
    }
    for (const ScenarioClass& cls : scenario_.classes) shapes_.push_back(world_.Shape(cls.cpu_per_pod));
  }

  void Push(Duration at, const Arrival& arrival) { events_.push({at, ++order_, true, arrival, 0, 0}); }

  // Everything that happens now, and what is decided on it.
  void Step() {
    StepSample step;
    step.at = now_;
    const Duration begun = ProcessorTime();
    for (; !events_.empty() && events_.top().at == now_; ++step.events) {
      const Event event = events_.top();
      events_.pop();
      if (event.arrival) {
        Arrive(event.what);
      } else {
        End(event);
      }
    }
    const Decided decided = world_.Decide(kStart + now_);
    step.took = ProcessorTime() - begun;
    step.decisions = decided.decisions;
    step.idle = decided.changes.empty();
    out_.steps.push_back(step);
    for (const Decided::Change& change : decided.changes) {
      const size_t index = uids_.at(change.uid);
      change.starts ? Begin(index) : CutShort(index);
    }
  }

  void Arrive(const Arrival& arrival) {
    const ScenarioClass& cls = scenario_.classes[static_cast<size_t>(arrival.cls)];
    const size_t index = out_.workloads.size();
    const std::string uid =
        world_.Submit(arrival.queue, static_cast<int64_t>(index), cls.pods, shapes_[static_cast<size_t>(arrival.cls)],
                      cls.priority, kStart + now_, cls.topology);
    uids_[uid] = index;
    WorkloadSample sample;
    sample.queue = arrival.queue;
    sample.cls = arrival.cls;
    sample.created = now_;
    out_.workloads.push_back(sample);
    names_.push_back(uid);
    running_.push_back(false);
    if (arrival.number + 1 < cls.count) Push(now_ + cls.every, {arrival.queue, arrival.cls, arrival.number + 1});
  }

  void Begin(size_t index) {
    WorkloadSample& workload = out_.workloads[index];
    workload.started = now_;
    ++workload.starts;
    running_[index] = true;
    events_.push({now_ + ClassOf(workload).run, ++order_, false, {}, index, workload.starts});
  }

  void End(const Event& event) {
    WorkloadSample& workload = out_.workloads[event.workload];
    if (workload.starts != event.start || !running_[event.workload]) return;  // of a run that was cut short
    running_[event.workload] = false;
    workload.finished = now_;
    out_.makespan = now_;
    out_.useful += WorkOf(workload, ClassOf(workload).run);
    world_.Finish(names_[event.workload]);
  }

  void CutShort(size_t index) {
    const WorkloadSample& workload = out_.workloads[index];
    ++out_.preempted;
    running_[index] = false;
    out_.lost += WorkOf(workload, now_ - workload.started);
  }

  const ScenarioClass& ClassOf(const WorkloadSample& workload) const {
    return scenario_.classes[static_cast<size_t>(workload.cls)];
  }
  double WorkOf(const WorkloadSample& workload, Duration ran) const {
    const ScenarioClass& cls = ClassOf(workload);
    return static_cast<double>(cls.cpu_per_pod.value) * cls.pods * static_cast<double>(ran.count());
  }

  const Scenario& scenario_;
  World world_;
  std::vector<gang::ShapePtr> shapes_;  // by class
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  absl::flat_hash_map<std::string, size_t> uids_;
  std::vector<std::string> names_;  // uids, by index
  std::vector<bool> running_;       // by index
  SimulationResult out_;
  Duration now_{0};
  int64_t order_ = 0;
};

}  // namespace

SimulationResult Simulate(const Scenario& scenario) { return Simulation(scenario).Run(); }

}  // namespace muster::bench
