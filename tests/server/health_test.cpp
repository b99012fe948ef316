// The form is that of Kubernetes' own health endpoints (k8s.io/apiserver healthz).

#include "muster/server/health.h"

#include <catch2/catch.hpp>

namespace muster::server {
namespace {

HttpRequest Query(std::vector<std::pair<std::string, std::string>> query) { return {"/readyz", std::move(query)}; }

const std::vector<Check> kGood = {{"ping", true, ""}, {"caches", true, "7 kinds"}};
const std::vector<Check> kBad = {{"ping", true, ""}, {"caches", false, "not synced: jobs"}};

TEST_CASE("a good check is just ok, and verbose lists all") {
  const HttpReply quiet = RenderChecks("readyz", kGood, Details::kAll, Query({}));
  CHECK(quiet.status == 200);
  CHECK(quiet.body == "ok");
  const HttpReply verbose = RenderChecks("readyz", kGood, Details::kAll, Query({{"verbose", ""}}));
  CHECK(verbose.status == 200);
  CHECK(verbose.body == "[+]ping ok\n[+]caches ok: 7 kinds\nreadyz check passed\n");
}

TEST_CASE("a failed check says which and why without being asked") {
  const HttpReply reply = RenderChecks("readyz", kBad, Details::kAll, Query({}));
  CHECK(reply.status == 500);
  CHECK(reply.body == "[+]ping ok\n[-]caches failed: not synced: jobs\nreadyz check failed\n");
}

TEST_CASE("a warning is seen without being asked for, and fails nothing") {
  std::vector<Check> checks = kGood;
  checks.push_back({"problems", true, "policy muster-jobs is missing", true});
  const HttpReply reply = RenderChecks("readyz", checks, Details::kAll, Query({}));
  CHECK(reply.status == 200);
  CHECK(reply.body ==
        "[+]ping ok\n[+]caches ok: 7 kinds\n[!]problems warning: policy muster-jobs is missing\nreadyz check passed\n");
  CHECK(RenderChecks("readyz", checks, Details::kAll, Query({{"exclude", "problems"}})).body == "ok");
}

TEST_CASE("what names objects is withheld from the public, and that something is wrong is not") {
  std::vector<Check> checks = kGood;
  checks.push_back({"problem", true, "Job team-a/secret-plan cannot be read", true, true});
  const HttpReply reply = RenderChecks("readyz", checks, Details::kPublic, Query({}));
  CHECK(reply.status == 200);
  CHECK(reply.body ==
        "[+]ping ok\n[+]caches ok: 7 kinds\n[!]problem warning: withheld; see /debug/readyz on metrics.bindAddress\n"
        "readyz check passed\n");
  CHECK(RenderChecks("readyz", checks, Details::kAll, Query({})).body.find("team-a/secret-plan") != std::string::npos);
  checks.back() = {"problem", false, "Job team-a/secret-plan cannot be read", false, true};
  const HttpReply failed = RenderChecks("readyz", checks, Details::kPublic, Query({{"verbose", ""}}));
  CHECK(failed.status == 500);
  CHECK(failed.body.find("secret-plan") == std::string::npos);
  CHECK(failed.body.find("[-]problem failed: withheld; ") != std::string::npos);
}

TEST_CASE("an excluded check does not count, and one that is not there is reported") {
  const HttpReply reply = RenderChecks("readyz", kBad, Details::kAll, Query({{"verbose", ""}, {"exclude", "caches"}}));
  CHECK(reply.status == 200);
  CHECK(reply.body == "[+]ping ok\n[+]caches excluded: ok\nreadyz check passed\n");
  const HttpReply typo = RenderChecks("readyz", kBad, Details::kAll, Query({{"exclude", "cache"}}));
  CHECK(typo.status == 500);
  CHECK(typo.body.find("warn: there is no check to exclude with the name given\n") != std::string::npos);
}

class SetClock final : public Clock {
 public:
  WallTime Now() const override { return {}; }
  MonoTime Mono() const override { return now; }
  MonoTime now{1};
};

TEST_CASE("liveness fails once the executor has been silent for too long, and only then") {
  SetClock clock;
  Heartbeat heartbeat(&clock);
  const auto ok = [&heartbeat] {
    const HttpReply reply = RenderChecks("livez", heartbeat.Checks(std::chrono::seconds(30)), Details::kAll, {});
    return reply.status == 200;
  };
  CHECK(ok());  // before the first beat
  clock.now = clock.now + std::chrono::seconds(30);
  CHECK(ok());
  clock.now = clock.now + Duration(1);
  CHECK(!ok());
  CHECK(heartbeat.Checks(std::chrono::seconds(30))[1].detail == "no heartbeat for 30s: the loop hangs");
  heartbeat.Beat(true);
  CHECK(ok());
}

TEST_CASE("liveness fails for a leader whose lease is overdue") {
  SetClock clock;
  Heartbeat heartbeat(&clock);
  heartbeat.Beat(false);
  const std::vector<Check> checks = heartbeat.Checks(std::chrono::seconds(30));
  CHECK(checks[2].name == "leader-election");
  CHECK(!checks[2].ok);
  heartbeat.Beat(true);
  CHECK(heartbeat.Checks(std::chrono::seconds(30))[2].ok);
}

}  // namespace
}  // namespace muster::server
