// Objects that the tests of this folder share.
#pragma once

#include <string>

#include "muster/controller/job.h"

namespace muster::controller {

struct JobJson {
  std::string labels = R"({"kueue.x-k8s.io/queue-name":"lq"})";
  std::string annotations;  // empty: no map
  std::string suspend = "true";
  std::string counts = R"("parallelism":2,"completions":2)";
  std::string template_annotations;
  std::string node_selector;
  std::string tolerations;
  std::string status = "{}";
  std::string extra_spec;

  std::string Text() const {
    std::string out = R"({"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"train","namespace":"team",)"
                      R"("uid":"job-uid","resourceVersion":"7","generation":3,"labels":)" +
                      labels;
    if (!annotations.empty()) out += R"(,"annotations":)" + annotations;
    out += R"(},"spec":{"suspend":)" + suspend + "," + counts + extra_spec +
           R"(,"template":{"metadata":{"labels":{"batch.kubernetes.io/job-name":"train","job-name":"train",)"
           R"("controller-uid":"job-uid","batch.kubernetes.io/controller-uid":"job-uid"})";
    if (!template_annotations.empty()) out += R"(,"annotations":)" + template_annotations;
    out += R"(},"spec":{"containers":[{"name":"main","image":"i","resources":{"requests":{"cpu":"1"}}}])";
    if (!node_selector.empty()) out += R"(,"nodeSelector":)" + node_selector;
    if (!tolerations.empty()) out += R"(,"tolerations":)" + tolerations;
    return out + R"(,"restartPolicy":"Never"}}},"status":)" + status + "}";
  }
};

// Aborts the test where the text cannot be decoded.
Job MustDecode(const std::string& json);
inline Job MustDecode(const JobJson& json) { return MustDecode(json.Text()); }

// Flavor "blue": node labels pool=blue, zone=z1; tolerations dedicated=batch:NoSchedule and spot.
FlavorMap Flavors();
// The admission of `count` pods of pod set main, 1 cpu each, on flavor "blue" by ClusterQueue "cq".
engine::Admission BlueAdmission(int32_t count);

}  // namespace muster::controller
