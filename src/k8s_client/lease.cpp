#include "muster/k8s_client/lease.h"

#include <absl/strings/str_cat.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <optional>

#include "muster/core/check.h"
#include "muster/core/log_fields.h"
#include "muster/k8s_client/json_reader.h"
#include "muster/k8s_client/json_writer.h"
#include "muster/k8s_client/resources.h"

namespace muster::k8s {
namespace {

constexpr int kJitterPercent = 120;
// client-go's tolerance before a leader that does not renew is called unhealthy.
constexpr Duration kHealthTolerance = std::chrono::seconds(20);
constexpr Duration kReleasedDuration = std::chrono::seconds(1);

// The spec of a Lease, and the metadata it came with.
struct Record {
  std::string holder;
  int64_t duration_seconds = 0;
  WallTime acquired;
  WallTime renewed;
  int64_t transitions = 0;
  friend bool operator==(const Record&, const Record&) = default;
};

struct Lease {
  Record record;
  std::string metadata;  // JSON, to be sent back as it is: it holds the resourceVersion and others' labels
};

absl::StatusOr<Lease> DecodeLease(const std::string& body) {
  JsonDocument document(body);
  const JsonValue root = document.root();
  const JsonValue spec = root["spec"];
  Lease lease;
  lease.record.holder = spec["holderIdentity"].String();
  lease.record.duration_seconds = spec["leaseDurationSeconds"].Int();
  lease.record.acquired = spec["acquireTime"].Time();
  lease.record.renewed = spec["renewTime"].Time();
  lease.record.transitions = spec["leaseTransitions"].Int();
  lease.metadata = root["metadata"].Raw();
  if (!root["metadata"]["resourceVersion"].present()) root["metadata"]["resourceVersion"].Fail("is required");
  if (auto status = document.Finish("Lease"); !status.ok()) return status;
  return lease;
}

std::string EncodeLease(const Record& record, const std::string& metadata) {
  JsonWriter out;
  out.StartObject().Field("apiVersion", "coordination.k8s.io/v1").Field("kind", "Lease");
  out.Key("metadata").Raw(metadata);
  out.Key("spec").StartObject();
  out.Field("holderIdentity", record.holder).Field("leaseDurationSeconds", record.duration_seconds);
  out.Field("acquireTime", FormatMicroTime(record.acquired)).Field("renewTime", FormatMicroTime(record.renewed));
  out.Field("leaseTransitions", record.transitions).EndObject().EndObject();
  return out.Take();
}

}  // namespace

class LeaderElector::Impl {
 public:
  Impl(Environment env, Client* client, LeaseOptions options, Callbacks callbacks)
      : env_(env), client_(client), options_(std::move(options)), callbacks_(std::move(callbacks)) {
    MUSTER_CHECK(!options_.identity.empty());
    MUSTER_CHECK(options_.lease_duration > options_.renew_deadline);
    MUSTER_CHECK(options_.lease_duration >= std::chrono::seconds(1) && options_.lease_duration <= kLeaseDurationMax);
    MUSTER_CHECK(options_.retry_period > Duration(0) && options_.retry_period < options_.renew_deadline);
    MUSTER_CHECK(options_.renew_deadline * 10 > options_.retry_period * 12);
  }
  ~Impl() {
    env_.executor->Cancel(timer_);
    env_.executor->Cancel(deadline_);
  }

  void Start() {
    MUSTER_CHECK(phase_ == Phase::kIdle);
    phase_ = Phase::kAcquiring;
    Schedule(Duration(0));
  }

  void Release(std::function<void()> done) {
    const bool led = leading();
    phase_ = Phase::kOver;
    env_.executor->Cancel(timer_);
    env_.executor->Cancel(deadline_);
    timer_ = deadline_ = 0;
    if (!led || !lease_) {
      Later(std::move(done));
      return;
    }
    released_ = std::move(done);
    // A renewal under way changes the version that the release must name.
    if (!busy_) WriteRelease(true);
  }

