// One scenario's corner of a world: a namespace, and queues whose names begin with the scenario's, so that many can
// share one control plane.
//
// Threading: one thread.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "judge.h"
#include "world.h"

namespace muster::scenarios {

struct Quota {
  std::string flavor = "a";
  int nominal = 0;
  int borrowing_limit = -1;  // negative: none
  int lending_limit = -1;
  std::string resource = "cpu";
};

struct QueueSpec {
  std::string name = "cq";
  std::vector<Quota> quotas;
  std::string cohort = "";
  std::string strategy = "BestEffortFIFO";
  Json namespace_selector = Json::object();
  std::string local_queue = "lq";  // of the scenario's namespace; empty: none
  Json preemption = Json::object();
};

struct JobSpec {
  std::string name;
  int pods = 1;
  int cpu = 1;                  // of each pod
  std::string seconds = "600";  // from ready to the end
  std::string start = "0.1";    // from creation to ready
  std::string queue = "lq";     // empty: no label
  Json labels = Json::object();
  Json annotations = Json::object();
  Json spec = Json::object();  // merged into the Job's
  std::string exit_code = "0";
  std::string dying = "0";    // seconds that its pods take to end when they are told to
  std::string priority = "";  // a class of Stage::MakeClass
};

// What the world shows of the scenario at one moment.
struct Checkpoint {
  std::string title;
  Json facts;
};

class Stage {
 public:
  // `expected`: what another world showed at each checkpoint; null: this is the first.
  Stage(World* world, std::string name, const std::vector<Checkpoint>* expected);

  World& world() { return *world_; }
  const std::string& ns() const { return name_; }
  const std::vector<Checkpoint>& checkpoints() const { return checkpoints_; }

  // Muster starts again with this in its configuration, for as long as the scenario is played. To be called before
  // anything else.
  void Configure(const std::string& yaml);

  // ---- names ----
  std::string CohortName(const std::string& cohort) const { return name_ + "-" + cohort; }
  std::string ClusterQueue(const std::string& queue) const;  // path
  std::string LocalQueue(const std::string& queue) const;    // path
  std::string Cohort(const std::string& cohort) const;       // path
  std::string JobPath(const std::string& job) const;
  std::string JobsPath() const;

  // ---- requests; each fails the test where it is refused ----
  Json Post(const std::string& path, const Json& object);
  Json Patch(const std::string& path, const Json& merge);
  void Delete(const std::string& path, const std::string& propagation = "Background");
  // Null where there is none.
  Json Get(const std::string& path);
  std::vector<Json> List(const std::string& path);

  // Queues are made and edited one after the other: each returns once Muster shows that it knows.
  void MakeQueue(const QueueSpec& spec);
  void MakeClusterQueue(const QueueSpec& spec);
  void MakeLocalQueue(const std::string& name, const std::string& cluster_queue);
  // Each merges into the spec.
  void EditClusterQueue(const std::string& queue, const Json& spec);
  void EditLocalQueue(const std::string& queue, const Json& spec);
  void DeleteClusterQueue(const std::string& queue);
  // A Cohort object; `parent` empty: none. Nothing shows when Muster knows: what comes next has to await it.
  void MakeCohort(const std::string& cohort, const std::string& parent, const std::vector<Quota>& quotas);
  void DeleteCohort(const std::string& cohort);
  void SetQuota(const std::string& queue, const std::vector<Quota>& quotas);
  // A WorkloadPriorityClass of the scenario.
  void MakeClass(const std::string& name, int value);
  std::string ClassName(const std::string& name) const { return name_ + "-" + name; }
  std::string Class(const std::string& name) const;  // path
  Json Submit(JobSpec spec);
  // A Job that is deleted at once. How much of it Muster gets to see is chance, so Events are not compared any more.
  // RETURNS: the Job as it was made.
  Json Probe(const JobSpec& spec);
  static Json JobObject(const JobSpec& spec);
  // A Job is deleted while it is evicted. How far that came is chance: Events are not compared any more, nor what
  // Workloads without a Job say, but that they are finished.
  void DeletesWhileEvicting() { probed_ = deletes_while_evicting_ = true; }
  // Whether Events of that reason come depends on which of two watches is ahead: they are not compared.
  void IsToldByChance(const std::string& reason) { told_by_chance_.insert(reason); }

