// bench-engine: what the engine decides and what that costs, without an API server.
//
//   bench-engine run bench/data/baseline.yaml [--samples FILE.csv] [--steps FILE.csv]
//   bench-engine queues         what one turn costs with 100 to 10,000 ClusterQueues
//   bench-engine waiting        what one turn costs with 1,000 to 1,000,000 waiting workloads
//   bench-engine machines       what a look at the room of all machines costs, as metrics take it
//   bench-engine deciders       what one turn of many trees takes with one decider, and with two
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>

#include "deciders.h"
#include "machines.h"
#include "preemption.h"
#include "scaling.h"
#include "scenario.h"
#include "simulation.h"

namespace muster::bench {
namespace {

double Seconds(Duration d) { return std::chrono::duration<double>(d).count(); }
double Millis(Duration d) { return Seconds(d) * 1e3; }
double Micros(Duration d) { return Seconds(d) * 1e6; }

// ---- run ----------------------------------------------------------------------------------------

void PrintWaits(const Scenario& scenario, const SimulationResult& result) {
  for (size_t c = 0; c < scenario.classes.size(); ++c) {
    std::vector<Duration> waits;
    for (const WorkloadSample& workload : result.workloads) {
      if (workload.cls == static_cast<int>(c) && workload.starts > 0) waits.push_back(workload.Wait());
    }
    if (waits.empty()) continue;
    std::sort(waits.begin(), waits.end());
    double sum = 0;
    for (const Duration wait : waits) sum += Seconds(wait);
    std::printf("  wait of %s: mean %.2f s, p50 %.2f s, p99 %.2f s, longest %.2f s (%zu workloads)\n",
                scenario.classes[c].name.c_str(), sum / static_cast<double>(waits.size()),
                Seconds(waits[waits.size() / 2]), Seconds(waits[waits.size() * 99 / 100]), Seconds(waits.back()),
                waits.size());
  }
}

void PrintResult(const std::string& file, const Scenario& scenario, const SimulationResult& result) {
  int64_t decisions = 0;
  int64_t starts = 0;
  std::vector<Duration> steps;
  for (const StepSample& step : result.steps) {
    decisions += step.decisions;
    steps.push_back(step.took);
  }
  for (const WorkloadSample& workload : result.workloads) starts += workload.starts;
  std::sort(steps.begin(), steps.end());
  const double offered = scenario.Capacity() * static_cast<double>(result.makespan.count());
  const Duration best = scenario.BestPossible();
  std::printf("%s: %zu workloads in %d queues\n", file.c_str(), result.workloads.size(),
              scenario.cohorts * scenario.queues_per_cohort);
  std::printf("  makespan %.2f s of virtual time; the best possible is %.2f s (%.2f times that)\n",
              Seconds(result.makespan), Seconds(best), Seconds(result.makespan) / Seconds(best));
  std::printf("  goodput %.1f %% of the quota, lost to preemption %.1f %%\n", result.useful / offered * 100,
              result.lost / offered * 100);
  PrintWaits(scenario, result);
  std::printf("  wall time %.3f s, processor time %.3f s; %.0f decisions a second of it (%lld, of them %lld starts)\n",
              Seconds(result.wall), Seconds(result.processor),
              static_cast<double>(decisions) / Seconds(result.processor), static_cast<long long>(decisions),
              static_cast<long long>(starts));
  std::printf("  one step (all that happens at a time): p50 %.1f us, p99 %.1f us, longest %.1f us (%zu steps)\n",
              Micros(steps[steps.size() / 2]), Micros(steps[steps.size() * 99 / 100]), Micros(steps.back()),
              steps.size());
  if (result.unfinished > 0) {
    std::printf("  never finished: %lld workloads\n", static_cast<long long>(result.unfinished));
  }
}

bool WriteSamples(const std::string& path, const Scenario& scenario, const SimulationResult& result) {
  std::ofstream file(path);
  file << "queue,class,created_ms,started_ms,finished_ms,starts\n";
  for (const WorkloadSample& workload : result.workloads) {
    file << QueueName(workload.queue) << ',' << scenario.classes[static_cast<size_t>(workload.cls)].name << ','
         << Millis(workload.created) << ',';
    if (workload.starts > 0) file << Millis(workload.started);
    file << ',';
    if (workload.finished > Duration(0)) file << Millis(workload.finished);
    file << ',' << workload.starts << '\n';
  }
  return file.good();
}

bool WriteSteps(const std::string& path, const SimulationResult& result) {
  std::ofstream file(path);
  file << "at_ms,events,decisions,took_us\n";
  for (const StepSample& step : result.steps) {
    file << Millis(step.at) << ',' << step.events << ',' << step.decisions << ',' << Micros(step.took) << '\n';
  }
  return file.good();
}

int RunFile(const std::string& path, const std::string& samples, const std::string& steps) {
  const auto scenario = ReadScenario(path);
  if (!scenario.ok()) {
    std::fprintf(stderr, "%s\n", std::string(scenario.status().message()).c_str());
    return 2;
  }
  const SimulationResult result = Simulate(*scenario);
  if (result.workloads.empty()) {
    std::fprintf(stderr, "%s: no workloads\n", path.c_str());
    return 2;
  }
  PrintResult(path, *scenario, result);
  if (!samples.empty() && !WriteSamples(samples, *scenario, result)) {
    std::fprintf(stderr, "%s cannot be written\n", samples.c_str());
    return 1;
  }
  if (!steps.empty() && !WriteSteps(steps, result)) {
    std::fprintf(stderr, "%s cannot be written\n", steps.c_str());
    return 1;
  }
  return result.unfinished == 0 ? 0 : 1;
}

// ---- scaling ------------------------------------------------------------------------------------

void PrintCost(const TurnCost& cost, const TurnCost& first) {
  std::printf(
      "  %7d queues %9lld waiting %5d shapes: mean %9.1f us, p50 %9.1f us, p99 %9.1f us a turn; %.2f times the "
      "first; resident %lld MiB\n",
      cost.queues, static_cast<long long>(cost.waiting), cost.shapes, Micros(cost.mean), Micros(cost.p50),
      Micros(cost.p99), Seconds(cost.mean) / Seconds(first.mean), static_cast<long long>(cost.resident_kib / 1024));
  std::fflush(stdout);
}

void PrintQueueScaling(int turns) {
  for (const int per_cohort : {10, 100, 0}) {
    std::printf("cohorts of %s\n", per_cohort == 0 ? "all queues" : std::to_string(per_cohort).c_str());
    TurnCost first;
    for (const int queues : {100, 1'000, 10'000}) {
      const TurnCost cost = MeasureQueues(queues, per_cohort == 0 ? queues : per_cohort, turns);
      if (queues == 100) first = cost;
      PrintCost(cost, first);
    }
  }
}

void PrintWaitingScaling(int turns) {
  for (const int shapes : {1, 100, 1'000}) {
    TurnCost first;
    for (const int64_t waiting : {1'000, 10'000, 100'000, 1'000'000}) {
      const TurnCost cost = MeasureWaiting(waiting, shapes, turns);
      if (waiting == 1'000) first = cost;
      PrintCost(cost, first);
    }
  }
}

void PrintPreemption(int turns) {
  for (const int64_t running : {1'000, 10'000, 100'000}) {
    const PreemptionCost cost = MeasurePreemption(running, turns);
    std::printf(
        "  %7lld running: %lld preemptions, %lld victims; search p50 %9.1f us, p99 %9.1f us, with all that follows "
        "p50 %9.1f us, p99 %9.1f us\n",
        static_cast<long long>(cost.running), static_cast<long long>(cost.preemptions),
        static_cast<long long>(cost.victims), Micros(cost.search.p50), Micros(cost.search.p99), Micros(cost.whole.p50),
        Micros(cost.whole.p99));
    std::fflush(stdout);
  }
}

void PrintMachines(int times) {
  for (const int flavors : {1, 20}) {
    const MachinesCost cost = MeasureMachines(10'000, flavors, times);
    std::printf("  %d nodes of %d flavors: room p50 %.1f us, p99 %.1f us; quota that no node can serve %.1f us\n",
                cost.nodes, cost.flavors, Micros(cost.room_p50), Micros(cost.room_p99), Micros(cost.quotas));
  }
}

void PrintDeciders(int deciders, int turns) {
  for (const bool shared : {false, true}) {
    const DecidersCost cost = MeasureDeciders(shared, deciders, turns);
    std::printf(
        "  %d trees, %d nodes, %s: one decider %.1f us a turn, %d deciders %.1f us (p50, real time): %.2f times as "
        "fast; "
        "%lld admitted, %lld reasons told\n",
        cost.trees, cost.nodes, shared ? "shared" : "each its own", Micros(cost.one_p50), deciders,
        Micros(cost.many_p50), Seconds(cost.one_p50) / Seconds(cost.many_p50), static_cast<long long>(cost.admitted),
        static_cast<long long>(cost.held));
    std::fflush(stdout);
  }
}

int Main(int argc, char** argv) {
  CLI::App app("Runs the engine without an API server, and measures what its decisions cost.");
  app.require_subcommand(1);
  std::string file;
  std::string samples;
  std::string steps;
  int turns = 1000;
  auto* run = app.add_subcommand("run", "a scenario in virtual time");
  run->add_option("file", file, "see bench/data")->required();
  run->add_option("--samples", samples, "writes each workload's times to this file (CSV)");
  run->add_option("--steps", steps, "writes what each step cost to this file (CSV)");
  auto* queues = app.add_subcommand("queues", "what one turn costs, from 100 to 10,000 ClusterQueues");
  auto* waiting = app.add_subcommand("waiting", "what one turn costs, from 1,000 to 1,000,000 waiting workloads");
  auto* preemption = app.add_subcommand("preemption", "what one preemption costs, among 1,000 to 100,000 that run");
  auto* machines = app.add_subcommand("machines", "what a look at the room of 10,000 nodes costs");
  auto* deciders = app.add_subcommand("deciders", "what one turn of many trees takes with one decider and with more");
  int deciders_max = 2;
  deciders->add_option("--deciders", deciders_max, "instead of one")->capture_default_str();
  for (auto* command : {queues, waiting, preemption, machines, deciders}) {
    command->add_option("--turns", turns, "to measure")->capture_default_str();
  }
  CLI11_PARSE(app, argc, argv);
  if (run->parsed()) return RunFile(file, samples, steps);
  if (queues->parsed()) PrintQueueScaling(turns);
  if (waiting->parsed()) PrintWaitingScaling(turns);
  if (preemption->parsed()) PrintPreemption(turns);
  if (machines->parsed()) PrintMachines(turns);
  if (deciders->parsed()) PrintDeciders(deciders_max, turns);
  return 0;
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) { return muster::bench::Main(argc, argv); }
