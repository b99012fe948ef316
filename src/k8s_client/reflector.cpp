#include <absl/strings/str_cat.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include "muster/core/backoff.h"
#include "muster/core/check.h"
#include "muster/core/log_fields.h"
#include "muster/k8s_client/informer.h"
#include "muster/k8s_client/json_reader.h"
#include "pending_events.h"

namespace muster::k8s {
namespace {

// The server limits objects to about 1.5 MiB (etcd), so no good line comes near this.
constexpr size_t kLineMax = size_t{4} << 20;
// Three bookmarks' time. They are not promised, so that silence is no fault of the server, and resuming after
// it costs one request.
constexpr Duration kSilenceMax = std::chrono::minutes(3);
// An API server that lives answers a watch at once, though nothing may happen on it.
constexpr Duration kOpeningMax = std::chrono::seconds(30);
constexpr int64_t kWatchSecondsMin = 300;
constexpr int64_t kWatchSecondsMax = 600;
// How much longer than it asked for a watch may live.
constexpr Duration kWatchSlack = std::chrono::seconds(30);
// A watch that ends in order sooner than this, having delivered nothing, is a fault.
constexpr Duration kShortWatch = std::chrono::seconds(1);
constexpr int kFruitlessMax = 3;
// Without a failure for this long the waits start over (client-go tools/cache reflector.go).
constexpr Duration kHealth = std::chrono::minutes(2);
constexpr size_t kDrainMax = 256;

// How a watch or list ended, and so what comes next.
enum class End : uint8_t {
  kInOrder,  // its time is up: resume
  kCut,      // the connection: resume
  kDenied,   // no rights, or too busy: resume
  kFailed,   // an answer or line that is no good: resume, and relist if that gets nowhere
  kGone,     // 410: relist
  kVersion,  // the version is not accepted: relist, after a pause
};

struct Ending {
  End how = End::kInOrder;
  std::string problem;
  std::optional<Duration> retry_after;
};

// A Status as far as it matters here: the body of an answer, or the object of an ERROR event.
Ending Judge(int code, std::string_view status_json, std::optional<Duration> retry_after) {
  JsonDocument document(status_json);
  const JsonValue status = document.root();
  if (code == 0) code = static_cast<int>(status["code"].Int());
  const std::string reason = status["reason"].String();
  const std::string message = status["message"].String();
  bool too_large = message.find("Too large resource version") != std::string::npos;
  status["details"]["causes"].ForEach(
      [&](JsonValue cause) { too_large = too_large || cause["reason"].String() == "ResourceVersionTooLarge"; });
  if (const int64_t seconds = status["details"]["retryAfterSeconds"].Int(); !retry_after && seconds > 0) {
    retry_after = std::chrono::seconds(std::min<int64_t>(seconds, 3600));
  }
  Ending ending{.how = End::kFailed, .problem = absl::StrCat("the server answered ", code), .retry_after = retry_after};
  if (!reason.empty()) absl::StrAppend(&ending.problem, " ", reason);
  if (!message.empty()) absl::StrAppend(&ending.problem, ": ", message.substr(0, 200));
  if (code == 410 || reason == "Expired" || reason == "Gone") {
    ending.how = End::kGone;
  } else if (code == 401 || code == 403 || code == 408 || code == 429) {
    ending.how = End::kDenied;
  } else if (too_large || (code >= 400 && code < 500)) {
    ending.how = End::kVersion;
  }
  return ending;
}

bool IsDecimal(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

bool IsNewerVersion(std::string_view a, std::string_view b) {
  if (!IsDecimal(a) || !IsDecimal(b)) return false;
  const auto strip = [](std::string_view text) {
    return text.substr(std::min(text.find_first_not_of('0'), text.size()));
  };
  a = strip(a);
  b = strip(b);
  return a.size() != b.size() ? a.size() > b.size() : a > b;
}

class Reflector::Impl {
 public:
  Impl(Environment env, Client* client, const Resource& resource, InformerOptions options, Sink* sink)
      : env_(env),
        client_(client),
        resource_(resource),
        options_(std::move(options)),
        sink_(sink),
        backoff_(options_.backoff_min, options_.backoff_max) {
    MUSTER_CHECK(options_.page_size > 0);
  }
  ~Impl() { env_.executor->Cancel(timer_); }

  void Start() {
    Later([this] { List(); });
  }

  void Relist(std::function<void()> done) {
    waiting_.push_back(std::move(done));
    // What a list begun before this moment shows may be older than the caller wants.
    Later([this] {
      if (!waiting_.empty()) List();
    });
  }

  void Flush(const ObjectKey& key) { Deliver(pending_.Take(key)); }

  bool synced_ = false;
  std::string version_;
  std::string problem_;
  int64_t lists_ = 0;
  int64_t watch_cuts_ = 0;
  int64_t bad_lines_ = 0;

 private:
  // One watch's callbacks. Once it has ended, whatever still arrives is ignored until the stream is closed.
  class Stream final : public WatchHandler {
   public:
    explicit Stream(Impl* owner) : owner_(owner) {}
    void OnOpen() override {
      if (ended) return;
      opened_at = owner_->env_.clock->Mono();
      owner_->problem_.clear();
    }
    void OnLine(std::string_view line) override {
      if (!ended) owner_->OnLine(line);
    }
    void OnClose(absl::Status status, int http_status, std::string body, std::optional<Duration> retry_after) override {
      if (!ended) owner_->OnClose(status, http_status, body, retry_after);
    }

    bool ended = false;
    bool progress = false;
    std::optional<MonoTime> opened_at;

   private:
    Impl* owner_;
  };

  // Runs `f` as a task of its own, unless the reflector is gone by then.
  template <typename F>
  void Later(F f) {
    env_.executor->Post([f = std::move(f), alive = std::weak_ptr<int>(alive_)]() mutable {
      if (!alive.expired()) f();
    });
  }
  template <typename F>
  void After(Duration wait, F f) {
    env_.executor->Cancel(timer_);
    timer_ = env_.executor->PostAt(env_.clock->Mono() + wait, [this, f = std::move(f)]() mutable {
      timer_ = 0;
      f();
    });
  }

  // Stops whatever is under way; answers that still come are ignored.
  void Halt() {
    ++epoch_;
    env_.executor->Cancel(timer_);
    timer_ = 0;
    connection_.reset();
    stream_.reset();
    if (listing_) {
      listing_ = false;
      sink_->AbortList();
    }
  }

  void List() {
    Halt();
    while (!pending_.empty()) Deliver(pending_.TakeFirst());
    served_.insert(served_.end(), std::make_move_iterator(waiting_.begin()), std::make_move_iterator(waiting_.end()));
    waiting_.clear();
    listing_ = true;
    list_version_.clear();
    sink_->BeginList();
    ReadPage("");
  }

  void ReadPage(const std::string& continue_token) {
    std::string query = Selectors();
    if (paged_) absl::StrAppend(&query, query.empty() ? "" : "&", "limit=", options_.page_size);
    if (!continue_token.empty()) absl::StrAppend(&query, "&continue=", UrlEncode(continue_token));
    const char* accept = options_.metadata_only
                             ? "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
                             : "";
    client_->Read(Client::Path(resource_, options_.ns), std::move(query), accept,
                  [this, epoch = epoch_, alive = std::weak_ptr<int>(alive_)](Result result) {
                    if (!alive.expired() && epoch == epoch_) OnPage(std::move(result));
                  });
  }

  void OnPage(Result result) {
    if (!result.ok()) return ListFailed(result);
    auto page = ParseListPage(result.body);
    if (!page.ok()) {
      ++bad_lines_;
      return WaitAndList({.how = End::kFailed, .problem = std::string(page.status().message()), .retry_after = {}});
    }
    const uint64_t epoch = epoch_;
    for (const std::string_view item : page->items) {
      sink_->Upsert(item);
      MUSTER_CHECK(epoch == epoch_);
    }
    // All pages show the state of the first.
    if (list_version_.empty()) list_version_ = page->resource_version;
    if (!page->continue_token.empty()) return ReadPage(page->continue_token);
    EndList();
  }

  void EndList() {
    listing_ = false;
    paged_ = true;
    version_ = list_version_;
    fruitless_ = 0;
    problem_.clear();
    synced_ = true;
    ++lists_;
    sink_->EndList(version_);
    const std::vector<std::function<void()>> served = std::exchange(served_, {});
    const uint64_t epoch = epoch_;
    for (const auto& done : served) done();
    if (epoch == epoch_) Watch();
  }

  void ListFailed(const Result& result) {
    Ending ending = result.code != 0 ? Judge(result.code, result.body, result.retry_after)
                                     : Ending{.how = End::kCut, .problem = result.message, .retry_after = {}};
    if (ending.how == End::kGone && paged_) {
      // The list's continuation has expired: it was read too slowly for its pages. One without pages cannot.
      spdlog::warn("a list broke off, listing again without pages{}",
                   LogFields({{"resource", resource_.plural}, {"error", ending.problem}}));
      paged_ = false;
      return List();
    }
    WaitAndList(std::move(ending));
  }

  void WaitAndList(Ending ending) {
    if (listing_) {
      listing_ = false;
      sink_->AbortList();
    }
    paged_ = true;
    const Duration wait = Pause("list", &ending, false);
    After(wait, [this] { List(); });
  }

  // RETURNS: how long to wait because of that ending.
  Duration Pause(const char* what, Ending* ending, bool first_free) {
    const MonoTime now = env_.clock->Mono();
    const bool was_healthy = now >= healthy_at_;
    if (was_healthy) backoff_.Reset();
    Duration wait(0);
    if (!was_healthy || !first_free) wait = env_.random->Jitter(backoff_.Next(), 100);
    healthy_at_ = now + wait + kHealth;
    wait = std::max(wait, ending->retry_after.value_or(Duration(0)));
    spdlog::warn("a {} broke off, trying again{}", what,
                 LogFields({{"resource", resource_.plural},
                            {"error", ending->problem},
                            {"waitMilliseconds", std::to_string(wait / std::chrono::milliseconds(1))}}));
    problem_ = std::move(ending->problem);
    return wait;
  }

  std::string Selectors() const {
    std::string query;
    const auto add = [&](const char* name, const std::string& value) {
      if (!value.empty()) absl::StrAppend(&query, query.empty() ? "" : "&", name, "=", UrlEncode(value));
    };
    add("labelSelector", options_.label_selector);
    add("fieldSelector", options_.field_selector);
    return query;
  }

  void Watch() {
    Halt();
    const int64_t seconds =
        kWatchSecondsMin + static_cast<int64_t>(env_.random->Below(kWatchSecondsMax - kWatchSecondsMin + 1));
    HttpRequest request;
    request.path = Client::Path(resource_, options_.ns);
    request.query = Selectors();
    absl::StrAppend(&request.query, request.query.empty() ? "" : "&",
                    "watch=1&allowWatchBookmarks=true&resourceVersion=", UrlEncode(version_),
                    "&timeoutSeconds=", seconds);
    if (options_.metadata_only) {
      request.accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
    }
    request.timeout = kSilenceMax;
    stream_ = std::make_unique<Stream>(this);
    connection_ = client_->transport()->Watch(std::move(request), stream_.get());
    const Duration life_max = std::chrono::seconds(seconds) + kWatchSlack;
    After(kOpeningMax, [this, life_max] {
      if (!stream_->opened_at) return Cut("the watch was not answered");
      After(life_max - kOpeningMax, [this] { Cut("the watch outlived its time"); });
    });
  }

  void Cut(std::string why) { EndWatch({.how = End::kCut, .problem = std::move(why), .retry_after = {}}); }

  void OnLine(std::string_view text) {
    if (text.size() > kLineMax) return BadLine(absl::StrCat("a line of ", text.size(), " bytes"));
    auto line = ParseWatchLine(text);
    if (!line.ok()) return BadLine(std::string(line.status().message()));
    if (line->type == "ERROR") return EndWatch(Judge(0, line->object, std::nullopt));
    if (line->resource_version.empty()) return BadLine("an object without metadata.resourceVersion");
    const bool bookmark = line->type == "BOOKMARK";
    if (!bookmark && line->type != "ADDED" && line->type != "MODIFIED" && line->type != "DELETED") {
      return BadLine(absl::StrCat("unknown type of event: ", line->type.substr(0, 40)));
    }
    if (!bookmark && line->key.name.empty()) return BadLine("an object without metadata.name");
    stream_->progress = true;
    fruitless_ = 0;
    version_ = line->resource_version;
    if (bookmark) return;
    pending_.Add(*std::move(line));
    ScheduleDrain();
  }

  void BadLine(std::string why) {
    ++bad_lines_;
    EndWatch({.how = End::kFailed, .problem = absl::StrCat("unreadable watch: ", why), .retry_after = {}});
  }

  void OnClose(const absl::Status& status, int http_status, std::string_view body,
               std::optional<Duration> retry_after) {
    if (http_status != 0) return EndWatch(Judge(http_status, body, retry_after));
    if (!status.ok()) {
      return EndWatch({.how = End::kCut, .problem = std::string(status.message()), .retry_after = retry_after});
    }
    const bool lived = stream_->opened_at && env_.clock->Mono() - *stream_->opened_at >= kShortWatch;
    if (lived || stream_->progress) return EndWatch({});
    EndWatch({.how = End::kFailed, .problem = "the watch ended at once", .retry_after = {}});
  }

  // The stream is closed, and the next step taken, outside its own callbacks.
  void EndWatch(Ending ending) {
    if (ending.how != End::kInOrder) ++watch_cuts_;
    stream_->ended = true;
    Later([this, epoch = epoch_, ending = std::move(ending)]() mutable {
      if (epoch == epoch_) Proceed(std::move(ending));
    });
  }

  void Proceed(Ending ending) {
    const bool opened = stream_->opened_at.has_value();
    Halt();
    switch (ending.how) {
      case End::kInOrder:
        return Watch();
      case End::kCut:
        return After(Pause("watch", &ending, opened), [this] { Watch(); });
      case End::kDenied:
        return After(Pause("watch", &ending, false), [this] { Watch(); });
      case End::kFailed:
        if (++fruitless_ >= kFruitlessMax) return WaitAndList(std::move(ending));
        return After(Pause("watch", &ending, false), [this] { Watch(); });
      case End::kGone:
        return After(Pause("watch", &ending, true), [this] { List(); });
      case End::kVersion:
        return WaitAndList(std::move(ending));
    }
  }

  void ScheduleDrain() {
    if (draining_) return;
    draining_ = true;
    Later([this] {
      draining_ = false;
      for (size_t i = 0; i < kDrainMax && !pending_.empty(); ++i) Deliver(pending_.TakeFirst());
      if (!pending_.empty()) ScheduleDrain();
    });
  }

  void Deliver(const std::vector<PendingEvents::Event>& events) {
    for (const PendingEvents::Event& event : events) {
      if (event.deleted) {
        sink_->Delete(event.json);
      } else {
        sink_->Upsert(event.json);
      }
    }
  }

  Environment env_;
  Client* client_;
  Resource resource_;
  InformerOptions options_;
  Sink* sink_;
  Backoff backoff_;
  MonoTime healthy_at_{};  // where nothing fails before
  PendingEvents pending_;
  bool draining_ = false;
  bool listing_ = false;
  bool paged_ = true;
  std::string list_version_;
  int fruitless_ = 0;
  uint64_t epoch_ = 0;
  Executor::TimerId timer_ = 0;
  std::vector<std::function<void()>> waiting_;  // for a list that has not begun
  std::vector<std::function<void()>> served_;   // by the list under way
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<WatchStream> connection_;  // after stream_: it calls it
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

Reflector::Reflector(Environment env, Client* client, const Resource& resource, InformerOptions options, Sink* sink)
    : impl_(std::make_unique<Impl>(env, client, resource, std::move(options), sink)) {}
Reflector::~Reflector() = default;

void Reflector::Start() { impl_->Start(); }
bool Reflector::synced() const { return impl_->synced_; }
void Reflector::Relist(std::function<void()> done) { impl_->Relist(std::move(done)); }
void Reflector::Flush(const ObjectKey& key) { impl_->Flush(key); }
const std::string& Reflector::resource_version() const { return impl_->version_; }
int64_t Reflector::lists() const { return impl_->lists_; }
int64_t Reflector::watch_cuts() const { return impl_->watch_cuts_; }
int64_t Reflector::bad_lines() const { return impl_->bad_lines_; }
const std::string& Reflector::problem() const { return impl_->problem_; }

}  // namespace muster::k8s
