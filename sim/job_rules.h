// batch/v1 Job at the API server: defaults, what creation sets, what updates may change.
//
// Source: kube-apiserver 1.36.3 (pkg/apis/batch), tried against it; golden/jobs.jsonl.
// Threading: values.
#pragma once

#include <string>

#include "muster/sim/api_status.h"
#include "muster/sim/json.h"

namespace muster::sim {

// Brings a Job into the form in which the typed server encodes it: nulls, empty lists, empty maps of strings
// and zero counters are gone. RETURNS: empty, or which field has the wrong type.
std::string NormalizeJob(Json* job);

// What decoding fills in: parallelism, completions, backoffLimit, the pod template's defaults, ...
void DefaultJob(Json* job);

// Status is dropped, the selector and the labels of the template are generated.
// REQUIRES: metadata has name and uid.
void PrepareJobForCreate(Json* job);

// A Job without labels shows those of its template: decoding shares the map.
void ShareTemplateLabels(Json* job);

FieldErrors ValidateJob(const Json& job);
FieldErrors ValidateJobUpdate(const Json& job, const Json& old);
FieldErrors ValidateJobStatusUpdate(const Json& job, const Json& old);

}  // namespace muster::sim
