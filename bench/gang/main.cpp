// bench-gang: how long it takes to say whether a gang has places, on 10,000 machines with 8 GPUs each, half full and
// fragmented: yes and no, for gangs of one shape and of three.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "machines.h"
#include "muster/gang/machine_book.h"

namespace muster::bench {
namespace {

using gang::GangRequest;
using gang::PodNeeds;

// Of each machine 0 to 8 GPUs are taken, four on average; CPU and memory go with each other, but not with the GPUs.
// None is quite free.
void FillMachines(gang::MachineBook* book, uint32_t machines, uint64_t seed) {
  gang::MachineBook::User user(book);
  std::mt19937_64 random(seed);
  std::vector<gang::MachineEdit> edits;
  for (uint32_t i = 0; i < machines; ++i) {
    const auto gpus = static_cast<int64_t>(random() % 9);
    auto cpus = static_cast<int64_t>(random() % 9);
    if (gpus == 0 && cpus == 0) cpus = 1;
    edits.push_back({gang::MachineEdit::Kind::kPut,
                     {i},
                     {i % 8},
                     true,
                     {{gang::kPodSlots, 110 - gpus},
                      {kGpu, 8 - gpus},
                      {kCpu, 128'000 - cpus * 15'000},
                      {kMemory, (1024 - cpus * 110) * kGi}}});
  }
  user.Edit(edits);
}

gang::PodSetRequest Pods(int64_t count, int64_t gpus, int64_t cpu, int64_t memory) {
  return {PodNeeds({{kGpu, gpus}, {kCpu, cpu}, {kMemory, memory * kGi}}), count, {}};
}

struct Case {
  std::string name;
  GangRequest request;
  gang::Outcome::Verdict answer;
};

// A gang of `pods`, of one shape or of a leader, workers and helpers. Each no needs a look at every machine: either all
// GPUs and all CPUs of one, which many have, but none has both; or all GPUs of more machines than have them.
std::vector<Case> Cases(int64_t pods) {
  using Verdict = gang::Outcome::Verdict;
  std::vector<Case> cases;
  const std::string size = std::to_string(pods);
  const int64_t each = pods == 5'000 ? 1 : 4;
  GangRequest one;
  one.pod_sets = {Pods(pods, each, 8'000, 32)};
  cases.push_back({size + " pods, one shape, yes", one, Verdict::kDone});
  const gang::PodSetRequest in_vain = pods == 5'000 ? Pods(pods, 8, 8'000, 32) : Pods(pods, 8, 128'000, 1'024);
  one.pod_sets = {in_vain};
  cases.push_back({size + " pods, one shape, no", one, Verdict::kDoesNotFit});
  GangRequest three;
  three.pod_sets = {Pods(1, 0, 16'000, 64), Pods(pods / 2, each, 8'000, 32), Pods(pods - pods / 2 - 1, 1, 30'000, 16)};
  cases.push_back({size + " pods, three shapes, yes", three, Verdict::kDone});
  three.pod_sets[1] = in_vain;
  three.pod_sets[1].count = pods - 2;
  three.pod_sets[2].count = 1;
  cases.push_back({size + " pods, three shapes, no", three, Verdict::kDoesNotFit});
  return cases;
}

const char* Name(gang::Outcome::Verdict verdict) {
  switch (verdict) {
    case gang::Outcome::Verdict::kDone:
      return "yes";
    case gang::Outcome::Verdict::kConflict:
      return "conflict";
    case gang::Outcome::Verdict::kDoesNotFit:
      return "no";
    case gang::Outcome::Verdict::kNotFound:
      return "not found";
  }
  return "";
}

// RETURNS: whether each answer was right.
bool Measure(gang::MachineBook* book, const Case& one, int times, std::ofstream* samples) {
  gang::MachineBook::User user(book);
  std::vector<double> taken;
  gang::Outcome::Verdict verdict = one.answer;  // or the last that was another
  for (int i = 0; i < times; ++i) {
    gang::Claim claim;
    GangRequest request = one.request;
    request.origin = static_cast<uint32_t>(i) * 13;
    const auto begin = SteadyClock::now();
    const gang::Outcome::Verdict answer = user.Place(request, &claim).verdict;
    taken.push_back(std::chrono::duration<double, std::milli>(SteadyClock::now() - begin).count());
    if (answer != one.answer) verdict = answer;
    if (claim.held != gang::Book::kNone) user.Release(&claim);
    if (samples->is_open()) *samples << '"' << one.name << "\"," << i << ',' << taken.back() << '\n';
  }
  std::printf("%-32s %-10s p50 %8.3f ms  p99 %8.3f ms\n", one.name.c_str(), Name(verdict), Percentile(taken, 50),
              Percentile(taken, 99));
  return verdict == one.answer;
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  uint32_t machines = 10'000;
  int times = 1'000;
  std::string file;
  CLI::App app("bench-gang: does a gang have places, and where");
  app.add_option("--machines", machines, "of 8 GPUs each");
  app.add_option("--times", times, "how often each question is asked");
  app.add_option("--samples", file, "a CSV file for each single time, in milliseconds");
  CLI11_PARSE(app, argc, argv);
  std::ofstream samples;
  if (!file.empty()) {
    samples.open(file);
    samples << "case,time,ms\n";
  }
  muster::gang::MachineBook book;
  muster::bench::FillMachines(&book, machines, 5);
  bool right = true;
  for (const int64_t pods : {8, 512, 5'000}) {
    for (const muster::bench::Case& one : muster::bench::Cases(pods)) {
      right &= muster::bench::Measure(&book, one, times, &samples);
    }
  }
  return right ? 0 : 1;
}
