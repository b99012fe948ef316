// The two reviews as the API defines them (authentication.k8s.io/v1, authorization.k8s.io/v1), and how long their
// outcome is remembered.

#include "muster/k8s_client/access_review.h"

#include <absl/strings/str_cat.h>

#include <catch2/catch.hpp>
#include <optional>

#include "muster/sim/executor.h"
#include "muster/sim/json.h"
#include "scripted_transport.h"

namespace muster::k8s {
namespace {

using std::chrono::seconds;

constexpr const char* kAda = R"({"status":{"authenticated":true,"user":{"username":"ada","uid":"u-1",
  "groups":["system:authenticated","metrics"],"extra":{"example.com/scope":["a","b"]}}}})";

struct Fixture {
  explicit Fixture(AccessReviewOptions options = {}) : review(executor.env(), &transport, options) {}

  void Ask(const std::string& token, std::optional<AccessAnswer>* out, const std::string& path = "/metrics") {
    review.Ask({token, "get", path}, [out](AccessAnswer answer) { *out = std::move(answer); });
  }
  // Asks, and answers the reviews that come of it, if any.
  AccessAnswer Settle(const std::string& token, bool allowed, const std::string& path = "/metrics") {
    std::optional<AccessAnswer> answer;
    Ask(token, &answer, path);
    if (transport.pending() == 1) Say(201, kAda);
    if (transport.pending() == 1) Say(201, absl::StrCat(R"({"status":{"allowed":)", allowed ? "true" : "false", "}}"));
    REQUIRE(answer.has_value());
    return *answer;
  }
  void Say(int status, const std::string& body) {
    transport.Answer(status, body);
    executor.RunFor(Duration(1));
  }
  int calls() const { return static_cast<int>(transport.requests.size()); }

  sim::SimExecutor executor{1};
  ScriptedTransport transport{&executor};
  ApiAccessReview review;
};

TEST_CASE("a token is reviewed, then the right of whoever it belongs to") {
  Fixture f;
  std::optional<AccessAnswer> answer;
  f.Ask("to\"ken", &answer);
  REQUIRE(f.transport.pending() == 1);
  const HttpRequest first = f.transport.next();
  CHECK(first.method == Method::kPost);
  CHECK(first.path == "/apis/authentication.k8s.io/v1/tokenreviews");
  CHECK(first.content_type == "application/json");
  CHECK(first.body ==
        R"({"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","spec":{"token":"to\"ken"}})");
  f.Say(201, kAda);
  REQUIRE(f.transport.pending() == 1);
  const HttpRequest second = f.transport.next();
  CHECK(second.path == "/apis/authorization.k8s.io/v1/subjectaccessreviews");
  // Everything that the first answer says about the user: rules may be about any of it.
  const auto body = sim::ParseJson(second.body);
  REQUIRE(body.has_value());
  CHECK(sim::Dump(*body) ==
        sim::Dump(*sim::ParseJson(R"({"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{
          "user":"ada","uid":"u-1","groups":["system:authenticated","metrics"],
          "extra":{"example.com/scope":["a","b"]},"nonResourceAttributes":{"path":"/metrics","verb":"get"}}})")));
  CHECK_FALSE(answer.has_value());
  f.Say(201, R"({"status":{"allowed":true}})");
  REQUIRE(answer.has_value());
  CHECK(answer->access == Access::kAllowed);
  CHECK(answer->user == "ada");
  CHECK(f.review.problem().empty());
}

TEST_CASE("nobody is let in by an answer that is not a plain yes") {
  const std::pair<const char*, Access> kFirst[] = {
      {R"({"status":{"authenticated":false,"error":"[invalid bearer token]"}})", Access::kUnauthenticated},
      {R"({"status":{"user":{"username":"ada"}}})", Access::kUnauthenticated},
      {R"({"status":{"authenticated":true}})", Access::kUnauthenticated},
      {R"({"status":{"authenticated":"true","user":{"username":"ada"}}})", Access::kUnauthenticated},
      {R"({})", Access::kUnknown},
      {R"({"status":3})", Access::kUnknown},
      {R"(<html>)", Access::kUnknown},
  };
  for (const auto& [body, expected] : kFirst) {
    CAPTURE(body);
    Fixture f;
    std::optional<AccessAnswer> answer;
    f.Ask("t", &answer);
    f.Say(201, body);
    REQUIRE(answer.has_value());
    CHECK(answer->access == expected);
    CHECK(f.transport.pending() == 0);
    CHECK(f.review.problem().empty() == (expected != Access::kUnknown));
  }
  const std::pair<const char*, Access> kSecond[] = {
      {R"({"status":{"allowed":false,"reason":"no RBAC rule"}})", Access::kForbidden},
      {R"({"status":{"allowed":true,"denied":true}})", Access::kForbidden},
      {R"({"status":{}})", Access::kForbidden},
      {R"({"status":{"allowed":1}})", Access::kForbidden},
      {R"([])", Access::kUnknown},
  };
  for (const auto& [body, expected] : kSecond) {
    CAPTURE(body);
    Fixture f;
    std::optional<AccessAnswer> answer;
    f.Ask("t", &answer);
    f.Say(201, kAda);
    f.Say(201, body);
    REQUIRE(answer.has_value());
    CHECK(answer->access == expected);
  }
}

