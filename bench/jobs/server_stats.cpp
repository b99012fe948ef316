#include "server_stats.h"

#include <cstdlib>
#include <fstream>

#include "muster/k8s_client/json_reader.h"

namespace muster::bench {

std::optional<double> CpuSeconds(const std::string& metrics_text) {
  constexpr std::string_view kName = "\nprocess_cpu_seconds_total ";
  const size_t at = metrics_text.find(kName);
  if (at == std::string::npos) return std::nullopt;
  return std::strtod(metrics_text.c_str() + at + kName.size(), nullptr);
}

std::map<std::pair<std::string, std::string>, int> AuditedWrites(const std::string& path, long offset,
                                                                 const std::string& ns) {
  std::map<std::pair<std::string, std::string>, int> counts;
  std::ifstream file(path);
  file.seekg(offset);
  for (std::string line; std::getline(file, line);) {
    k8s::JsonDocument document(line);
    const auto event = document.root();
    const std::string verb = event["verb"].String();
    const auto object = event["objectRef"];
    const std::string where = object["namespace"].String();
    if (event["stage"].String() != "ResponseComplete") continue;
    if (where != ns && (!where.empty() || object["apiGroup"].String() != "kueue.x-k8s.io")) continue;
    if (verb == "get" || verb == "list" || verb == "watch") continue;
    std::string what = verb + " " + object["resource"].String();
    if (const std::string sub = object["subresource"].String(); !sub.empty()) what += "/" + sub;
    ++counts[{event["user"]["username"].String(), what}];
  }
  return counts;
}

long FileSize(const std::string& path) {
  std::ifstream file(path, std::ios::ate | std::ios::binary);
  return file ? static_cast<long>(file.tellg()) : 0;
}

}  // namespace muster::bench
