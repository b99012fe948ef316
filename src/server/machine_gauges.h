// Metrics of machines, read from the engine at the moment of the scrape.
//
// Threading: where the engine may be read.
#pragma once

#include <prometheus/metric_family.h>

#include <vector>

#include "muster/engine/engine.h"

namespace muster::server {

void AppendMachineGauges(const engine::EngineSet& engine, std::vector<prometheus::MetricFamily>* families);

}  // namespace muster::server