  void RaiseTerm(uint64_t term, std::function<void(uint64_t)> done) {
    MUSTER_CHECK(leading() && term <= kTermMax);
    transitions_min_ = static_cast<int64_t>(term);
    raised_ = std::move(done);
    if (!busy_) Schedule(Duration(0));
  }

  bool leading() const { return phase_ == Phase::kLeading; }
  bool MayWrite() const { return leading() && env_.clock->Mono() - renewal_sent_ < options_.renew_deadline; }
  uint64_t term() const { return leading() ? term_ : 0; }
  bool healthy() const {
    return !leading() || env_.clock->Mono() - observed_at_ <= options_.lease_duration + kHealthTolerance;
  }

 private:
  enum class Phase : uint8_t { kIdle, kAcquiring, kLeading, kOver };

  template <typename F>
  void Later(F f) {
    env_.executor->Post([f = std::move(f), alive = std::weak_ptr<int>(alive_)] {
      if (!alive.expired()) f();
    });
  }
  // Wraps the answer to one call of an attempt.
  template <typename F>
  Client::Done Answer(F f) {
    return [f = std::move(f), alive = std::weak_ptr<int>(alive_)](Result result) mutable {
      if (!alive.expired()) f(std::move(result));
    };
  }

  void Schedule(Duration wait) {
    env_.executor->Cancel(timer_);
    timer_ = env_.executor->PostAt(env_.clock->Mono() + wait, [this] {
      timer_ = 0;
      OnTimer();
    });
  }

  void OnTimer() {
    if (phase_ == Phase::kLeading && !cycle_open_) OpenCycle();
    // After a pause of the process both timers are due; the deadline counts, whichever comes first.
    if (phase_ == Phase::kLeading && env_.clock->Mono() >= cycle_end_) return Lose("the lease was not renewed in time");
    if (!busy_ && (phase_ == Phase::kAcquiring || phase_ == Phase::kLeading)) Attempt();
  }

  // Renewing is tried until it succeeds, at most for the renew deadline.
  void OpenCycle() {
    cycle_open_ = true;
    cycle_end_ = env_.clock->Mono() + options_.renew_deadline;
    deadline_ = env_.executor->PostAt(cycle_end_, [this] {
      deadline_ = 0;
      if (phase_ == Phase::kLeading) Lose("the lease was not renewed in time");
    });
  }

  void Attempt() {
    busy_ = true;
    attempted_at_ = env_.clock->Mono();
    if (HoldsRecord() && Valid()) {
      Write(lease_->record, [this](bool ok) {
        // Somebody changed the object, or the outcome is unknown: look.
        ok || phase_ == Phase::kOver ? Finish(ok) : Look();
      });
    } else {
      Look();
    }
  }

  bool HoldsRecord() const { return lease_ && lease_->record.holder == options_.identity; }
  // The record's own duration has not passed on our clock since we saw it change.
  bool Valid() const { return observed_at_ + SecondsClamped(lease_->record.duration_seconds) > attempted_at_; }

  void Look() {
    client_->Get(Lane::kLease, kLeases, {options_.ns, options_.name}, Answer([this](Result result) {
                   if (phase_ == Phase::kOver) return Finish(false);
                   if (result.code == 404) return CreateLease();
                   if (!result.ok()) return Fail("read", result);
                   auto lease = DecodeLease(result.body);
                   if (!lease.ok()) {
                     ReportUnreadable(lease.status());
                     return Finish(false);
                   }
                   if (!lease_ || lease_->record != lease->record) {
                     Notice(*std::move(lease));
                   } else {
                     lease_ = *std::move(lease);
                   }
                   Judge();
                 }));
  }

  // On the record just read: ours to write, or another's.
  void Judge() {
    const Record& record = lease_->record;
    if (phase_ == Phase::kLeading && !HoldsRecord()) {
      busy_ = false;
      return Lose(absl::StrCat("the lease is held by \"", record.holder, "\""));
    }
    if (!record.holder.empty() && !HoldsRecord() && Valid()) return Finish(false);
    Record wanted = record;
    if (!HoldsRecord()) {
      wanted.acquired = env_.clock->Now();
      wanted.transitions = record.transitions + 1;
    }
    Write(std::move(wanted), [this](bool ok) { Finish(ok); });
  }

