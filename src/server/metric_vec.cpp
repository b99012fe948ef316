#include "metric_vec.h"

#include <algorithm>
#include <limits>

#include "muster/core/check.h"

namespace muster::server {
namespace {

prometheus::ClientMetric MetricWith(const std::vector<std::string>& names, const LabelValues& values) {
  MUSTER_CHECK(names.size() == values.size());
  prometheus::ClientMetric metric;
  metric.label.reserve(names.size());
  for (size_t i = 0; i < names.size(); ++i) metric.label.push_back({names[i], values[i]});
  return metric;
}

prometheus::MetricFamily FamilyOf(const MetricName& name, prometheus::MetricType type) {
  prometheus::MetricFamily family;
  family.name = name.name;
  family.help = name.help;
  family.type = type;
  return family;
}

double Seconds(Duration d) { return std::chrono::duration<double>(d).count(); }

}  // namespace

void CounterVec::Add(const LabelValues& labels, uint64_t n) {
  MUSTER_CHECK(labels.size() == name_.labels.size());
  values_[labels] += n;
}

void CounterVec::EraseIf(const std::function<bool(const LabelValues&)>& gone) {
  std::erase_if(values_, [&gone](const auto& entry) { return gone(entry.first); });
}

prometheus::MetricFamily CounterVec::Collect() const {
  prometheus::MetricFamily family = FamilyOf(name_, prometheus::MetricType::Counter);
  for (const auto& [labels, value] : values_) {
    family.metric.push_back(MetricWith(name_.labels, labels));
    family.metric.back().counter.value = static_cast<double>(value);
  }
  return family;
}

void HistogramVec::Observe(const LabelValues& labels, Duration value) {
  MUSTER_CHECK(labels.size() == name_.labels.size());
  value = std::max(value, Duration::zero());
  Series& series = series_[labels];
  series.counts.resize(bounds_.size() + 1);
  const auto bucket = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
  ++series.counts[static_cast<size_t>(bucket)];
  series.sum_nanos += value.count();
}

void HistogramVec::EraseIf(const std::function<bool(const LabelValues&)>& gone) {
  std::erase_if(series_, [&gone](const auto& entry) { return gone(entry.first); });
}

prometheus::MetricFamily HistogramVec::Collect() const {
  prometheus::MetricFamily family = FamilyOf(name_, prometheus::MetricType::Histogram);
  for (const auto& [labels, series] : series_) {
    prometheus::ClientMetric metric = MetricWith(name_.labels, labels);
    uint64_t total = 0;
    for (size_t i = 0; i < series.counts.size(); ++i) {
      total += series.counts[i];
      const double bound = i < bounds_.size() ? Seconds(bounds_[i]) : std::numeric_limits<double>::infinity();
      metric.histogram.bucket.push_back({total, bound});
    }
    metric.histogram.sample_count = total;
    metric.histogram.sample_sum = static_cast<double>(series.sum_nanos) / 1e9;
    family.metric.push_back(std::move(metric));
  }
  return family;
}

std::vector<Duration> KueueBuckets(int n) {
  std::vector<Duration> bounds = {std::chrono::seconds(1)};
  const std::vector<Duration> rest = DoublingBuckets(std::chrono::milliseconds(2500), n - 1);
  bounds.insert(bounds.end(), rest.begin(), rest.end());
  return bounds;
}

std::vector<Duration> DoublingBuckets(Duration first, int n) {
  std::vector<Duration> bounds;
  for (int i = 0; i < n; ++i) bounds.push_back(first * (int64_t{1} << i));
  return bounds;
}

std::vector<Duration> DefaultBuckets() {
  std::vector<Duration> bounds;
  for (const int64_t ms : {5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000}) {
    bounds.push_back(std::chrono::milliseconds(ms));
  }
  return bounds;
}

GaugeFamily::GaugeFamily(MetricName name)
    : labels_(name.labels), family_(FamilyOf(name, prometheus::MetricType::Gauge)) {}

void GaugeFamily::Set(const LabelValues& labels, double value) {
  family_.metric.push_back(MetricWith(labels_, labels));
  family_.metric.back().gauge.value = value;
}

}  // namespace muster::server
