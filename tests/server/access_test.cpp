// Who is let in to a page. Statuses are those of RFC 9110 and of Kueue's metrics server, but for a token that nobody
// knows: 401 here, 500 there.

#include "muster/server/access.h"

#include <catch2/catch.hpp>
#include <optional>
#include <string>
#include <vector>

namespace muster::server {
namespace {

// Runs what is posted at once.
class InlineExecutor final : public Executor {
 public:
  void Post(Task task) override { task(); }
  TimerId PostAt(MonoTime, Task) override { return 0; }
  void Cancel(TimerId) override {}
};

struct Fixture final : AccessReview {
  void Ask(AccessQuestion question, Done done) override {
    questions.push_back(std::move(question));
    done(answer);
  }
  HttpReply Get(const std::string& authorization, const std::string& method = "get") {
    const Handler page = RequireAccess(&executor, this, [this](const HttpRequest& request, Respond respond) {
      let_in = request;
      respond([] { return HttpReply{200, "text/plain", "the page"}; });
    });
    std::optional<HttpReply> reply;
    page({"/metrics", {{"name", "x"}}, method, authorization}, [&reply](auto render) { reply = render(); });
    REQUIRE(reply.has_value());
    return *reply;
  }

  InlineExecutor executor;
  AccessAnswer answer{Access::kAllowed, "ada"};
  std::vector<AccessQuestion> questions;
  std::optional<HttpRequest> let_in;
};

TEST_CASE("who may read gets the page, which does not get the token") {
  Fixture f;
  const HttpReply reply = f.Get("Bearer abc");
  CHECK(reply.status == 200);
  CHECK(reply.body == "the page");
  REQUIRE(f.questions.size() == 1);
  CHECK(f.questions[0].token == "abc");
  CHECK(f.questions[0].verb == "get");
  CHECK(f.questions[0].path == "/metrics");
  REQUIRE(f.let_in.has_value());
  CHECK(f.let_in->path == "/metrics");
  CHECK(f.let_in->query == std::vector<std::pair<std::string, std::string>>{{"name", "x"}});
  CHECK(f.let_in->authorization.empty());
}

TEST_CASE("the scheme's case and blanks around the token do not matter, and a method is a verb") {
  Fixture f;
  CHECK(f.Get("bearer   abc ", "head").status == 200);
  CHECK(f.questions[0].token == "abc");
  CHECK(f.questions[0].verb == "head");
}

TEST_CASE("without a token nobody is asked about") {
  Fixture f;
  for (const std::string header : {"", "Bearer", "Bearer ", "Basic YTpi", "abc", "BearerX abc"}) {
    CAPTURE(header);
    CHECK(f.Get(header).status == 401);
  }
  CHECK(f.questions.empty());
  CHECK_FALSE(f.let_in.has_value());
}

TEST_CASE("who may not read is told so, and why") {
  Fixture f;
  f.answer = {Access::kUnauthenticated, ""};
  CHECK(f.Get("Bearer abc").status == 401);
  f.answer = {Access::kForbidden, "eve"};
  const HttpReply forbidden = f.Get("Bearer abc");
  CHECK(forbidden.status == 403);
  CHECK(forbidden.body == "user eve has no right to get /metrics\n");
  f.answer = {Access::kUnknown, ""};
  CHECK(f.Get("Bearer abc").status == 503);
  CHECK_FALSE(f.let_in.has_value());
}

}  // namespace
}  // namespace muster::server
