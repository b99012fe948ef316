// docs/configuration.md names each field, and what stands in config/ is what the command reads.

#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <string>

#include "config_schema.h"
#include "muster/cli/configuration.h"

namespace muster::cli {
namespace {

std::string ReadSource(const std::string& path) {
  std::ifstream in(std::string(MUSTER_SOURCE_DIR) + "/" + path);
  REQUIRE(in);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::string InBackticks(std::string_view text) { return std::string(1, '`').append(text).append(1, '`'); }

TEST_CASE("the page on configuration names every field, in the table of what Muster makes of it") {
  const std::string page = ReadSource("docs/configuration.md");
  const auto section = [&page](const std::string& from, const std::string& to) {
    const size_t begin = page.find(std::string("\n## ").append(from));
    const size_t end = page.find(std::string("\n## ").append(to));
    REQUIRE(begin < end);
    return page.substr(begin, end - begin);
  };
  const std::string used = section("Used", "No effect");  // Muster's own among them
  const std::string no_effect = section("No effect", "Refused");
  const std::string refused = section("Refused", "On by default");
  for (const Field& field : ConfigFields()) {
    // Containers whose fields are listed one by one, and elements, have no line of their own.
    const bool container = field.type == FieldType::kObject && field.support != FieldSupport::kUnsupported;
    if (field.path.empty() || container || field.path.ends_with("]") || field.path.ends_with("}")) continue;
    CAPTURE(std::string(field.path));
    const std::string& table = field.support == FieldSupport::kUsed       ? used
                               : field.support == FieldSupport::kNoEffect ? no_effect
                                                                          : refused;
    // Whole, or after its parent's name: `a.b` or `.b`.
    const size_t dot = field.path.rfind('.');
    const bool whole = table.find(InBackticks(field.path)) != std::string::npos;
    const bool tail =
        dot != std::string_view::npos && table.find(InBackticks(field.path.substr(dot))) != std::string::npos;
    const bool selector = field.path.find("localQueueSelector.") != std::string_view::npos;
    CHECK((whole || tail || selector));
  }
}

TEST_CASE("the configuration that is shipped is a good one") {
  const auto result = ParseConfiguration(ReadSource("config/manager/config.yaml"), "muster-system");
  if (const auto* errors = std::get_if<std::vector<ConfigError>>(&result)) {
    for (const ConfigError& error : *errors) FAIL_CHECK(error.ToString("config/manager/config.yaml"));
  }
  REQUIRE(std::holds_alternative<Configuration>(result));
  // Others must be able to reach both servers: the kubelet and Prometheus.
  const auto& config = std::get<Configuration>(result);
  CHECK((config.health.enabled && !config.health.address.IsLoopback()));
  CHECK((config.metrics.enabled && !config.metrics.address.IsLoopback()));
}

TEST_CASE("the policies that are shipped are those of the configuration that is shipped") {
  const auto result = ParseConfiguration(ReadSource("config/manager/config.yaml"), "muster-system");
  REQUIRE(std::holds_alternative<Configuration>(result));
  const controller::PolicyOptions options = controller::PolicyOptionsOf(std::get<Configuration>(result).controller);
  CHECK(controller::GeneratePolicies(options, controller::PolicyKinds::kMutating) ==
        ReadSource("config/policies/mutating.yaml"));
  CHECK(controller::GeneratePolicies(options, controller::PolicyKinds::kValidating) ==
        ReadSource("config/policies/validating.yaml"));
}

}  // namespace
}  // namespace muster::cli
