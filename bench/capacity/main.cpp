// bench-capacity: what the machine book costs, beside the same book behind a mutex and behind a reader-writer lock.
//
// The unit of work is search + reserve + release on 10,000 machines that are half full, with a share of gangs that do
// not fit. All three books are measured in turn, in rounds, so that what else the machine does hits them alike; the
// figures are medians over the rounds, and ratios of one run.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "books.h"
#include "machines.h"

namespace muster::bench {
namespace {

using gang::GangRequest;
using gang::PodNeeds;

constexpr uint32_t kMachines = 10'000;

struct Options {
  bool is_short = false;
  int rounds = 9;
  int milliseconds = 1000;  // of each measurement
  std::string samples;
};

// Half of the room is taken, in pieces of different size; no machine has all of its GPUs free.
void FillMachines(gang::MachineBook* book) {
  gang::MachineBook::User user(book);
  std::mt19937_64 random(1);
  std::vector<gang::MachineEdit> edits;
  for (uint32_t i = 0; i < kMachines; ++i) {
    const auto used = static_cast<int64_t>(1 + random() % 7);
    edits.push_back({gang::MachineEdit::Kind::kPut,
                     {i},
                     {i % 4},
                     true,
                     {{gang::kPodSlots, 110 - used},
                      {kGpu, 8 - used},
                      {kCpu, 128'000 - used * 14'000},
                      {kMemory, (1024 - used * 100) * kGi}}});
  }
  user.Edit(edits);
}

GangRequest Gang(int64_t pods, int64_t gpus, int64_t cpu, int64_t memory) {
  GangRequest request;
  request.pod_sets.push_back({PodNeeds({{kGpu, gpus}, {kCpu, cpu}, {kMemory, memory}}), pods, {}});
  return request;
}

// What deciders are asked: of 20 gangs, 7 do not fit (a third of what waits in a full cluster is asked in vain), which
// is seen once every chunk's summary was looked at.
std::vector<GangRequest> Requests() {
  std::vector<GangRequest> requests;
  for (int i = 0; i < 6; ++i) requests.push_back(Gang(1, 1, 4'000, 32 * kGi));
  for (int i = 0; i < 4; ++i) requests.push_back(Gang(8, 4, 32'000, 128 * kGi));
  for (int i = 0; i < 2; ++i) requests.push_back(Gang(64, 2, 16'000, 64 * kGi));
  requests.push_back(Gang(512, 1, 8'000, 64 * kGi));
  for (int i = 0; i < 3; ++i) requests.push_back(Gang(2, 8, 64'000, 512 * kGi));
  for (int i = 0; i < 4; ++i) requests.push_back(Gang(4, 7, 16'000, 940 * kGi));
  std::shuffle(requests.begin(), requests.end(), std::mt19937_64(7));
  return requests;
}

// Of each series of raw samples.
constexpr size_t kRawMax = 20'000;

// A decider holds so many claims before it gives the oldest back.
constexpr size_t kHeld = 16;

template <typename BookType>
class Decider {
 public:
  Decider(BookType* book, uint32_t origin) : user_(book), turn_(origin) {
    for (GangRequest& request : requests_) request.origin = origin;
  }
  ~Decider() {
    for (size_t slot = 0; slot < kHeld; ++slot) {
      if (holds_[slot]) user_.Release(&held_[slot]);
    }
  }
  Decider(const Decider&) = delete;
  Decider& operator=(const Decider&) = delete;

  // One unit of work. RETURNS: whether the gang got its places.
  bool Next() {
    const size_t slot = turn_ % kHeld;
    if (holds_[slot]) user_.Release(&held_[slot]);
    held_[slot] = {};
    // By another stride, so that not each turn of the ring has the same.
    holds_[slot] = user_.Place(requests_[turn_++ % requests_.size()], &held_[slot]);
    return holds_[slot];
  }

 private:
  typename BookType::User user_;
  std::vector<GangRequest> requests_ = Requests();
  std::vector<gang::Claim> held_ = std::vector<gang::Claim>(kHeld);
  std::vector<bool> holds_ = std::vector<bool>(kHeld, false);
  size_t turn_;
};

template <typename BookType>
uint64_t Decide(BookType* book, uint32_t origin, const std::atomic<bool>& stop) {
  Decider decider(book, origin);
  uint64_t units = 0;
  for (; !stop.load(std::memory_order_relaxed); ++units) decider.Next();
  return units;
}

// What one decider alone is told.
template <typename BookType>
std::vector<bool> Answers(BookType* book, int units) {
  Decider decider(book, 0);
  std::vector<bool> answers;
  for (int i = 0; i < units; ++i) answers.push_back(decider.Next());
  return answers;
}

// All room that there is.
template <typename BookType>
std::vector<int64_t> RoomOf(BookType* book) {
  typename BookType::User user(book);
  std::vector<int64_t> room;
  user.Read([&room](const gang::BookSnapshot& state) {
    for (uint32_t machine = 0; machine < kMachines; ++machine) {
      for (const gang::MachineResource resource : {gang::kPodSlots, kGpu, kCpu, kMemory}) {
        for (const gang::Book books : {gang::Book::kFree, gang::Book::kPlanned}) {
          room.push_back(state.Room(books, {machine}, resource));
        }
      }
    }
  });
  return room;
}

// RETURNS: units a second.
template <typename BookType>
double Throughput(BookType* book, int deciders, int milliseconds) {
  std::atomic<bool> stop{false};
  std::vector<uint64_t> units(static_cast<size_t>(deciders), 0);
  std::vector<std::thread> threads;
  const auto begin = SteadyClock::now();
  for (int i = 0; i < deciders; ++i) {
    threads.emplace_back(
        [&, i] { units[static_cast<size_t>(i)] = Decide(book, static_cast<uint32_t>(i) * kMachines / 64 / 2, stop); });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
  stop = true;
  for (std::thread& thread : threads) thread.join();
  const std::chrono::duration<double> taken = SteadyClock::now() - begin;
  uint64_t sum = 0;
  for (const uint64_t n : units) sum += n;
  return static_cast<double>(sum) / taken.count();
}

// Reads one chunk's room, again and again. RETURNS: what each took, in microseconds.
template <typename BookType>
std::vector<double> ReaderTimes(BookType* book, bool with_writer, int milliseconds) {
  std::atomic<bool> stop{false};
  std::thread writer;
  if (with_writer) writer = std::thread([&] { Decide(book, 0, stop); });
  typename BookType::User user(book);
  std::vector<double> taken;
  taken.reserve(4'000'000);
  const gang::PodSetRequest pod = Gang(1, 4, 1'000, kGi).pod_sets[0];
  uint32_t chunk = 0;
  uint64_t found = 0;
  const auto end = SteadyClock::now() + std::chrono::milliseconds(milliseconds);
  for (auto now = SteadyClock::now(); now < end;) {
    chunk = (chunk + 37) % (kMachines / 64);
    user.Read([&](const gang::BookSnapshot& state) {
      for (uint32_t i = 0; i < 64; ++i) {
        found += gang::HasPlace(state, pod, gang::Book::kBoth, {chunk * 64 + i}) ? 1 : 0;
      }
    });
    const auto after = SteadyClock::now();
    if (taken.size() < taken.capacity()) {
      taken.push_back(std::chrono::duration<double, std::micro>(after - now).count());
    }
    now = after;
  }
  stop = true;
  if (writer.joinable()) writer.join();
  if (found == 0) std::printf("no reader found anything\n");
  return taken;
}

struct Costs {
  double search_us = 0;
  double commit_us = 0;
};

// One decider alone: what searching takes, and what reserving and releasing what was found takes.
Costs MeasureCommit(gang::MachineBook* book, int times) {
  gang::MachineBook::User user(book);
  const std::vector<GangRequest> requests = Requests();
  double search = 0;
  double commit = 0;
  for (int i = 0; i < times; ++i) {
    const GangRequest& request = requests[static_cast<size_t>(i) % requests.size()];
    const auto begin = SteadyClock::now();
    gang::SearchResult found = gang::Search(user.Read(), request);
    const auto searched = SteadyClock::now();
    search += std::chrono::duration<double, std::micro>(searched - begin).count();
    if (found.verdict != gang::SearchResult::Verdict::kFits) continue;
    gang::Claim claim;
    (void)user.Reserve(std::move(found.placement), gang::Book::kBoth, &claim);
    commit += std::chrono::duration<double, std::micro>(SteadyClock::now() - searched).count();
    user.Release(&claim);
  }
  return {search / times, commit / times};
}

struct Series {
  std::string name;
  std::vector<double> values;
  double Median() const { return Percentile(values, 50); }
};

class Bench {
 public:
  explicit Bench(Options options) : options_(std::move(options)) {
    FillMachines(&machines_);
    gang::MachineBook::User user(&machines_);
    mutex_ = std::make_unique<MutexBook>(user.Read());
    shared_ = std::make_unique<SharedMutexBook>(user.Read());
  }

  // RETURNS: whether all books gave the right answers, and were left as they were.
  bool Run() {
    const std::vector<int64_t> room = RoomOf(&lock_free_);
    // In units of all 20 requests, of which 13 fit.
    const std::vector<bool> answers = Answers(&lock_free_, 400);
    const auto yes = std::count(answers.begin(), answers.end(), true);
    bool right = yes == 260 && answers == Answers(mutex_.get(), 400) && answers == Answers(shared_.get(), 400);
    std::printf("answers: %lld yes, %lld no, %s\n", static_cast<long long>(yes), static_cast<long long>(400 - yes),
                right ? "the same of all books" : "wrong");
    for (int round = 0; round < options_.rounds; ++round) {
      for (const int deciders : {1, 2}) {
        Note("lock-free", deciders, Throughput(&lock_free_, deciders, options_.milliseconds));
        Note("mutex", deciders, Throughput(mutex_.get(), deciders, options_.milliseconds));
        Note("shared_mutex", deciders, Throughput(shared_.get(), deciders, options_.milliseconds));
      }
      NoteReader("lock-free", &lock_free_);
      NoteReader("mutex", mutex_.get());
      NoteReader("shared_mutex", shared_.get());
      const Costs costs = MeasureCommit(&machines_, 2000);
      Of("search_us").push_back(costs.search_us);
      Of("commit_us").push_back(costs.commit_us);
    }
    if (room != RoomOf(&lock_free_) || room != RoomOf(mutex_.get()) || room != RoomOf(shared_.get())) {
      std::printf("some book is not as it was: what was taken was not all given back\n");
      right = false;
    }
    Report();
    return right;
  }

 private:
  std::vector<double>& Of(const std::string& name) {
    const auto it = std::find_if(series_.begin(), series_.end(), [&](const Series& one) { return one.name == name; });
    return it != series_.end() ? it->values : series_.emplace_back(Series{name, {}}).values;
  }
  void Note(const std::string& book, int deciders, double value) {
    Of(book + " deciders=" + std::to_string(deciders) + " units_per_s").push_back(value);
  }
  template <typename BookType>
  void NoteReader(const std::string& name, BookType* book) {
    const int milliseconds = options_.milliseconds / 2;
    for (const bool writing : {false, true}) {
      std::vector<double> taken = ReaderTimes(book, writing, milliseconds);
      const std::string tail = writing ? " writing" : " alone";
      if (!options_.samples.empty()) raw_.push_back({name + " reader_us" + tail, Some(taken)});
      Of(name + " reader_p99_us" + tail).push_back(Percentile(std::move(taken), 99));
    }
  }
  // Evenly spaced ones of too many.
  static std::vector<double> Some(const std::vector<double>& values) {
    const size_t each = values.size() / kRawMax + 1;
    std::vector<double> some;
    for (size_t i = 0; i < values.size(); i += each) some.push_back(values[i]);
    return some;
  }

  // Ratios are taken within each round.
  double MedianRatio(const std::vector<double>& over, const std::vector<double>& under) {
    std::vector<double> ratios;
    for (size_t i = 0; i < over.size(); ++i) ratios.push_back(over[i] / under[i]);
    return Percentile(std::move(ratios), 50);
  }
  double ToBetterLock(int deciders) {
    const std::string tail = " deciders=" + std::to_string(deciders) + " units_per_s";
    const std::vector<double> mutex = Of("mutex" + tail);
    std::vector<double> better = Of("shared_mutex" + tail);
    for (size_t i = 0; i < better.size(); ++i) better[i] = std::max(better[i], mutex[i]);
    return MedianRatio(Of("lock-free" + tail), better);
  }
  double ReaderRatio(const std::string& book) {
    return MedianRatio(Of(book + " reader_p99_us writing"), Of(book + " reader_p99_us alone"));
  }

  void WriteSamples() {
    std::ofstream out(options_.samples);
    out << "series,round,value\n";
    for (const Series& one : series_) {
      for (size_t i = 0; i < one.values.size(); ++i) out << one.name << ',' << i << ',' << one.values[i] << '\n';
    }
    std::map<std::string, int> rounds;
    for (const Series& one : raw_) {
      const int round = rounds[one.name]++;
      for (const double value : one.values) out << one.name << ',' << round << ',' << value << '\n';
    }
  }

  void Report() {
    if (!options_.samples.empty()) WriteSamples();
    for (const Series& one : series_) {
      const auto [least, most] = std::minmax_element(one.values.begin(), one.values.end());
      std::printf("%-44s %12.2f (%.2f to %.2f)\n", one.name.c_str(), one.Median(), *least, *most);
    }
    std::printf("to the better lock, one decider: %.2f\n", ToBetterLock(1));
    std::printf("reader p99 while one writes, to alone: mutex %.2f, shared_mutex %.2f\n", ReaderRatio("mutex"),
                ReaderRatio("shared_mutex"));
    std::printf("commit to search: %.3f\n", MedianRatio(Of("commit_us"), Of("search_us")));
    std::printf("deciders2=%.2f reader_p99=%.2f\n", ToBetterLock(2), ReaderRatio("lock-free"));
  }

  Options options_;
  gang::MachineBook machines_;
  LockFreeBook lock_free_{&machines_};
  std::unique_ptr<MutexBook> mutex_;
  std::unique_ptr<SharedMutexBook> shared_;
  std::vector<Series> series_;  // one value a round
  std::vector<Series> raw_;     // one series a round
};

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  muster::bench::Options options;
  CLI::App app("bench-capacity: the machine book beside locks");
  app.add_flag("--short", options.is_short, "end within 50 seconds");
  app.add_option("--rounds", options.rounds, "how often everything is measured");
  app.add_option("--milliseconds", options.milliseconds, "of each measurement");
  app.add_option(
      "--samples", options.samples,
      "a CSV file for what each round gave, and for what single reads took (up to 20,000 of each round and kind)");
  CLI11_PARSE(app, argc, argv);
  if (options.is_short) {
    options.rounds = 5;
    options.milliseconds = 700;
  }
  return muster::bench::Bench(options).Run() ? 0 : 1;
}
