#include "conformance_judge.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "conformance_driver.h"

namespace muster::cli {

using engine::StopPolicy;
using model::Expected;
using model::Gang;

namespace {

std::set<std::string> ParkedOf(const model::State& state) {
  std::set<std::string> parked;
  for (const auto& [uid, gang] : state.gangs) {
    if (gang.parked) parked.insert(uid);
  }
  return parked;
}

}  // namespace

PassJudge::PassJudge(const engine::EngineOptions& options) {
  state_.fair_sharing = options.fair_sharing;
  state_.keep_room_for = options.keep_room_for;
}

// ---- what is told -------------------------------------------------------------------------------

void PassJudge::Apply(const engine::Event& event) {
  ++turn_;
  if (const auto* flavor = std::get_if<engine::FlavorChanged>(&event)) {
    state_.flavors[flavor->flavor.name] = flavor->flavor;
    NoteAll();
  } else if (const auto* cohort = std::get_if<engine::CohortChanged>(&event)) {
    state_.cohorts[cohort->cohort.name] = cohort->cohort;
    NoteAll();
  } else if (const auto* queue = std::get_if<engine::ClusterQueueChanged>(&event)) {
    const std::string& name = queue->queue.name;
    NoteQuotas(name);
    state_.queues[name] = queue->queue;
    Rebuild();
    NoteQuotas(name);
  } else if (const auto* ns = std::get_if<engine::NamespaceChanged>(&event)) {
    state_.namespaces[ns->ns.name] = ns->ns;
    NoteAll();
  } else if (const auto* local = std::get_if<engine::LocalQueueChanged>(&event)) {
    local_queues_[local->queue.ns + "/" + local->queue.name] = local->queue;
  } else if (std::get_if<engine::TopologyChanged>(&event) != nullptr) {
    in_topologies_ = true;
  } else if (const auto* workload = std::get_if<engine::WorkloadChanged>(&event)) {
    ApplyWorkload(workload->workload);
  } else if (const auto* gone = std::get_if<engine::WorkloadDeleted>(&event)) {
    Forget(gone->uid);
  }
}

void PassJudge::Rebuild() {
  std::map<std::string, std::string> waits_in;
  for (const auto& [uid, gang] : state_.gangs) {
    if (gang.waits_in >= 0) waits_in[uid] = state_.tree.node(gang.waits_in).name;
  }
  state_.tree.Build(state_.queues, state_.cohorts);
  for (auto& [uid, gang] : state_.gangs) {
    const auto name = waits_in.find(uid);
    gang.waits_in = name == waits_in.end() ? -1 : state_.tree.QueueOf(name->second);
  }
}

void PassJudge::ApplyWorkload(const engine::Workload& workload) {
  Gang& gang = state_.gangs[workload.uid];
  gang.spec = workload;
  if (workload.held.has_value()) {
    gang.admission = workload.held->admission;
    gang.reserved_at = workload.held->reserved_at;
    for (const engine::PodSetAssignment& assigned : gang.admission->pod_sets) {
      for (const auto& [resource, flavor] : assigned.flavors) state_.tree.Intern(flavor, resource);
    }
  }
  const auto local = local_queues_.find(workload.ns + "/" + workload.local_queue);
  if (local != local_queues_.end()) NoteOutside(local->second.cluster_queue);
}

void PassJudge::Forget(const std::string& uid) {
  const auto it = state_.gangs.find(uid);
  if (it == state_.gangs.end()) return;
  Gang* gang = &it->second;
  if (gang->waits_in >= 0) LeaveQueue(gang);
  if (const int queue = state_.HeldIn(*gang); queue >= 0) {
    ++state_.MemoryOf(queue).generation;
    model::Wake(&state_, queue);
  }
  const auto local = local_queues_.find(gang->spec.ns + "/" + gang->spec.local_queue);
  if (local != local_queues_.end()) {
    const int queue = state_.tree.QueueOf(local->second.cluster_queue);
    if (queue >= 0 && local->second.stop_policy == StopPolicy::kNone) model::Wake(&state_, queue);
    NoteOutside(local->second.cluster_queue);
  }
  state_.gangs.erase(it);
}

void PassJudge::LeaveQueue(Gang* gang) {
  std::string& first = state_.MemoryOf(gang->waits_in).preemptor;
  if (first == gang->spec.uid) first.clear();
  if (gang->room.has_value()) model::Wake(&state_, gang->waits_in);
  gang->room.reset();
  gang->room_spent = false;
  gang->waits_in = -1;
  gang->parked = false;
}

// Whoever has preempted somebody may do so once more.
void PassJudge::NoteOutside(const std::string& name) {
  const int queue = state_.tree.QueueOf(name);
  if (queue < 0) return;
  const int root = state_.tree.RootOf(queue);
  state_.TreeOf(queue).active = true;
  for (auto& [uid, gang] : state_.gangs) {
    if (gang.waits_in >= 0 && state_.tree.RootOf(gang.waits_in) == root) gang.preempted.clear();
  }
}

void PassJudge::NoteQuotas(const std::string& name) {
  const int queue = state_.tree.QueueOf(name);
  if (queue < 0) return;
  for (const int other : state_.tree.QueuesBelow(state_.tree.RootOf(queue))) ++state_.MemoryOf(other).generation;
  NoteOutside(name);
  model::Wake(&state_, queue);
}

void PassJudge::NoteAll() {
  Rebuild();
  for (const auto& [name, spec] : state_.queues) NoteQuotas(name);
}

// ---- passes -------------------------------------------------------------------------------------

// Who waits where, and who of them is to be looked at: whether those are the right ones is seen once all is at rest.
void PassJudge::ReadPlaces(const engine::EngineSet& engine) {
  using Place = engine::WorkloadView::Place;
  for (auto& [uid, gang] : state_.gangs) {
    if (gang.admission.has_value()) continue;
    const std::optional<engine::WorkloadView> view = engine.ViewWorkload(uid);
    const bool waits = view.has_value() && (view->place == Place::kActive || view->place == Place::kParked);
    const int queue = waits ? state_.tree.QueueOf(view->cluster_queue) : -1;
    if (queue != gang.waits_in) {
      for (const int changed : {gang.waits_in, queue}) {
        if (changed >= 0) state_.TreeOf(changed).active = true;
      }
      if (gang.waits_in >= 0) LeaveQueue(&gang);
      gang.waits_in = queue;
    }
    gang.parked = waits && view->place == Place::kParked;
  }
}

Expected PassJudge::EvictedByPolicy() const {
  Expected expected;
  for (const auto& [uid, gang] : state_.gangs) {
    const int queue = state_.HeldIn(gang);
    if (queue < 0) continue;
    const auto local = local_queues_.find(gang.spec.ns + "/" + gang.spec.local_queue);
    if (state_.SpecOf(queue).stop_policy == StopPolicy::kHoldAndDrain) {
      expected.evicted.push_back({uid, engine::EvictionReason::kClusterQueueStopped, ""});
    } else if (local != local_queues_.end() && local->second.stop_policy == StopPolicy::kHoldAndDrain) {
      expected.evicted.push_back({uid, engine::EvictionReason::kLocalQueueStopped, ""});
    }
  }
  return expected;
}

Expected PassJudge::RunTrees(model::State* state) const {
  Expected all;
  std::set<int> roots;
  for (const auto& [name, spec] : state->queues) roots.insert(state->tree.RootOf(state->tree.QueueOf(name)));
  for (const int root : roots) {
    if (!state->TreeOf(root).active) continue;
    Expected expected = model::RunPass(state, root, number_, turn_, now_);
    std::move(expected.admitted.begin(), expected.admitted.end(), std::back_inserter(all.admitted));
    std::move(expected.evicted.begin(), expected.evicted.end(), std::back_inserter(all.evicted));
    all.waiting.merge(expected.waiting);
    all.goes_on = all.goes_on || expected.goes_on;
  }
  return all;
}

// As if no room was kept for anybody, from now on; nothing: none is, or it is known to matter.
std::optional<model::State> PassJudge::WithoutRooms() const {
  if (state_.keep_room_for == Duration::zero() || room_mattered_) return std::nullopt;
  model::State free = state_;
  free.keep_room_for = Duration::zero();
  for (auto& [uid, gang] : free.gangs) {
    gang.room.reset();
    gang.preempted.clear();
  }
  return free;
}

void PassJudge::BeforePass(const engine::EngineSet& engine, WallTime now) {
  if (!faults_.empty()) return;
  now_ = now;
  ++passes_;
  ReadPlaces(engine);
  if (in_topologies_) return;
  model::LetTimePass(&state_, now);
  Expected expected = EvictedByPolicy();
  if (expected.evicted.empty()) {
    ++number_;
    std::optional<model::State> free = WithoutRooms();
    expected = RunTrees(&state_);
    if (free.has_value()) {
      room_mattered_ = LinesOf(RunTrees(&*free)) != LinesOf(expected) || ParkedOf(*free) != ParkedOf(state_);
    }
  }
  expected_ = LinesOf(expected);
  waiting_ = std::move(expected.waiting);
}

void PassJudge::AfterPass(const std::vector<engine::Decision>& decisions) {
  if (!faults_.empty()) return;
  const Lines got = LinesOf(decisions);
  if (in_topologies_) {
    CheckQuota(decisions);
    expected_ = got;
  }
  Lines missing;
  Lines extra;
  std::set_difference(expected_.begin(), expected_.end(), got.begin(), got.end(),
                      std::inserter(missing, missing.end()));
  std::set_difference(got.begin(), got.end(), expected_.begin(), expected_.end(), std::inserter(extra, extra.end()));
  for (const std::string& line : missing) faults_.push_back("by the rules, and not decided: " + line);
  for (const std::string& line : extra) faults_.push_back("decided, and not by the rules: " + line);
  for (const engine::Decision& decision : decisions) {
    if (const auto* hold = std::get_if<engine::Hold>(&decision)) CheckReason(*hold);
    if (const auto* admit = std::get_if<engine::Admit>(&decision)) CarryOut(*admit);
    if (const auto* evict = std::get_if<engine::Evict>(&decision)) CarryOut(*evict);
  }
}

void PassJudge::CheckReason(const engine::Hold& hold) {
  const auto expected = waiting_.find(hold.uid);
  if (hold.growth || expected == waiting_.end() || expected->second == hold.reason.code) return;
  faults_.push_back("waits with reason " + std::string(engine::Name(hold.reason.code)) + ", and not " +
                    std::string(engine::Name(expected->second)) + ": " + NameOf(hold.uid));
}

void PassJudge::CheckQuota(const std::vector<engine::Decision>& decisions) {
  model::Books books = model::BooksOf(state_);
  for (const engine::Decision& decision : decisions) {
    if (const auto* admit = std::get_if<engine::Admit>(&decision)) {
      Gang gang = state_.gangs.at(admit->uid);
      gang.admission = admit->admission;
      const model::Amounts amounts = state_.AmountsOf(gang);
      const int queue = state_.HeldIn(gang);
      if (!books.actual.Fits(queue, amounts)) {
        faults_.push_back("does not fit the quota: " + AdmissionLine(gang.spec.name, admit->admission));
      }
      books.actual.Add(queue, amounts);
    } else if (const auto* evict = std::get_if<engine::Evict>(&decision);
               evict != nullptr && !MayEvict(books, *evict)) {
      faults_.push_back("may not be evicted for " + NameOf(evict->preemptor_uid) + ": " + NameOf(evict->uid));
    }
  }
}

// By priority and time; and of another ClusterQueue only what borrows.
bool PassJudge::MayEvict(const model::Books& books, const engine::Evict& evict) const {
  if (evict.preemptor_uid.empty()) return true;
  const Gang& preemptor = state_.gangs.at(evict.preemptor_uid);
  const Gang& victim = state_.gangs.at(evict.uid);
  const int from = state_.HeldIn(victim);
  std::set<model::Fr> used;
  for (const auto& [fr, amount] : state_.AmountsOf(victim)) used.insert(fr);
  const engine::ClusterQueue& spec = state_.SpecOf(preemptor.waits_in);
  const bool own = from == preemptor.waits_in;
  if (!own && books.actual.WithinQuota(from, used)) return false;
  const std::vector<const Gang*> candidates = model::Candidates(
      state_, books, preemptor, from, own ? spec.within_cluster_queue : spec.reclaim_within_cohort, used);
  return std::find(candidates.begin(), candidates.end(), &victim) != candidates.end();
}

bool PassJudge::AnythingAdmittedSince(WallTime time, int queue) const {
  return std::any_of(state_.gangs.begin(), state_.gangs.end(), [&](const auto& entry) {
    const int held = state_.HeldIn(entry.second);
    return held >= 0 && state_.tree.RootOf(held) == state_.tree.RootOf(queue) && entry.second.reserved_at >= time;
  });
}

void PassJudge::AtRest() {
  constexpr int kPassesMax = 100;
  if (in_topologies_ || !faults_.empty() || !EvictedByPolicy().evicted.empty()) return;
  model::State state = state_;
  for (auto& [uid, gang] : state.gangs) {
    if (gang.waits_in < 0 || !state.NamespaceMatches(gang.waits_in, gang)) continue;
    const model::QueueMemory& memory = state.MemoryOf(gang.waits_in);
    if (memory.recheck_at.IsSet() || !memory.stalled_head.empty()) continue;
    gang.scan = {};
    gang.ForgetStarts();
    gang.parked = !gang.spec.invalid.empty();
    state.TreeOf(gang.waits_in).active = true;
  }
  for (int i = 0; i < kPassesMax; ++i) {
    const Expected more = RunTrees(&state);
    for (const model::Admitted& admitted : more.admitted) {
      faults_.push_back("waits although it fits: " + AdmissionLine(NameOf(admitted.uid), admitted.admission));
    }
    for (const model::Evicted& evicted : more.evicted) {
      const Gang& preemptor = state_.gangs.at(evicted.preemptor);
      if (AnythingAdmittedSince(preemptor.looked_at, preemptor.waits_in)) continue;
      faults_.push_back("waits although it may preempt " + NameOf(evicted.uid) + ": " + NameOf(evicted.preemptor));
    }
    if (!more.goes_on || !more.admitted.empty() || !more.evicted.empty()) return;
  }
}

void PassJudge::CarryOut(const engine::Admit& admit) {
  ++turn_;
  Gang& gang = state_.gangs.at(admit.uid);
  if (gang.waits_in >= 0) LeaveQueue(&gang);
  gang.admission = admit.admission;
  gang.reserved_at = now_;
  gang.promised_at = {};
  gang.evicted_for.clear();
  gang.scan = {};
  gang.ForgetStarts();
  const int queue = state_.HeldIn(gang);
  ++state_.MemoryOf(queue).generation;
  state_.TreeOf(queue).active = true;
  const int root = state_.tree.RootOf(queue);
  for (auto& [uid, other] : state_.gangs) {
    if (other.waits_in >= 0 && state_.tree.RootOf(other.waits_in) == root) other.ForgetStarts();
  }
}

void PassJudge::CarryOut(const engine::Evict& evict) {
  ++turn_;
  Gang& gang = state_.gangs.at(evict.uid);
  const int queue = state_.HeldIn(gang);
  gang.admission.reset();
  gang.evicted_for = evict.preemptor_uid;
  gang.promised_at = {};
  if (queue < 0) return;
  ++state_.MemoryOf(queue).generation;
  model::Wake(&state_, queue);
}

// ---- words --------------------------------------------------------------------------------------

PassJudge::Lines PassJudge::LinesOf(const Expected& expected) const {
  Lines lines;
  for (const model::Admitted& admitted : expected.admitted) {
    lines.insert("admit " + AdmissionLine(NameOf(admitted.uid), admitted.admission));
  }
  for (const model::Evicted& evicted : expected.evicted) {
    lines.insert("evict " + EvictionLine(NameOf(evicted.uid), ReasonText(evicted.reason), NameOf(evicted.preemptor)));
  }
  return lines;
}

PassJudge::Lines PassJudge::LinesOf(const std::vector<engine::Decision>& decisions) const {
  Expected decided;
  for (const engine::Decision& decision : decisions) {
    if (const auto* admit = std::get_if<engine::Admit>(&decision)) {
      decided.admitted.push_back({admit->uid, admit->admission});
    } else if (const auto* evict = std::get_if<engine::Evict>(&decision)) {
      decided.evicted.push_back({evict->uid, evict->reason, evict->preemptor_uid});
    }
  }
  return LinesOf(decided);
}

std::string PassJudge::NameOf(const std::string& uid) const {
  const auto gang = state_.gangs.find(uid);
  return gang == state_.gangs.end() ? uid : gang->second.spec.name;
}

}  // namespace muster::cli
