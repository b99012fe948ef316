// Any bytes as a kubeconfig. Nothing may crash or hang; a configuration that is accepted must be usable, and an
// error must name the file.
#include <cstdint>
#include <string>
#include <string_view>

#include "http_address.h"
#include "kubeconfig.h"
#include "muster/core/check.h"

namespace muster::k8s {
namespace {

void Resolve(const Kubeconfig& config, const std::string& context) {
  const auto resolved = ResolveKubeconfig(config, context, "/nonexistent/config");
  if (resolved.ok()) {
    MUSTER_CHECK(ParseServerUrl(resolved->server).ok());
    MUSTER_CHECK(resolved->client_cert_pem.empty() == resolved->client_key_pem.empty());
    MUSTER_CHECK(!resolved->insecure || resolved->ca_pem.empty());
  } else {
    MUSTER_CHECK(std::string_view(resolved.status().message().data(), resolved.status().message().size())
                     .find("/nonexistent/config") != std::string_view::npos);
  }
}

}  // namespace
}  // namespace muster::k8s

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster::k8s;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto parsed = ParseKubeconfig(text, "/nonexistent/config");
  if (!parsed.ok()) {
    MUSTER_CHECK(!parsed.status().message().empty());
    return 0;
  }
  Resolve(*parsed, "");
  for (const auto& [name, context] : parsed->contexts) Resolve(*parsed, name);
  return 0;
}