TEST_CASE("where the API server cannot be asked nobody is let in, and it is said why until it can") {
  Fixture f;
  std::optional<AccessAnswer> answer;
  f.Ask("t", &answer);
  f.transport.AnswerStatus(403, "Forbidden", "tokenreviews is forbidden");
  f.executor.RunFor(Duration(1));
  REQUIRE(answer.has_value());
  CHECK(answer->access == Access::kUnknown);
  CHECK(f.review.problem() ==
        "who may read metrics cannot be asked (/apis/authentication.k8s.io/v1/tokenreviews): HTTP status 403 "
        "tokenreviews is forbidden");
  answer.reset();
  f.Ask("t", &answer);  // not remembered
  f.transport.Fail(/*sent=*/true, "connection reset");
  f.executor.RunFor(Duration(1));
  REQUIRE(answer.has_value());
  CHECK(answer->access == Access::kUnknown);
  CHECK(f.review.problem().ends_with(": connection reset"));
  CHECK(f.Settle("t", true).access == Access::kAllowed);
  CHECK(f.review.problem().empty());
}

TEST_CASE("an answer is remembered, a yes for a minute and a no for ten seconds") {
  Fixture f;
  CHECK(f.Settle("good", true).access == Access::kAllowed);
  CHECK(f.Settle("bad", false).access == Access::kForbidden);
  CHECK(f.calls() == 4);
  f.executor.RunFor(seconds(9));
  CHECK(f.Settle("good", false).access == Access::kAllowed);
  CHECK(f.Settle("bad", true).access == Access::kForbidden);
  CHECK(f.calls() == 4);
  f.executor.RunFor(seconds(2));
  CHECK(f.Settle("bad", true).access == Access::kAllowed);  // a right that was just given
  CHECK(f.calls() == 6);
  f.executor.RunFor(seconds(50));
  CHECK(f.Settle("good", false).access == Access::kForbidden);  // and one that was taken away
  CHECK(f.calls() == 8);
  CHECK(f.Settle("good", true).access == Access::kForbidden);
  CHECK(f.calls() == 8);
}

TEST_CASE("another page is another question") {
  Fixture f;
  CHECK(f.Settle("t", true, "/metrics").access == Access::kAllowed);
  CHECK(f.Settle("t", false, "/debug/readyz").access == Access::kForbidden);
  CHECK(f.Settle("t", false, "/metrics").access == Access::kAllowed);
}

TEST_CASE("one review answers all who ask the same meanwhile") {
  Fixture f;
  std::optional<AccessAnswer> one;
  std::optional<AccessAnswer> two;
  f.Ask("t", &one);
  f.Ask("t", &two);
  CHECK(f.calls() == 1);
  f.Say(201, kAda);
  f.Say(201, R"({"status":{"allowed":true}})");
  REQUIRE((one.has_value() && two.has_value()));
  CHECK(one->access == Access::kAllowed);
  CHECK(two->access == Access::kAllowed);
}

TEST_CASE("what cannot be a token is not asked about") {
  Fixture f;
  for (const std::string token : {"", "a b", "a\nb", "caf\xc3\xa9"}) {
    CAPTURE(token);
    CHECK(f.Settle(token, true).access == Access::kUnauthenticated);
  }
  CHECK(f.calls() == 0);
}

TEST_CASE("strangers cost the API server a bounded number of reviews, and those who were let in before nothing") {
  AccessReviewOptions options;
  options.new_per_second = 1;
  options.new_at_once = 3;
  options.remembered_max = 2;
  Fixture f(options);
  CHECK(f.Settle("good", true).access == Access::kAllowed);
  int asked = 0;
  for (int i = 0; i < 100; ++i) {
    std::optional<AccessAnswer> answer;
    f.Ask(absl::StrCat("guess-", i), &answer);
    if (f.transport.pending() == 0) {
      REQUIRE(answer.has_value());
      CHECK(answer->access == Access::kUnknown);
      continue;
    }
    ++asked;
    f.Say(201, R"({"status":{"authenticated":false}})");
  }
  CHECK(asked == 2);  // 3 at once, of which one was used
  const int before = f.calls();
  CHECK(f.Settle("good", true).access == Access::kAllowed);
  CHECK(f.calls() == before);
  f.executor.RunFor(seconds(61));
  for (int i = 0; i < 100; ++i) {
    std::optional<AccessAnswer> answer;
    f.Ask(absl::StrCat("more-", i), &answer);
    while (f.transport.pending() > 0) f.Say(201, R"({"status":{"authenticated":false}})");
  }
  // Its answer is too old to count, but it need not queue with strangers.
  CHECK(f.Settle("good", true).access == Access::kAllowed);
}

TEST_CASE("an answer that comes after the end is dropped") {
  sim::SimExecutor executor{1};
  ScriptedTransport transport{&executor};
  auto review = std::make_unique<ApiAccessReview>(executor.env(), &transport);
  bool called = false;
  review->Ask({"t", "get", "/metrics"}, [&called](const AccessAnswer&) { called = true; });
  review.reset();
  transport.Answer(201, kAda);
  executor.RunFor(seconds(1));
  CHECK_FALSE(called);
  CHECK(transport.pending() == 0);
}

}  // namespace
}  // namespace muster::k8s
