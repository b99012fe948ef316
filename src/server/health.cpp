#include "muster/server/health.h"

#include <absl/strings/str_cat.h>

#include <algorithm>

namespace muster::server {
namespace {
constexpr absl::string_view kWithheld = "withheld; see /debug/readyz on metrics.bindAddress";
}  // namespace

HttpReply RenderChecks(std::string_view endpoint, const std::vector<Check>& checks, Details details,
                       const HttpRequest& request) {
  const absl::string_view name(endpoint.data(), endpoint.size());
  bool verbose = false;
  std::vector<std::string> excluded;
  for (const auto& [key, value] : request.query) {
    if (key == "verbose") verbose = true;
    if (key == "exclude") excluded.push_back(value);
  }
  bool ok = true;
  std::string lines;
  std::vector<std::string> matched;
  for (const Check& check : checks) {
    const bool withheld = check.names_objects && details == Details::kPublic;
    const absl::string_view detail = withheld ? kWithheld : absl::string_view(check.detail);
    if (std::find(excluded.begin(), excluded.end(), check.name) != excluded.end()) {
      matched.push_back(check.name);
      absl::StrAppend(&lines, "[+]", check.name, " excluded: ok\n");
    } else if (check.ok && check.warning) {
      verbose = true;
      absl::StrAppend(&lines, "[!]", check.name, " warning: ", detail, "\n");
    } else if (check.ok) {
      absl::StrAppend(&lines, "[+]", check.name, " ok", detail.empty() ? "" : ": ", detail, "\n");
    } else {
      ok = false;
      absl::StrAppend(&lines, "[-]", check.name, " failed: ", detail, "\n");
    }
  }
  for (const std::string& wanted : excluded) {
    if (std::find(matched.begin(), matched.end(), wanted) != matched.end()) continue;
    absl::StrAppend(&lines, "warn: there is no check to exclude with the name given\n");
  }
  HttpReply reply;
  reply.status = ok ? 200 : 500;
  if (ok && !verbose) {
    reply.body = "ok";
  } else {
    reply.body = absl::StrCat(lines, name, ok ? " check passed\n" : " check failed\n");
  }
  return reply;
}

Heartbeat::Heartbeat(const Clock* clock) : clock_(clock), last_(clock->Mono()) {}

void Heartbeat::Beat(bool lease_healthy) {
  const MonoTime now = clock_->Mono();
  const std::lock_guard lock(mutex_);
  last_ = now;
  lease_healthy_ = lease_healthy;
}

std::vector<Check> Heartbeat::Checks(Duration silence_max) const {
  const MonoTime now = clock_->Mono();
  const std::lock_guard lock(mutex_);
  const Duration silence = now - last_;
  Check executor{"executor", silence <= silence_max, ""};
  if (!executor.ok) {
    executor.detail = absl::StrCat(
        "no heartbeat for ", std::chrono::duration_cast<std::chrono::seconds>(silence).count(), "s: the loop hangs");
  }
  Check lease{"leader-election", lease_healthy_, ""};
  if (!lease.ok) lease.detail = "leading, but the lease could not be renewed in time";
  return {{"ping", true, ""}, std::move(executor), std::move(lease)};
}

Handler LivenessHandler(std::string endpoint, const Heartbeat* heartbeat, Duration silence_max) {
  return [endpoint = std::move(endpoint), heartbeat, silence_max](const HttpRequest& request, Respond respond) {
    HttpReply reply = RenderChecks(endpoint, heartbeat->Checks(silence_max), Details::kAll, request);
    respond([reply = std::move(reply)]() mutable { return std::move(reply); });
  };
}

Handler ReadinessHandler(std::string endpoint, Executor* executor, std::function<std::vector<Check>()> checks,
                         Details details) {
  return [endpoint = std::move(endpoint), executor, checks = std::move(checks), details](const HttpRequest& request,
                                                                                         Respond respond) {
    executor->Post([endpoint, checks, details, request, respond = std::move(respond)]() mutable {
      respond([reply = RenderChecks(endpoint, checks(), details, request)]() mutable { return std::move(reply); });
    });
  };
}

}  // namespace muster::server
