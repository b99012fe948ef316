#include "muster/k8s_client/access_review.h"

#include <absl/container/flat_hash_map.h>
#include <absl/strings/str_cat.h>
#include <spdlog/spdlog.h>

#include <iterator>
#include <list>
#include <utility>
#include <vector>

#include "http_credentials.h"
#include "muster/core/hash.h"
#include "muster/core/log_fields.h"
#include "muster/k8s_client/json_reader.h"
#include "muster/k8s_client/json_writer.h"
#include "token_bucket.h"

namespace muster::k8s {
namespace {

// The newest answers of one sort, at most so many: the one that was not asked for longest goes first.
class Remembered {
 public:
  struct Entry {
    std::string key;
    AccessAnswer answer;
    MonoTime until;  // it is known after that, but does not count
  };

  explicit Remembered(size_t max) : max_(max) {}

  const Entry* Find(const std::string& key) {
    const auto it = by_key_.find(key);
    if (it == by_key_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, it->second);
    return &entries_.front();
  }
  void Put(Entry entry) {
    Forget(entry.key);
    entries_.push_front(std::move(entry));
    by_key_[entries_.front().key] = entries_.begin();
    if (entries_.size() > max_) Forget(std::string(entries_.back().key));
  }
  void Forget(const std::string& key) {
    const auto it = by_key_.find(key);
    if (it == by_key_.end()) return;
    const auto entry = it->second;
    by_key_.erase(it);
    entries_.erase(entry);
  }

 private:
  const size_t max_;
  std::list<Entry> entries_;  // the newest first
  absl::flat_hash_map<std::string, std::list<Entry>::iterator> by_key_;
};

std::string ReviewBody(const char* group, const char* kind, const std::string& spec) {
  JsonWriter json;
  json.StartObject();
  json.Field("apiVersion", absl::StrCat(group, "/v1")).Field("kind", kind).Key("spec").Raw(spec);
  return json.EndObject().Take();
}

std::string TokenSpec(const std::string& token) {
  JsonWriter json;
  json.StartObject();
  return json.Field("token", token).EndObject().Take();
}

// `user`: status.user of a TokenReview, whose fields a SubjectAccessReview has in its spec.
std::string AccessSpec(JsonValue user, const AccessQuestion& question) {
  JsonWriter json;
  json.StartObject();
  json.Field("user", user["username"].String());
  for (const char* field : {"uid", "groups", "extra"}) {
    if (user[field].present()) json.Key(field).Raw(user[field].Raw());
  }
  json.Key("nonResourceAttributes").StartObject();
  json.Field("path", question.path).Field("verb", question.verb).EndObject();
  return json.EndObject().Take();
}

}  // namespace

class ApiAccessReview::Impl {
 public:
  Impl(Environment env, Transport* transport, AccessReviewOptions options)
      : env_(env),
        transport_(transport),
        options_(options),
        allowed_(options.remembered_max),
        refused_(options.remembered_max),
        bucket_(options.new_per_second, options.new_at_once, env.clock->Mono()) {}

  void Ask(AccessQuestion question, Done done) {
    if (!CheckToken(question.token).ok()) return done({Access::kUnauthenticated, ""});
    // None of the parts but the last can hold a space.
    const std::string key = absl::StrCat(Sha256Hex(question.token), " ", question.verb, " ", question.path);
    const MonoTime now = env_.clock->Mono();
    const Remembered::Entry* allowed = allowed_.Find(key);
    for (const Remembered::Entry* known : {allowed, refused_.Find(key)}) {
      if (known != nullptr && now < known->until) return done(AccessAnswer(known->answer));
    }
    if (const auto it = under_way_.find(key); it != under_way_.end()) {
      it->second.push_back(std::move(done));
      return;
    }
    if (allowed == nullptr && bucket_.Take(now, 0) > Duration(0)) return done({Access::kUnknown, ""});
    under_way_[key].push_back(std::move(done));
    Authenticate(key, std::move(question));
  }

  const std::string& problem() const { return problem_; }

