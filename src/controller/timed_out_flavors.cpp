#include "muster/controller/timed_out_flavors.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "text.h"

namespace muster::controller {
namespace {

constexpr std::string_view kPart = "; ";
constexpr std::string_view kOn = " on ";
constexpr std::string_view kCount = ": ";
constexpr std::string_view kLast = " time(s), last at ";
constexpr std::string_view kUntil = "other flavors go first until ";

constexpr int64_t kNanosPerSecond = 1'000'000'000;
WallTime WholeSeconds(WallTime t) { return {t.unix_nanos - t.unix_nanos % kNanosPerSecond}; }

// What stands before `separator`, which is taken off too. RETURNS: nothing where there is none.
std::optional<std::string_view> Take(std::string_view separator, std::string_view* rest) {
  const size_t at = rest->find(separator);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view before = rest->substr(0, at);
  rest->remove_prefix(at + separator.size());
  return before;
}

std::optional<TimedOutFlavor> ReadPart(std::string_view part) {
  const auto pod_set = Take(kOn, &part);
  const auto flavor = Take(kCount, &part);
  const auto count = Take(kLast, &part);
  const auto last = ParseTime(part);
  if (!pod_set.has_value() || !flavor.has_value() || !count.has_value() || !last.ok()) return std::nullopt;
  TimedOutFlavor out{std::string(*pod_set), std::string(*flavor), 0, *last};
  const char* end = count->data() + count->size();
  const auto read = std::from_chars(count->data(), end, out.count);
  if (read.ec != std::errc() || read.ptr != end || out.count <= 0) return std::nullopt;
  return out;
}

}  // namespace

TimedOutFlavors AddTimeOut(TimedOutFlavors known, const engine::Admission& admission, WallTime decided, WallTime at,
                           WallTime until) {
  if (decided >= known.until) known.flavors.clear();
  known.until = WholeSeconds(until);
  for (const engine::PodSetAssignment& pod_set : admission.pod_sets) {
    std::set<std::string> flavors;  // one may be of several resources
    for (const auto& [resource, flavor] : pod_set.flavors) flavors.insert(flavor);
    for (const std::string& flavor : flavors) {
      const auto same = std::find_if(known.flavors.begin(), known.flavors.end(), [&](const TimedOutFlavor& entry) {
        return entry.pod_set == pod_set.name && entry.flavor == flavor;
      });
      TimedOutFlavor& entry = same != known.flavors.end() ? *same : known.flavors.emplace_back();
      entry.pod_set = pod_set.name;
      entry.flavor = flavor;
      if (entry.count < std::numeric_limits<int32_t>::max()) ++entry.count;
      entry.last = WholeSeconds(at);
    }
  }
  std::sort(known.flavors.begin(), known.flavors.end(), [](const TimedOutFlavor& a, const TimedOutFlavor& b) {
    return std::tie(a.pod_set, a.flavor) < std::tie(b.pod_set, b.flavor);
  });
  return known;
}

std::vector<engine::FlavorTimeOuts> Remembered(const TimedOutFlavors& known, WallTime now) {
  std::vector<engine::FlavorTimeOuts> out;
  if (now >= known.until) return out;
  for (const TimedOutFlavor& entry : known.flavors) out.push_back({entry.pod_set, entry.flavor, entry.count});
  return out;
}

std::string TimedOutMessage(const TimedOutFlavors& known) {
  std::string out;
  for (const TimedOutFlavor& entry : known.flavors) {
    out += Cat(entry.pod_set, kOn, entry.flavor, kCount, entry.count, kLast, FormatTime(entry.last), kPart);
  }
  return out.append(kUntil).append(FormatTime(known.until));
}

TimedOutFlavors ReadTimedOutMessage(std::string_view message) {
  TimedOutFlavors out;
  while (const auto part = Take(kPart, &message)) {
    std::optional<TimedOutFlavor> entry = ReadPart(*part);
    if (!entry.has_value()) return {};
    out.flavors.push_back(*std::move(entry));
  }
  if (!message.starts_with(kUntil)) return {};
  const auto until = ParseTime(message.substr(kUntil.size()));
  if (!until.ok()) return {};
  out.until = *until;
  return out;
}

}  // namespace muster::controller
