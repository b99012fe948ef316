#include "muster/k8s_client/event_recorder.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <algorithm>
#include <list>
#include <map>
#include <tuple>
#include <utility>

#include "muster/k8s_client/json_writer.h"
#include "muster/k8s_client/resources.h"

namespace muster::k8s {
namespace {

constexpr size_t kNoteMax = 1024;
constexpr std::string_view kCut = " ...";
constexpr size_t kNameMax = 253;
constexpr int kTriesMax = 3;
constexpr Duration kRetry = std::chrono::seconds(10);
// One write a series in this time.
constexpr Duration kSeriesPause = std::chrono::seconds(10);
// Of one object: so many different events at once, then one more in each period. As client-go's filter.
constexpr int kObjectBurst = 25;
constexpr Duration kObjectRefill = std::chrono::minutes(5);
constexpr size_t kSeriesMax = 4096;
constexpr size_t kObjectsMax = 4096;

// At most kNoteMax bytes, never through the middle of a character.
std::string Cut(std::string text) {
  if (text.size() <= kNoteMax) return text;
  size_t end = kNoteMax - kCut.size();
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  text.resize(end);
  return text.append(kCut);
}

}  // namespace

class EventRecorder::Impl {
 public:
  Impl(Environment env, Client* client, EventRecorderOptions options, std::function<void()> dropped)
      : env_(env), client_(client), options_(std::move(options)), dropped_(std::move(dropped)) {}

  void Record(const ObjectReference& object, std::string_view controller, std::string_view type,
              std::string_view reason, std::string_view action, std::string message) {
    Forget();
    Key key{object.uid,
            object.kind,
            object.ns,
            object.name,
            std::string(controller),
            std::string(type),
            std::string(reason),
            std::string(action),
            Cut(std::move(message))};
    if (const auto it = series_.find(key); it != series_.end()) return Repeat(&it->second);
    if (waiting_ >= options_.waiting_max || !Allowed(object)) return Drop();
    order_.push_back(key);
    Series& series = series_[key];
    series.place = std::prev(order_.end());
    series.id = ++last_id_;
    series.ns = object.ns.empty() ? "default" : object.ns;
    series.name = Name(object.name);
    series.last = env_.clock->Now();
    series.last_at = env_.clock->Mono();
    Create(std::move(key), Body(series, object, controller, type, reason, action), 1);
  }

 private:
  // All that makes two events equal.
  using Key = std::tuple<std::string, std::string, std::string, std::string, std::string, std::string, std::string,
                         std::string, std::string>;

  // Equal events, and the one Event that stands for them.
  struct Series {
    std::list<Key>::iterator place;
    uint64_t id = 0;
    std::string ns;
    std::string name;
    int64_t count = 1;
    int64_t written = 0;  // the count that the server knows; zero until it has been created
    WallTime last;
    MonoTime last_at{};
    bool busy = true;  // a write or a timer is under way
  };

  struct Budget {
    int left = kObjectBurst;
    MonoTime refilled{};
  };

  void Drop() {
    if (dropped_) dropped_();
  }

  // `<object>.<hex>`, the hex being the time in nanoseconds, made unique where two share one.
  std::string Name(const std::string& object) {
    last_nanos_ = std::max(last_nanos_ + 1, env_.clock->Now().unix_nanos);
    const std::string suffix = absl::StrFormat(".%x", last_nanos_);
    std::string name = object.substr(0, kNameMax - suffix.size());
    // A cut may not leave a dot or dash at the end.
    while (!name.empty() && (name.back() == '.' || name.back() == '-')) name.pop_back();
    return name + suffix;
  }

  bool Allowed(const ObjectReference& object) {
    if (budgets_.size() >= kObjectsMax) budgets_.clear();
    const MonoTime now = env_.clock->Mono();
    auto [it, is_new] = budgets_.try_emplace({object.uid, object.kind, object.ns, object.name});
    Budget& budget = it->second;
    if (is_new) budget.refilled = now;
    const int64_t gained = (now - budget.refilled) / kObjectRefill;
    if (gained > 0) {
      budget.left = static_cast<int>(std::min<int64_t>(kObjectBurst, budget.left + gained));
      budget.refilled = budget.refilled + gained * kObjectRefill;
    }
    if (budget.left == 0) return false;
    --budget.left;
    return true;
  }

  // Ends series of which nothing was heard for the window, oldest first.
  void Forget() {
    const MonoTime now = env_.clock->Mono();
    while (!order_.empty()) {
      const auto it = series_.find(order_.front());
      const bool over = !it->second.busy && now - it->second.last_at >= options_.aggregate;
      if (!over && order_.size() <= kSeriesMax) return;
      series_.erase(it);
      order_.pop_front();
    }
  }

  std::string Body(const Series& series, const ObjectReference& object, std::string_view controller,
                   std::string_view type, std::string_view reason, std::string_view action) {
    JsonWriter out;
    out.StartObject().Field("apiVersion", "events.k8s.io/v1").Field("kind", "Event");
    out.Key("metadata").StartObject().Field("namespace", series.ns).Field("name", series.name).EndObject();
    out.Field("eventTime", FormatMicroTime(series.last));
    out.Field("type", type).Field("reason", reason).Field("action", action);
    out.Field("note", std::get<8>(*series.place));
    out.Field("reportingController", controller).Field("reportingInstance", options_.instance);
    out.Key("regarding").StartObject();
    out.Field("apiVersion", object.api_version).Field("kind", object.kind);
    if (!object.ns.empty()) out.Field("namespace", object.ns);
    out.Field("name", object.name).Field("uid", object.uid).EndObject();
    out.EndObject();
    return out.Take();
  }

