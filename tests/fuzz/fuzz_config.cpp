// Any bytes give either a configuration that keeps the rules which other parts rely on, or errors.

#include <variant>

#include "muster/cli/configuration.h"
#include "muster/core/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto result = muster::cli::ParseConfiguration(text, "muster-system");
  if (const auto* errors = std::get_if<std::vector<muster::cli::ConfigError>>(&result)) {
    MUSTER_CHECK(!errors->empty());
    for (const auto& error : *errors) {
      MUSTER_CHECK(error.line >= 0 && !error.message.empty());
      MUSTER_CHECK(error.ToString("f").find('\n') == std::string::npos);
    }
    return 0;
  }
  const auto& config = std::get<muster::cli::Configuration>(result);
  const auto& lease = config.controller.lease;
  MUSTER_CHECK(lease.lease_duration - lease.renew_deadline >= std::chrono::seconds(1));
  MUSTER_CHECK(config.client.write_timeout < lease.lease_duration - lease.renew_deadline);
  MUSTER_CHECK(config.client.write_timeout > muster::Duration::zero());
  MUSTER_CHECK(config.controller.takeover_wait >= config.client.lands_within());
  MUSTER_CHECK(config.client.qps != 0);
  MUSTER_CHECK(config.client.qps < 0 || config.client.burst > 0);
  MUSTER_CHECK(!config.controller.managed_jobs_namespace_selector.Matches(
      {{"kubernetes.io/metadata.name", config.controller.ns}}));
  return 0;
}
