// What the API server says of itself: CPU seconds used, and writes by client and kind from its audit log.
//
// Threading: values.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>

namespace muster::bench {

// RETURNS: process_cpu_seconds_total in a Prometheus text; nothing where it is not there.
std::optional<double> CpuSeconds(const std::string& metrics_text);

// Lines of an audit log (one JSON event each, stage ResponseComplete) that lie at or after `offset` and
// concern namespace `ns` or a cluster-wide object of Kueue's API: counts by (user, "verb resource/subresource").
std::map<std::pair<std::string, std::string>, int> AuditedWrites(const std::string& path, long offset,
                                                                 const std::string& ns);

// RETURNS: the file's size, 0 if it cannot be read.
long FileSize(const std::string& path);

}  // namespace muster::bench