  // The series of that id, if it still is there.
  Series* Find(const Key& key, uint64_t id) {
    const auto it = series_.find(key);
    return it == series_.end() || it->second.id != id ? nullptr : &it->second;
  }

  void Create(Key key, std::string body, int tries) {
    const uint64_t id = series_.at(key).id;
    const std::string ns = series_.at(key).ns;
    ++waiting_;
    client_->Create(Lane::kEvent, kEvents, ns, body,
                    Guard([this, key = std::move(key), id, body, tries](const Result& result) mutable {
                      --waiting_;
                      // The name is ours alone: one that exists came of an attempt of unknown outcome.
                      Created(std::move(key), id, std::move(body), tries, result.ok() || result.code == 409, result);
                    }));
  }

  void Created(Key key, uint64_t id, std::string body, int tries, bool there, const Result& result) {
    Series* series = Find(key, id);
    if (series == nullptr) return;
    if (there) {
      series->written = 1;
      return Settle(std::move(key), id);
    }
    const bool worth_it = result.code == 0 || result.code == 429 || result.code >= 500;
    if (!worth_it || tries >= kTriesMax || waiting_ >= options_.waiting_max) {
      order_.erase(series->place);
      series_.erase(key);
      return Drop();
    }
    After(result.retry_after.value_or(kRetry),
          [this, key = std::move(key), id, body = std::move(body), tries]() mutable {
            if (Find(key, id) != nullptr) Create(std::move(key), std::move(body), tries + 1);
          });
  }

  void Repeat(Series* series) {
    ++series->count;
    series->last = env_.clock->Now();
    series->last_at = env_.clock->Mono();
    order_.splice(order_.end(), order_, series->place);
    if (!series->busy) Settle(*series->place, series->id);
  }

  // Writes the count if it has grown; then the series rests for a while.
  void Settle(Key key, uint64_t id) {
    Series* series = Find(key, id);
    if (series == nullptr) return;
    series->busy = series->count > series->written;
    if (!series->busy) return;
    if (waiting_ >= options_.waiting_max) {
      series->busy = false;  // the next repetition tries again
      return Drop();
    }
    JsonWriter patch;
    patch.StartObject().Key("series").StartObject().Field("count", series->count);
    patch.Field("lastObservedTime", FormatMicroTime(series->last)).EndObject().EndObject();
    const int64_t count = series->count;
    ++waiting_;
    client_->Patch(Lane::kEvent, kEvents, {series->ns, series->name}, "", PatchType::kMergePatch, patch.Take(),
                   Guard([this, key = std::move(key), id, count](const Result& result) mutable {
                     --waiting_;
                     Patched(std::move(key), id, count, result);
                   }));
  }

  void Patched(Key key, uint64_t id, int64_t count, const Result& result) {
    Series* series = Find(key, id);
    if (series == nullptr) return;
    if (result.code == 404) {
      // Events expire on the server. The next one begins anew.
      order_.erase(series->place);
      series_.erase(key);
      return Drop();
    }
    if (result.ok()) {
      series->written = count;
    } else {
      Drop();
    }
    After(std::max(kSeriesPause, result.retry_after.value_or(Duration(0))),
          [this, key = std::move(key), id, ok = result.ok()]() mutable { Rested(std::move(key), id, ok); });
  }

  // A count that could not be written waits for the next repetition; it is not worth a write of its own.
  void Rested(Key key, uint64_t id, bool ok) {
    if (ok) return Settle(std::move(key), id);
    if (Series* series = Find(key, id); series != nullptr) series->busy = false;
  }

  template <typename F>
  Client::Done Guard(F f) {
    return [f = std::move(f), alive = std::weak_ptr<int>(alive_)](Result result) mutable {
      if (!alive.expired()) f(result);
    };
  }
  template <typename F>
  void After(Duration wait, F f) {
    env_.executor->PostAt(env_.clock->Mono() + wait, [f = std::move(f), alive = std::weak_ptr<int>(alive_)]() mutable {
      if (!alive.expired()) f();
    });
  }

  Environment env_;
  Client* client_;
  EventRecorderOptions options_;
  std::function<void()> dropped_;
  std::map<Key, Series> series_;
  std::list<Key> order_;  // least recently heard of first
  std::map<std::tuple<std::string, std::string, std::string, std::string>, Budget> budgets_;
  int waiting_ = 0;
  uint64_t last_id_ = 0;
  int64_t last_nanos_ = 0;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

EventRecorder::EventRecorder(Environment env, Client* client, EventRecorderOptions options,
                             std::function<void()> dropped)
    : impl_(std::make_unique<Impl>(env, client, std::move(options), std::move(dropped))) {}
EventRecorder::~EventRecorder() = default;

void EventRecorder::Record(const ObjectReference& object, std::string_view controller, std::string_view type,
                           std::string_view reason, std::string_view action, std::string message) {
  impl_->Record(object, controller, type, reason, action, std::move(message));
}

}  // namespace muster::k8s
