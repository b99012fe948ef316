// Counters and histograms by label values, as plain integers; a scrape turns them into Prometheus' families.
// prometheus-cpp's own would cost an atomic, a mutex and a hash of all labels at each step, and cannot
// forget the series of one queue.
//
// Threading: need external synchronisation.
#pragma once

#include <absl/numeric/int128.h>
#include <prometheus/metric_family.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "muster/core/time.h"

namespace muster::server {

using LabelValues = std::vector<std::string>;

struct MetricName {
  std::string name;
  std::string help;
  std::vector<std::string> labels;
};

// What a series belongs to, and goes away with. The owner's name stands in the first labels: cluster_queue, cohort,
// or name and namespace.
enum class MetricOwner : uint8_t { kProcess, kClusterQueue, kLocalQueue, kCohort };

class CounterVec {
 public:
  CounterVec(MetricOwner owner, MetricName name) : owner_(owner), name_(std::move(name)) {}
  void Add(const LabelValues& labels, uint64_t n = 1);
  MetricOwner owner() const { return owner_; }
  void EraseIf(const std::function<bool(const LabelValues&)>& gone);
  prometheus::MetricFamily Collect() const;

 private:
  MetricOwner owner_;
  MetricName name_;
  std::map<LabelValues, uint64_t> values_;
};

// Buckets with upper bounds; the sum is kept in nanoseconds, so that it never drifts.
class HistogramVec {
 public:
  // `bounds` ascending, in seconds, without the last one (+Inf).
  HistogramVec(MetricOwner owner, MetricName name, std::vector<Duration> bounds)
      : owner_(owner), name_(std::move(name)), bounds_(std::move(bounds)) {}
  // What is negative (clocks differ) counts as zero.
  void Observe(const LabelValues& labels, Duration value);
  MetricOwner owner() const { return owner_; }
  void EraseIf(const std::function<bool(const LabelValues&)>& gone);
  prometheus::MetricFamily Collect() const;

 private:
  struct Series {
    std::vector<uint64_t> counts;  // by bucket, the last is +Inf; not cumulative
    absl::int128 sum_nanos = 0;
  };
  MetricOwner owner_;
  MetricName name_;
  std::vector<Duration> bounds_;
  std::map<LabelValues, Series> series_;
};

// Kueue's E(n): 1, 2.5, 5, 10, 20, ... seconds, n bounds in all. E(20) ends above a week.
std::vector<Duration> KueueBuckets(int n);
// `first` * 2^k, n bounds.
std::vector<Duration> DoublingBuckets(Duration first, int n);
// The Prometheus client's default: 5 ms to 10 s.
std::vector<Duration> DefaultBuckets();

// A gauge's family, filled by the caller at the scrape.
class GaugeFamily {
 public:
  explicit GaugeFamily(MetricName name);
  void Set(const LabelValues& labels, double value);
  prometheus::MetricFamily Take() && { return std::move(family_); }

 private:
  std::vector<std::string> labels_;
  prometheus::MetricFamily family_;
};

}  // namespace muster::server
