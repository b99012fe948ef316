// Plays the API server and the pods around an engine, through the steps of a recorded case.
//
// Threading: not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "conformance_judge.h"
#include "conformance_places.h"
#include "conformance_watch.h"
#include "muster/engine/engine.h"
#include "muster/gang/shape.h"
#include "muster/k8s_client/json_reader.h"

namespace muster::cli {

// Everything comparable as text lines: sets of lines are compared, so that each difference is one of them.
using Lines = std::multiset<std::string>;

std::string_view ReasonText(engine::EvictionReason reason);
std::string AdmissionLine(const std::string& workload, const engine::Admission& admission);
std::string EvictionLine(std::string_view workload, std::string_view reason, std::string_view preemptor);
std::string UsageLine(std::string_view queue, std::string_view flavor, std::string_view resource, Amount amount);

// What is seen at the end of a step.
struct Outcome {
  Lines admitted;
  Lines evicted;
  Lines usage;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

class ConformanceDriver {
 public:
  // `trace`: null, or where to add what each pass decided.
  ConformanceDriver(const engine::EngineOptions& options, std::vector<std::string>* trace)
      : options_(options), trace_(trace), engine_(options), pass_judge_(options) {}

  void Load(k8s::JsonValue objects);
  // Time alone asks for a pass before `step` begins.
  bool IsDueBefore(k8s::JsonValue step) const;
  Outcome RunStep(k8s::JsonValue step, const std::string& prefix);
  // Lets time pass until it changes nothing any more. Then an engine that finds the objects as they are must have
  // nothing to decide: nobody waits who fits, and nobody is to go, but what this one remembers: those who lose to what
  // a StrictFIFO head keeps for itself, and who was preempted by the same one already. Else it is a violation.
  // `preemptions`: nobody may be left to be preempted either. As in the reference, who waits is not looked at because
  // others start, though one of those may be its candidate; only a new engine looks at everybody.
  void CheckRest(const std::string& step, bool preemptions);

  // The rule of places that recorded admissions break, with objects as they are now; nothing: none.
  std::optional<std::string> FaultOf(const std::map<std::string, engine::Admission>& admissions);
  // What is admitted in the objects, by name of the workload.
  std::map<std::string, engine::Admission> Loaded() const;
  // The rule about places by which decisions may differ from recorded ones; nothing: none was met.
  const std::optional<std::string>& rule_met() const { return watch_.met(); }

  // What must never be, whatever was recorded: it did not come to rest, or places or usage are not right.
  const std::vector<std::string>& violations() const { return violations_; }
  int64_t judged_passes() const { return pass_judge_.passes(); }
  // Evictions of somebody who was evicted before for the same preemptor, which has not started in between.
  const std::vector<std::string>& repeated() const { return repeated_; }
  // Room was kept for a preemptor, or would have been, in the way of a workload that comes after it: after that had
  // preempted, and before it started, another was admitted, or lost to it. Or in the way of any that looks for places
  // on the same nodes in another tree of cohorts.
  bool room_mattered() const { return pass_judge_.in_topologies() ? room_mattered_ : pass_judge_.room_mattered(); }
  // Workloads that are to leave since their ClusterQueue is drained, though their LocalQueue is on hold; by name.
  const std::set<std::string>& drained_on_hold() const { return drained_on_hold_; }

 private:
  void ApplyObject(engine::Event event);
  void Tell(const engine::Event& event);
  void AddWorkload(k8s::JsonValue object);
  void UpdateClusterQueue(k8s::JsonValue queue);
  void UpdateLocalQueue(k8s::JsonValue queue);
  void Finish(const std::string& name);
  void SetPod(k8s::JsonValue pod);
  // With machines: each flavor has one that has room for all that workloads ask for, whatever they select.
  void AddRoom(const engine::Workload& workload);
  // In use by those admissions, counted anew.
  Lines UsageOf(const std::map<std::string, engine::Admission>& admissions) const;
  void ApplyAction(k8s::JsonValue action);
  // Passes until the engine is at rest.
  void Settle(const std::string& step);
  void Answer(const engine::Decision& decision);
  void NoteEvicted(const engine::Evict& evict);
  void NoteContender(const engine::Decision& decision);
  void NoteContenderForPlaces(const std::string& uid);
  bool LosesToHead(const std::string& uid) const;
  void Trace(const std::string& pass, const engine::Decision& decision);
  std::string NameOf(const std::string& uid) const;

  engine::EngineOptions options_;
  std::vector<std::string>* trace_;
  gang::ShapeTable shapes_;
  engine::EngineSet engine_;
  std::vector<engine::Event> objects_;  // but workloads
  std::map<std::string, engine::ResourceFlavor> flavors_;
  PlaceJudge judge_;
  PassJudge pass_judge_;
  PlaceRuleWatch::Workloads workloads_;
  PlaceRuleWatch watch_{&engine_, &workloads_};
  std::map<std::string, std::string> uids_;  // workload name -> uid
  std::map<std::string, int64_t> generations_;
  std::map<std::string, engine::StopPolicy> stopped_;  // LocalQueues, by name
  uint64_t loaded_claims_ = 0;
  WallTime now_;
  Lines evicted_;
  // Of preemptors that have not started since: their victims.
  std::map<std::string, std::set<std::string>> victims_of_;
  std::map<std::string, engine::PastEviction> last_evictions_;  // of those that wait, by uid
  std::vector<std::string> violations_;
  std::vector<std::string> repeated_;
  std::set<std::pair<std::string, std::string>> preempted_;  // in this step: preemptor, victim
  bool room_mattered_ = false;
  bool broken_from_the_start_ = false;  // places that are loaded are not right already
  std::set<std::string> drained_on_hold_;
};

}  // namespace muster::cli