 private:
  void Authenticate(const std::string& key, AccessQuestion question) {
    std::string spec = TokenSpec(question.token);
    const auto decide = [this, key, question = std::move(question)](JsonValue status) {
      const bool known = status["authenticated"].Bool() && !status["user"]["username"].String().empty();
      if (!known) return End(key, {Access::kUnauthenticated, ""});
      Authorize(key, status["user"], question);
    };
    Call("/apis/authentication.k8s.io/v1/tokenreviews", ReviewBody("authentication.k8s.io", "TokenReview", spec), key,
         decide);
  }

  void Authorize(const std::string& key, JsonValue user, const AccessQuestion& question) {
    const std::string name = user["username"].String();
    const auto decide = [this, key, name](JsonValue status) {
      const bool allowed = status["allowed"].Bool() && !status["denied"].Bool();
      End(key, {allowed ? Access::kAllowed : Access::kForbidden, name});
    };
    Call("/apis/authorization.k8s.io/v1/subjectaccessreviews",
         ReviewBody("authorization.k8s.io", "SubjectAccessReview", AccessSpec(user, question)), key, decide);
  }

  // `decide` gets the review's status. Where there is none, nobody is let in.
  template <typename Decide>
  void Call(const char* path, std::string body, const std::string& key, Decide decide) {
    HttpRequest request;
    request.method = Method::kPost;
    request.path = path;
    request.content_type = "application/json";
    request.body = std::move(body);
    request.timeout = options_.call_timeout;
    transport_->Call(std::move(request), [this, alive = std::weak_ptr<bool>(alive_), path, key,
                                          decide](HttpResponse response) {
      if (alive.expired()) return;
      std::string problem;
      if (response.status == 200 || response.status == 201) {
        JsonDocument document(response.body);
        const JsonValue status = document.root()["status"];
        if (!status.IsObject()) status.Fail("must be an object");
        const absl::Status read = document.Finish("the answer");
        if (read.ok()) {
          problem_.clear();
          return decide(status);
        }
        problem = std::string(read.message());
      } else if (response.status == 0) {
        problem = std::move(response.error);
      } else {
        JsonDocument document(response.body);
        problem = absl::StrCat("HTTP status ", response.status, " ", document.root()["message"].String());
      }
      CannotAsk(key, absl::StrCat("who may read metrics cannot be asked (", path, "): ", problem));
    });
  }

  void CannotAsk(const std::string& key, std::string problem) {
    if (problem != problem_) spdlog::warn("readers are turned away{}", LogFields({{"error", problem}}));
    problem_ = std::move(problem);
    Answer(key, {Access::kUnknown, ""});
  }

  void End(const std::string& key, AccessAnswer answer) {
    const bool allowed = answer.access == Access::kAllowed;
    (allowed ? refused_ : allowed_).Forget(key);
    const MonoTime until = env_.clock->Mono() + (allowed ? options_.allowed_for : options_.refused_for);
    (allowed ? allowed_ : refused_).Put({key, answer, until});
    Answer(key, answer);
  }

  void Answer(const std::string& key, const AccessAnswer& answer) {
    const auto it = under_way_.find(key);
    std::vector<Done> waiting = std::move(it->second);
    under_way_.erase(it);
    for (Done& done : waiting) done(AccessAnswer(answer));
  }

  const Environment env_;
  Transport* const transport_;
  const AccessReviewOptions options_;
  Remembered allowed_;
  Remembered refused_;
  TokenBucket bucket_;
  absl::flat_hash_map<std::string, std::vector<Done>> under_way_;
  std::string problem_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

ApiAccessReview::ApiAccessReview(Environment env, Transport* transport, AccessReviewOptions options)
    : impl_(std::make_unique<Impl>(env, transport, options)) {}
ApiAccessReview::~ApiAccessReview() = default;
void ApiAccessReview::Ask(AccessQuestion question, Done done) { impl_->Ask(std::move(question), std::move(done)); }
const std::string& ApiAccessReview::problem() const { return impl_->problem(); }

}  // namespace muster::k8s
