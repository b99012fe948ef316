// Gauges read from the engine at the moment of the scrape.
//
// Threading: where the engine may be read.
#pragma once

#include <prometheus/metric_family.h>

#include <vector>

#include "muster/engine/engine.h"
#include "muster/server/metrics.h"

namespace muster::server {

void AppendQueueGauges(const engine::EngineSet& engine, const FinishedCounts& finished, const MetricsOptions& options,
                       std::vector<prometheus::MetricFamily>* families);

}  // namespace muster::server
