// Pods of elastic Jobs: they are made with the scheduling gate kueue.x-k8s.io/elastic-job, and it is taken away from as
// many as are admitted. Only the pods that carry the label of such a Job's template are watched.
//
// Source: kueue_semantics 2.10 (the ungater).
// Threading: used from the executor only.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "muster/core/backoff.h"
#include "muster/core/clock.h"
#include "muster/k8s_client/client.h"
#include "muster/k8s_client/informer.h"
#include "muster/k8s_client/object.h"

namespace muster::controller {

struct ElasticPod {
  k8s::ObjectMeta meta;
  std::optional<int64_t> gate;  // its place in spec.schedulingGates; unset: it is gone
  bool ended = false;
  friend bool operator==(const ElasticPod&, const ElasticPod&) = default;
};

absl::StatusOr<ElasticPod> DecodeElasticPod(std::string_view json);
class ElasticPods {
 public:
  // `admitted`: how many pods of the Job may run; 0 where it has no admission.
  ElasticPods(Environment env, k8s::Client* client, std::function<int32_t(const std::string& job_uid)> admitted);

  k8s::Informer<ElasticPod>& informer() const { return *informer_; }
  // What is admitted of the Job may have changed. Before there is a leader nothing is.
  void Touch(const std::string& job_uid);

 private:
  struct JobPods {
    std::map<std::string, ElasticPod> pods;  // by name
    std::set<std::string> opening;           // uids of those whose gate is on its way out
    Backoff backoff{std::chrono::milliseconds(500), std::chrono::seconds(60)};
    bool waits = false;  // before the next try
  };

  void Changed(const ElasticPod& pod);
  void Deleted(const ElasticPod& last);
  void Open(const std::string& job_uid, const ElasticPod& pod);
  void Answered(const std::string& job_uid, const std::string& pod_uid, const k8s::Result& result);

  Environment env_;
  k8s::Client* client_;
  std::function<int32_t(const std::string& job_uid)> admitted_;
  std::map<std::string, JobPods> jobs_;  // by uid
  std::unique_ptr<k8s::Informer<ElasticPod>> informer_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace muster::controller
