// The load: N suspended gang Jobs, created by a number of creators, and a watch that notes when each was
// seen started and when its Workload said so. It works against any controller that speaks
// Kueue's API.
//
// Threading: used from the executor only.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "muster/k8s_client/client.h"
#include "muster/k8s_client/informer.h"

namespace muster::bench {

// When a load is over.
enum class Goal : uint8_t {
  kStarted,   // all Jobs were seen unsuspended
  kAdmitted,  // and all Workloads Admitted
  kWaiting,   // all Workloads were seen to say why they wait
};

struct LoadOptions {
  std::string ns = "bench";
  int jobs = 2000;
  int pods = 4;            // parallelism of each
  int template_bytes = 0;  // added to each Job's template, different in each
  int creators = 16;  // creates in flight, where there is no pace
  // Time between two creations; zero: as fast as the creators can.
  Duration pace{0};
  Goal goal = Goal::kAdmitted;
};

struct LoadResult {
  Duration creating{0};                   // first to last create
  Duration started{0};                    // first create until the last Job was seen unsuspended
  Duration workloads{0};                  // first create until the last Workload said what the goal asks for
  std::vector<Duration> create_to_start;  // per Job, from sending the create
  int failed_creates = 0;
};

struct WatchedJob {
  k8s::ObjectMeta meta;
  bool suspended = true;
};

struct WatchedWorkload {
  k8s::ObjectMeta meta;
  std::vector<k8s::Condition> conditions;
};

absl::StatusOr<WatchedJob> DecodeWatchedJob(std::string_view json);
absl::StatusOr<WatchedWorkload> DecodeWatchedWorkload(std::string_view json);

// RETURNS: the manifest of one suspended Job of `pods` pods that asks for one cpu each. `template_bytes`: about as many
// more in its template, made of the name.
std::string JobManifest(const std::string& name, int pods, int template_bytes = 0);

// Runs one load from Start until `done`.
class Load {
 public:
  Load(Environment env, k8s::Client* client, LoadOptions options, std::function<void(LoadResult)> done);
  void Start();
  // What is missing, for a progress line.
  std::string Progress() const;

 private:
  void CreateMore();
  void CreateOne();
  void Created(const std::string& name, const k8s::Result& result);
  void SeenStarted(const std::string& name);
  bool Reached(const WatchedWorkload& workload) const;
  void MaybeDone();

  Environment env_;
  k8s::Client* client_;
  LoadOptions options_;
  std::function<void(LoadResult)> done_;
  LoadResult result_;
  int next_ = 0;
  int in_flight_ = 0;
  bool begun_ = false;
  MonoTime first_{};
  std::map<std::string, MonoTime> created_;  // by name, until started
  std::set<std::string> started_;
  std::set<std::string> workloads_;  // that say what the goal asks for
  k8s::Informer<WatchedJob> jobs_;
  k8s::Informer<WatchedWorkload> watched_workloads_;
};

}  // namespace muster::bench