  void CreateLease() {
    Record wanted;
    wanted.acquired = env_.clock->Now();
    if (lease_) {
      // Somebody deleted it. Terms go on from where they were.
      wanted.transitions = lease_->record.transitions + (HoldsRecord() ? 0 : 1);
      if (HoldsRecord()) wanted.acquired = lease_->record.acquired;
    }
    Stamp(&wanted, options_.lease_duration);
    JsonWriter metadata;
    metadata.StartObject().Field("namespace", options_.ns).Field("name", options_.name).EndObject();
    const MonoTime sent = env_.clock->Mono();
    client_->Create(Lane::kLease, kLeases, options_.ns, EncodeLease(wanted, metadata.Take()),
                    Answer([this, sent](Result result) {
                      if (!result.ok()) return Fail("create", result);
                      Finish(Written(result, sent));
                    }));
  }

  void Stamp(Record* record, Duration duration) {
    record->transitions = std::max<int64_t>(record->transitions, transitions_min_);
    record->holder = options_.identity;
    record->duration_seconds = duration / std::chrono::seconds(1);
    record->renewed = env_.clock->Now();
  }

  void Write(Record wanted, std::function<void(bool)> done) {
    Stamp(&wanted, options_.lease_duration);
    const MonoTime sent = env_.clock->Mono();
    client_->Update(Lane::kLease, kLeases, {options_.ns, options_.name}, EncodeLease(wanted, lease_->metadata),
                    Answer([this, sent, done = std::move(done)](Result result) {
                      if (!result.ok()) {
                        Report("update", result);
                        return done(false);
                      }
                      done(Written(result, sent));
                    }));
  }

  // RETURNS: whether the answer shows the lease as ours.
  bool Written(const Result& result, MonoTime sent) {
    auto lease = DecodeLease(result.body);
    if (!lease.ok()) {
      ReportUnreadable(lease.status());
      return false;
    }
    Notice(*std::move(lease));
    if (!HoldsRecord()) return false;
    renewal_sent_ = sent;
    return true;
  }

  void Notice(Lease lease) {
    lease_ = std::move(lease);
    observed_at_ = env_.clock->Mono();
  }

  void Report(const char* what, const Result& result) {
    spdlog::warn(
        "a request for the lease failed{}{}",
        LogFields({{"namespace", options_.ns}, {"lease", options_.name}, {"verb", what}}),
        LogFields({{"code", std::to_string(result.code)}, {"reason", result.reason}, {"error", result.message}}));
  }
  void ReportUnreadable(const absl::Status& status) {
    spdlog::warn(
        "the lease is unreadable{}",
        LogFields({{"namespace", options_.ns}, {"lease", options_.name}, {"error", std::string(status.message())}}));
  }
  void Fail(const char* what, const Result& result) {
    Report(what, result);
    Finish(false);
  }

  // One attempt is over.
  void Finish(bool ok) {
    busy_ = false;
    switch (phase_) {
      case Phase::kIdle:
        MUSTER_CHECK(false);
      case Phase::kOver:
        if (released_) WriteRelease(true);
        return;
      case Phase::kAcquiring:
        if (ok) {
          Win();
        } else {
          Schedule(env_.random->Jitter(options_.retry_period, kJitterPercent));
        }
        return Announce();
      case Phase::kLeading:
        if (ok) {
          CloseCycle();
          Schedule(options_.retry_period);
          TellRaised();
        } else {
          const Duration spent = env_.clock->Mono() - attempted_at_;
          Schedule(std::max(Duration(0), options_.retry_period - spent));
        }
        return;
    }
  }

  void TellRaised() {
    if (!raised_) return;
    // An attempt that was under way already did not write it.
    if (lease_->record.transitions < transitions_min_) return Schedule(Duration(0));
    term_ = static_cast<uint64_t>(lease_->record.transitions) + 1;
    std::exchange(raised_, nullptr)(term_);
  }