  // Jobs are ordered by the second in which they were made; within it, by chance.
  void NextSecond() { world_->Pass(std::chrono::milliseconds(1100)); }

  // ---- looks ----
  Json Job(const std::string& name) { return Get(JobPath(name)); }
  // The Workload of the Job of that name that is there now; null without one.
  Json Workload(const std::string& job);
  // "True/Admitted", of the Job's Workload; empty without it.
  std::string Condition(const std::string& job, const std::string& type);
  std::string Message(const std::string& job, const std::string& type);
  bool Suspended(const std::string& job) { return Flag(At(Job(job), "spec", "suspend")); }
  // The value of muster.dev/flavor in the template's node selector; empty without.
  std::string FlavorOf(const std::string& job);
  // "Normal Job/train Started", of Muster's Events.
  std::set<std::string> Events();
  // How often the Job of that name went from suspended to running.
  int Starts(const std::string& job);
  // How often it was evicted, by what its Workload says.
  int Evictions(const std::string& job);
  // How often Events of that reason were told in the scenario's namespace.
  int Told(const std::string& reason);

  // ---- waits; each fails the test where it does not come ----
  void Await(const std::string& what, const std::function<bool()>& holds);
  // Started, with all its pods there (if not ready yet), and its Workload says so.
  void AwaitRunning(const std::string& job);
  // Its Workload has no reservation, and this is why. Empty: nobody has looked at it yet, and nothing is said, as in
  // Kueue.
  void AwaitWaiting(const std::string& job, const std::string& reason = "WaitingForQuota");
  void AwaitFinished(const std::string& job, const std::string& reason = "Succeeded");
  // Suspended, no pod left, and no trace of the admission on the Job.
  void AwaitStopped(const std::string& job);
  // Of an elastic Job: so many pods that may run, and so many that a scheduling gate holds.
  void AwaitPods(const std::string& job, int open, int held);
  void AwaitGone(const std::string& path);
  void AwaitTold(const std::string& reason, int times = 1);
  // The quota that is in use, and what of it is borrowed, by the status of the ClusterQueue.
  void AwaitUsage(const std::string& queue, int total, int borrowed = 0, const std::string& flavor = "a",
                  const std::string& resource = "cpu");

  // Muster is killed, and starts again.
  void Crash(const std::function<void()>& meanwhile = [] {});

  // What is shown must be, and stay in all worlds, the same.
  void Check(const std::string& title);
  // The invariants over all that happened to the scenario's Jobs so far.
  void CheckInvariants();
  // Removes what still runs.
  void Close();

 private:
  Json Facts();
  // Without uids, and times that run.
  Json Comparable(const Json& facts) const;
  void AwaitKnown(const std::string& queue);
  void AwaitSeen();

  World* world_;
  std::string name_;
  const std::vector<Checkpoint>* expected_;
  std::vector<Checkpoint> checkpoints_;
  std::unique_ptr<WatchLines> jobs_;
  Judge judge_;
  bool configured_ = false;
  bool crashed_ = false;
  bool probed_ = false;
  bool deletes_while_evicting_ = false;
  // Who waits while others leave is told what was in the way when it was looked at; when that was, is chance.
  bool preempts_ = false;
  std::set<std::string> told_by_chance_;
};

using Scenario = void (*)(Stage&);

// Plays it on every world that this program has, and compares them. Defined by each test program.
void Play(const std::string& name, Scenario scenario);

}  // namespace muster::scenarios

// SCENARIO_ON_WORLDS(name, "what is promised") { ... stage ... }   The name is a DNS label, as an identifier.
#define SCENARIO_ON_WORLDS(name, promise)                         \
  static void name(::muster::scenarios::Stage& stage);            \
  TEST_CASE(promise) { ::muster::scenarios::Play(#name, &name); } \
  static void name(::muster::scenarios::Stage& stage)
