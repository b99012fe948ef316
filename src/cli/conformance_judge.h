// Whether each pass decided what it had to: a second scheduler, as plain as the rules are and without any code of the
// engine, is told the same and says who must be admitted where, who must go for whom, and why those wait who were
// looked at.
//
// Its state is the engine's at each pass, so that whatever went another way than recorded is judged by the rules all
// the same, those of docs/kueue-compatibility.md among them. Threading: not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "model/pass.h"
#include "muster/engine/engine.h"

namespace muster::cli {

class PassJudge {
 public:
  explicit PassJudge(const engine::EngineOptions& options);

  // What the engine is told of objects.
  void Apply(const engine::Event& event);
  // The engine is about to run a pass: says what that must decide.
  void BeforePass(const engine::EngineSet& engine, WallTime now);
  // `decisions`: of that pass. They are carried out at once.
  void AfterPass(const std::vector<engine::Decision>& decisions);

  // No pass decides more, as the engine says: nobody may wait who fits, or could have preempted others when it was last
  // looked at. But those behind the head of a StrictFIFO ClusterQueue; and whoever has its turn only after some time.
  void AtRest();

  // In words: what some pass decided that it should not have, or the other way round.
  const std::vector<std::string>& faults() const { return faults_; }
  // Places in topologies decide, too, of which it knows nothing: it judges no pass.
  bool in_topologies() const { return in_topologies_; }
  int64_t passes() const { return passes_; }
  // Some pass had to decide otherwise since room is kept for preemptors.
  bool room_mattered() const { return room_mattered_; }

 private:
  using Lines = std::multiset<std::string>;
  void Rebuild();
  void ApplyWorkload(const engine::Workload& workload);
  void Forget(const std::string& uid);
  // In the tree of that ClusterQueue.
  void NoteOutside(const std::string& name);
  void NoteQuotas(const std::string& name);
  void NoteAll();
  void ReadPlaces(const engine::EngineSet& engine);
  void LeaveQueue(model::Gang* gang);
  // Those who must go whoever wants their room.
  model::Expected EvictedByPolicy() const;
  model::Expected RunTrees(model::State* state) const;
  std::optional<model::State> WithoutRooms() const;
  bool AnythingAdmittedSince(WallTime time, int queue) const;
  void CheckReason(const engine::Hold& hold);
  // What can be said where places decide: admissions fit the quota, and policies let the evicted be evicted.
  void CheckQuota(const std::vector<engine::Decision>& decisions);
  bool MayEvict(const model::Books& books, const engine::Evict& evict) const;
  Lines LinesOf(const model::Expected& expected) const;
  Lines LinesOf(const std::vector<engine::Decision>& decisions) const;
  void CarryOut(const engine::Admit& admit);
  void CarryOut(const engine::Evict& evict);
  std::string NameOf(const std::string& uid) const;

  model::State state_;
  std::map<std::string, engine::LocalQueue> local_queues_;
  bool in_topologies_ = false;  // places decide, which the model knows nothing of
  WallTime now_;
  int64_t number_ = 0;
  int64_t turn_ = 0;
  int64_t passes_ = 0;
  Lines expected_;
  std::map<std::string, engine::ReasonCode> waiting_;  // by uid, as expected
  bool room_mattered_ = false;
  std::vector<std::string> faults_;
};

}  // namespace muster::cli