  void CloseCycle() {
    cycle_open_ = false;
    env_.executor->Cancel(deadline_);
    deadline_ = 0;
  }

  void Win() {
    phase_ = Phase::kLeading;
    term_ = static_cast<uint64_t>(lease_->record.transitions) + 1;
    spdlog::info("the lease is held{}",
                 LogFields({{"namespace", options_.ns}, {"lease", options_.name}, {"term", std::to_string(term_)}}));
    Schedule(options_.retry_period);
    if (callbacks_.started_leading) callbacks_.started_leading(term_);
  }

  void Lose(const std::string& why) {
    spdlog::error("no longer leading{}", LogFields({{"reason", why}}));
    phase_ = Phase::kOver;
    CloseCycle();
    env_.executor->Cancel(timer_);
    timer_ = 0;
    Announce();
    if (callbacks_.stopped_leading) callbacks_.stopped_leading();
  }

  void Announce() {
    if (!lease_ || lease_->record.holder == announced_) return;
    announced_ = lease_->record.holder;
    if (!announced_.empty() && callbacks_.new_leader) callbacks_.new_leader(announced_);
  }

  void WriteRelease(bool may_look) {
    Record wanted = lease_->record;
    Stamp(&wanted, kReleasedDuration);
    wanted.holder.clear();
    wanted.acquired = wanted.renewed;
    client_->Update(Lane::kLease, kLeases, {options_.ns, options_.name}, EncodeLease(wanted, lease_->metadata),
                    Answer([this, may_look](Result result) {
                      if (result.ok() || !may_look) {
                        if (!result.ok()) Report("release", result);
                        return Released();
                      }
                      LookAndRelease();
                    }));
  }

  // The version was not the current one; if the lease still is ours, once more.
  void LookAndRelease() {
    client_->Get(Lane::kLease, kLeases, {options_.ns, options_.name}, Answer([this](Result result) {
                   auto lease =
                       result.ok() ? DecodeLease(result.body) : absl::StatusOr<Lease>(absl::UnavailableError(""));
                   if (!lease.ok() || lease->record.holder != options_.identity) return Released();
                   lease_ = *std::move(lease);
                   WriteRelease(false);
                 }));
  }

  void Released() { std::exchange(released_, nullptr)(); }

  Environment env_;
  Client* client_;
  LeaseOptions options_;
  Callbacks callbacks_;
  Phase phase_ = Phase::kIdle;
  std::optional<Lease> lease_;  // as last read or written
  MonoTime observed_at_{};      // when its record was last seen to change
  MonoTime attempted_at_{};
  MonoTime renewal_sent_{};
  bool busy_ = false;  // an attempt is under way
  bool cycle_open_ = false;
  MonoTime cycle_end_{};
  uint64_t term_ = 0;
  int64_t transitions_min_ = 0;
  std::function<void(uint64_t)> raised_;
  std::string announced_;
  std::function<void()> released_;
  Executor::TimerId timer_ = 0;
  Executor::TimerId deadline_ = 0;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

LeaderElector::LeaderElector(Environment env, Client* client, LeaseOptions options, Callbacks callbacks)
    : impl_(std::make_unique<Impl>(env, client, std::move(options), std::move(callbacks))) {}
LeaderElector::~LeaderElector() = default;

void LeaderElector::Start() { impl_->Start(); }
void LeaderElector::Release(std::function<void()> done) { impl_->Release(std::move(done)); }
bool LeaderElector::leading() const { return impl_->leading(); }
bool LeaderElector::MayWrite() const { return impl_->MayWrite(); }
uint64_t LeaderElector::term() const { return impl_->term(); }
void LeaderElector::RaiseTerm(uint64_t term, std::function<void(uint64_t)> done) {
  impl_->RaiseTerm(term, std::move(done));
}
bool LeaderElector::healthy() const { return impl_->healthy(); }

}  // namespace muster::k8s
