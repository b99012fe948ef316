// The fields by which objects are found in the log.
//
// Threading: pure functions.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "muster/controller/job.h"
#include "muster/core/log_fields.h"

namespace muster::controller {

// A Job's namespace and name, its Workload's name, and whatever else belongs to the message.
inline std::string JobFields(const Job& job,
                             std::initializer_list<std::pair<std::string_view, std::string_view>> more = {}) {
  return LogFields({{"namespace", job.meta.ns}, {"job", job.meta.name}, {"workload", WorkloadNameOf(job)}}) +
         LogFields(more);
}

}  // namespace muster::controller
