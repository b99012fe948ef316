// What there is: nodes, strangers' pods, flavors, and the classes that these and the shapes of pods tell apart.
#include "muster/gang/machine_room.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "machine_room_impl.h"
#include "muster/core/check.h"
#include "room_asker_impl.h"

namespace muster::gang {

namespace {

// Beyond that, names of resources are one that no machine has.
constexpr uint32_t kResourcesMax = kMaxResources - 1;

bool HasLabels(const Node& node, const Labels& labels) {
  return std::all_of(labels.begin(), labels.end(), [&](const auto& label) {
    const auto it = node.labels.find(label.first);
    return it != node.labels.end() && it->second == label.second;
  });
}

void AddTo(FlavorRecord* flavor, const Node& node, int64_t sign) {
  flavor->nodes += sign;
  for (const auto& [resource, amount] : node.allocatable) {
    flavor->allocatable[resource] += sign * std::clamp(amount.value, int64_t{0}, kMaxAmount);
  }
}

ShapePtr Tolerant(const std::vector<Taint>& taints) {
  auto shape = std::make_shared<Shape>();
  for (const Taint& taint : taints) {
    shape->tolerations.push_back({taint.key, "Equal", taint.value, taint.effect, false, 0});
  }
  return shape;
}

bool KeepsPodsAway(const Taint& taint) { return taint.effect == "NoSchedule" || taint.effect == "NoExecute"; }

auto Key(const Taint& taint) { return std::tie(taint.key, taint.value, taint.effect); }

}  // namespace

bool operator<(const ClassRecord& a, const ClassRecord& b) {
  if (a.labels != b.labels) return a.labels < b.labels;
  if (a.name != b.name) return a.name < b.name;
  return std::lexicographical_compare(a.taints.begin(), a.taints.end(), b.taints.begin(), b.taints.end(),
                                      [](const Taint& x, const Taint& y) { return Key(x) < Key(y); });
}

void StepBatch::Add(const Needs& needs, const MachinePlace& place, Book take, Book give) {
  if (take == give || place.pods == 0) return;
  GangPlacement& placement = moves_[{take, give}];
  if (placement.empty() || placement.back().per_pod != needs) placement.push_back({needs, {}});
  placement.back().places.push_back(place);
}

void StepBatch::AddTo(std::vector<ClaimStep>* steps) const {
  for (const auto& [books, placement] : moves_) steps->push_back({&placement, books.first, books.second, false});
}

MachineRoomImpl::MachineRoomImpl(bool on) : on_(on), user_(&book_), own_(std::make_unique<RoomAskerImpl>(this)) {
  MUSTER_CHECK(Resource("pods") == kPodSlots);
}
MachineRoomImpl::~MachineRoomImpl() = default;

// ---- names --------------------------------------------------------------------------------------

MachineResource MachineRoomImpl::Resource(std::string_view name) {
  if (const auto known = resource_ids_.find(name); known != resource_ids_.end()) return known->second;
  if (resource_ids_.size() >= kResourcesMax) return {kResourcesMax};
  MUSTER_CHECK(!shared_);
  const MachineResource resource{static_cast<uint32_t>(resource_ids_.size())};
  resource_ids_.emplace(name, resource);
  resource_names_.emplace_back(name);
  return resource;
}

const std::string& MachineRoomImpl::NameOf(MachineResource resource) const {
  static const std::string kUnknown = "a resource that no node has";
  return resource.value < resource_names_.size() ? resource_names_[resource.value] : kUnknown;
}

Needs MachineRoomImpl::NeedsOf(const std::map<std::string, Amount, std::less<>>& requests) {
  std::vector<Need> needs;
  for (const auto& [resource, amount] : requests) {
    if (amount > Amount{0} && resource != "pods") needs.push_back({Resource(resource), amount.value});
  }
  return PodNeeds(std::move(needs));
}

NodeRecord* MachineRoomImpl::FindNode(std::string_view name) {
  const auto it = nodes_.find(name);
  return it == nodes_.end() ? nullptr : &it->second;
}

// ---- nodes --------------------------------------------------------------------------------------

void MachineRoomImpl::SetNode(const Node& node) {
  NodeRecord& record = nodes_[node.name];
  if (record.known && record.node == node) return;
  const bool had_nodes = HasNodes();
  const bool same = record.known && record.node.labels == node.labels && record.node.allocatable == node.allocatable;
  if (!same) {
    if (record.known) CountNode(record.node, -1);
    CountNode(node, 1);
    ++facts_version_;
  }
  if (!record.known) NoteUids(record);
  record.node = node;
  record.known = true;
  dirty_nodes_.insert(node.name);
  ChecksChanged(had_nodes);
}

void MachineRoomImpl::RemoveNode(std::string_view name) {
  NodeRecord* record = FindNode(name);
  if (record == nullptr || !record->known) return;
  const bool had_nodes = HasNodes();
  CountNode(record->node, -1);
  ++facts_version_;
  record->known = false;
  NoteUids(*record);
  for (const auto& [uid, claim] : claims_) {
    const bool here = record->machine.has_value() &&
                      std::any_of(claim->parts.begin(), claim->parts.end(), [&](const Holding::Part& part) {
                        return std::any_of(part.places.begin(), part.places.end(), [&](const MachinePlace& place) {
                          return place.machine == *record->machine;
                        });
                      });
    if (here) dirty_workloads_.insert(uid);
  }
  dirty_nodes_.insert(std::string(name));
  ChecksChanged(had_nodes);
}

void MachineRoomImpl::CountNode(const Node& node, int64_t sign) {
  for (auto& [name, flavor] : flavors_) {
    if (HasLabels(node, flavor.machines.node_labels)) AddTo(&flavor, node, sign);
  }
}

void MachineRoomImpl::ValidateFacts() const {
  for (const auto& [name, flavor] : flavors_) {
    FlavorRecord counted{flavor.machines, 0, {}, nullptr};
    for (const auto& [node_name, node] : nodes_) {
      if (node.known && HasLabels(node.node, flavor.machines.node_labels)) AddTo(&counted, node.node, 1);
    }
    MUSTER_CHECK_MSG(counted.nodes == flavor.nodes, name);
    for (const auto& [resource, sum] : flavor.allocatable) MUSTER_CHECK_MSG(counted.allocatable[resource] == sum, name);
  }
}

void MachineRoomImpl::NoteUids(const NodeRecord& node) {
  for (const std::string& key : node.pods) dirty_workloads_.insert(pods_.at(key).pod.workload);
}

bool MachineRoomImpl::HasNodes() const {
  return std::any_of(flavors_.begin(), flavors_.end(), [](const auto& entry) { return entry.second.nodes > 0; });
}

// With the last node goes what is known of machines at all; then nobody waits for them any more.
void MachineRoomImpl::ChecksChanged(bool had_nodes) {
  if (HasNodes() == had_nodes) return;
  all_gained_ = all_gained_ || had_nodes;
  NoteAllClaims();
}

void MachineRoomImpl::NoteAllClaims() {
  for (const auto& [uid, claim] : claims_) dirty_workloads_.insert(uid);
}

void MachineRoomImpl::DropIfUnused(const std::string& name) {
  const auto it = nodes_.find(name);
  if (it == nodes_.end()) return;
  const NodeRecord& record = it->second;
  if (!record.known && !record.machine.has_value() && record.strangers.empty() && record.pods.empty()) nodes_.erase(it);
}

// ---- pods ---------------------------------------------------------------------------------------

void MachineRoomImpl::SetPod(const std::string& key, const BoundPod& pod) {
  const auto known = pods_.find(key);
  if (known != pods_.end()) {
    if (known->second.pod == pod) return;
    RemovePod(key);
  }
  PodRecord& record = pods_[key];
  record.pod = pod;
  record.needs = NeedsOf(pod.requests);
  if (pod.workload.empty()) {
    CountStranger(record, 1);
    return;
  }
  nodes_[pod.node].pods.insert(key);
  pods_of_[pod.workload].insert(key);
  dirty_workloads_.insert(pod.workload);
}

void MachineRoomImpl::RemovePod(const std::string& key) {
  const auto it = pods_.find(key);
  if (it == pods_.end()) return;
  const PodRecord& record = it->second;
  const std::string& uid = record.pod.workload;
  if (uid.empty()) {
    CountStranger(record, -1);
  } else {
    given_.Add(record.needs, record.place, Book::kNone, record.books);
    const auto claim = claims_.find(uid);
    if (claim != claims_.end() && !claim->second->leaving && !record.left_over && record.books != Book::kNone) {
      for (Holding::Part& part : claim->second->parts) {
        if (part.pods.name == record.pod.pod_set) part.vacated.push_back(record.place);
      }
    }
    nodes_.at(record.pod.node).pods.erase(key);
    absl::btree_set<std::string>& pods = pods_of_.at(uid);
    pods.erase(key);
    if (pods.empty()) pods_of_.erase(uid);
    dirty_workloads_.insert(uid);
  }
  const std::string node = record.pod.node;
  pods_.erase(it);
  DropIfUnused(node);
}

void MachineRoomImpl::CountStranger(const PodRecord& pod, int64_t sign) {
  NodeRecord& node = nodes_[pod.pod.node];
  for (const Need& need : pod.needs) {
    Amount& sum = node.strangers[need.resource];
    sum += Amount{need.amount} * sign;
    if (sum == Amount{0}) node.strangers.erase(need.resource);
  }
  dirty_nodes_.insert(pod.pod.node);
}

// ---- flavors ------------------------------------------------------------------------------------

void MachineRoomImpl::SetFlavor(const std::string& name, FlavorMachines flavor) {
  FlavorRecord& record = flavors_[name];
  if (record.machines == flavor && record.nodes > 0) return;
  const bool had_nodes = HasNodes();
  for (const auto& [key, value] : flavor.node_labels) Mention(key);
  record = {std::move(flavor), 0, {}, nullptr};
  record.tolerant = Tolerant(record.machines.node_taints);
  for (const auto& [node_name, node] : nodes_) {
    if (node.known && HasLabels(node.node, record.machines.node_labels)) AddTo(&record, node.node, 1);
  }
  ++facts_version_;
  ++classes_version_;
  NoteAllClaims();
  ChecksChanged(had_nodes);
}

void MachineRoomImpl::RemoveFlavor(std::string_view name) {
  const auto it = flavors_.find(name);
  if (it == flavors_.end()) return;
  const bool had_nodes = HasNodes();
  flavors_.erase(it);
  ++facts_version_;
  ++classes_version_;
  NoteAllClaims();
  ChecksChanged(had_nodes);
}

bool MachineRoomImpl::Checks(const std::vector<std::string>& flavors) const {
  if (!on_ || !HasNodes()) return false;
  const auto autoscaled = [](const auto& entry) { return entry.second.machines.autoscaled; };
  // Who is in no flavor may go anywhere.
  if (flavors.empty()) return std::none_of(flavors_.begin(), flavors_.end(), autoscaled);
  return std::all_of(flavors.begin(), flavors.end(), [&](const std::string& name) {
    const auto it = flavors_.find(name);
    return it != flavors_.end() && !autoscaled(*it);
  });
}

std::vector<std::string> MachineRoomImpl::TakeGained() {
  std::vector<std::string> gained;
  Flush();
  if (gained_.empty() && !all_gained_) return gained;
  for (const auto& entry : flavors_) {
    const Labels& labels = entry.second.machines.node_labels;
    const bool has = all_gained_ || std::any_of(gained_.begin(), gained_.end(), [&](uint32_t machine) {
                       const NodeRecord* node = FindNode(machine_names_[machine]);
                       return node != nullptr && node->known && HasLabels(node->node, labels);
                     });
    if (has) gained.push_back(entry.first);
  }
  gained_.clear();
  all_gained_ = false;
  return gained;
}

std::vector<std::string> MachineRoomImpl::TakeLackChanged() {
  Flush();
  const std::set<std::string> changed = std::exchange(lack_changed_, {});
  return {changed.begin(), changed.end()};
}

RoomCounts MachineRoomImpl::counts() const {
  RoomCounts out = taken_;
  out.nodes = std::count_if(nodes_.begin(), nodes_.end(), [](const auto& entry) { return entry.second.known; });
  out.commits = user_.counts().commits;
  for (const RoomAskerImpl* asker : askers_) out.searches += asker->searches();
  return out;
}

uint64_t MachineRoomImpl::refusals() const {
  uint64_t refusals = 0;
  for (const RoomAskerImpl* asker : askers_) refusals += asker->refusals();
  return refusals;
}

// ---- classes ------------------------------------------------------------------------------------

void MachineRoomImpl::Mention(const std::string& label) {
  if (mentioned_.contains(label)) return;
  MUSTER_CHECK(!shared_);
  mentioned_.insert(label);
  for (const auto& [name, record] : nodes_) {
    if (record.known && record.node.labels.contains(label)) relabeled_nodes_.insert(name);
  }
}

void MachineRoomImpl::Mention(const Shape& shape) {
  for (const auto& [key, value] : shape.node_selector) Mention(key);
  for (const NodeSelectorTerm& term : shape.required_affinity) {
    for (const Requirement& requirement : term.match_expressions) Mention(requirement.key);
    if (term.match_fields.empty() || names_matter_) continue;
    MUSTER_CHECK(!shared_);
    names_matter_ = true;
    for (const auto& [name, record] : nodes_) {
      if (record.known) relabeled_nodes_.insert(name);
    }
  }
}

void MachineRoomImpl::Mention(const GangToSeat& gang) {
  for (const PodSetToSeat& pods : gang) Mention(*pods.shape);
}

void MachineRoomImpl::Announce(const Shape& shape) {
  Mention(shape);
  (void)NeedsOf(shape.OnNode());
}

void MachineRoomImpl::Share(bool shared) {
  if (shared) Flush();
  shared_ = shared;
}

ClassRecord MachineRoomImpl::ClassOf(const Node& node) const {
  ClassRecord machine_class;
  for (const auto& [key, value] : node.labels) {
    if (mentioned_.contains(key)) machine_class.labels.emplace(key, value);
  }
  std::copy_if(node.taints.begin(), node.taints.end(), std::back_inserter(machine_class.taints), KeepsPodsAway);
  std::sort(machine_class.taints.begin(), machine_class.taints.end(),
            [](const Taint& a, const Taint& b) { return Key(a) < Key(b); });
  if (names_matter_) machine_class.name = node.name;
  return machine_class;
}

// What a machine was of before is forgotten with its last machine: hosts come and go.
void MachineRoomImpl::SetClass(NodeRecord* node) {
  std::optional<MachineClass> before;
  if (node->machine.has_value()) before = node->machine_class;
  if (node->known) {
    const auto [it, is_new] = class_ids_.try_emplace(ClassOf(node->node));
    if (is_new) {
      const auto free = std::find(classes_.begin(), classes_.end(), nullptr);
      it->second = MachineClass{static_cast<uint32_t>(free - classes_.begin())};
      if (free == classes_.end()) classes_.push_back(nullptr);
      classes_[it->second.value] = &it->first;
      ++classes_version_;
    }
    ++machines_of_class_[it->second.value];
    node->machine_class = it->second;
  }
  if (!before.has_value() || --machines_of_class_[before->value] > 0) return;
  machines_of_class_.erase(before->value);
  class_ids_.erase(class_ids_.find(*std::exchange(classes_[before->value], nullptr)));
  ++classes_version_;
}

std::optional<RoomLack> MachineRoomImpl::LackOf(const ClassRecord& machine_class, const Shape& shape,
                                                const std::vector<std::string>& flavors) const {
  std::vector<Toleration> tolerations;
  for (const std::string& name : flavors) {
    const FlavorMachines& flavor = flavors_.find(name)->second.machines;
    const bool has = std::all_of(flavor.node_labels.begin(), flavor.node_labels.end(), [&](const auto& label) {
      const auto it = machine_class.labels.find(label.first);
      return it != machine_class.labels.end() && it->second == label.second;
    });
    if (!has) return RoomLack::kNode;
    tolerations.insert(tolerations.end(), flavor.tolerations.begin(), flavor.tolerations.end());
  }
  if (!SelectsNode(shape, machine_class.labels)) return RoomLack::kNodeSelector;
  if (!AffinityAdmitsNode(shape, machine_class.name, machine_class.labels)) return RoomLack::kNodeAffinity;
  if (FirstUntolerated(machine_class.taints, shape.tolerations, tolerations) != nullptr) return RoomLack::kToleration;
  return std::nullopt;
}

// That of the machines which come furthest.
RoomLack MachineRoomImpl::WhyNoMachine(const PodSetToSeat& pods) const {
  RoomLack lack = RoomLack::kNode;
  for (const ClassRecord* machine_class : classes_) {
    if (machine_class == nullptr) continue;
    lack = std::max(lack, LackOf(*machine_class, *pods.shape, pods.flavors).value_or(RoomLack::kOpenNode));
  }
  return lack;
}

// ---- MachineRoom --------------------------------------------------------------------------------

MachineRoom::MachineRoom(bool on) : impl_(std::make_unique<MachineRoomImpl>(on)) {}
MachineRoom::~MachineRoom() = default;

bool MachineRoom::on() const { return impl_->on(); }
void MachineRoom::SetNode(const Node& node) {
  if (impl_->on()) impl_->SetNode(node);
}
void MachineRoom::RemoveNode(std::string_view name) { impl_->RemoveNode(name); }
void MachineRoom::SetPod(const std::string& key, const BoundPod& pod) {
  if (impl_->on()) impl_->SetPod(key, pod);
}
void MachineRoom::RemovePod(const std::string& key) { impl_->RemovePod(key); }
void MachineRoom::SetFlavor(const std::string& name, FlavorMachines flavor) {
  if (impl_->on()) impl_->SetFlavor(name, std::move(flavor));
}
void MachineRoom::RemoveFlavor(std::string_view name) { impl_->RemoveFlavor(name); }
bool MachineRoom::Checks(const std::vector<std::string>& flavors) const { return impl_->Checks(flavors); }
void MachineRoom::Announce(const Shape& shape) {
  if (impl_->on()) impl_->Announce(shape);
}
void MachineRoom::Share(bool shared) { impl_->Share(shared); }
Reservation MachineRoom::Adopt(std::string_view workload, const GangToSeat& gang) {
  return impl_->Adopt(workload, gang);
}
std::vector<std::string> MachineRoom::TakeGained() { return impl_->TakeGained(); }
std::vector<std::string> MachineRoom::TakeLackChanged() { return impl_->TakeLackChanged(); }
RoomCounts MachineRoom::counts() const { return impl_->counts(); }
std::optional<FlavorFacts> MachineRoom::FactsOf(std::string_view flavor, std::string_view resource) const {
  return impl_->FactsOf(flavor, resource);
}
uint64_t MachineRoom::facts_version() const { return impl_->facts_version(); }
std::vector<FlavorRoom> MachineRoom::RoomOf(std::string_view flavor, const std::vector<std::string>& resources,
                                            const std::vector<int64_t>& sizes) const {
  return impl_->RoomOf(flavor, resources, sizes);
}
uint64_t MachineRoom::refusals() const { return impl_->refusals(); }
void MachineRoom::AddToHash(StateHash* hash) const { impl_->AddToHash(hash); }
void MachineRoom::Validate() const { impl_->Validate(); }

// ---- Reservation --------------------------------------------------------------------------------

Reservation& Reservation::operator=(Reservation&& other) noexcept {
  if (this == &other) return *this;
  Release();
  room_ = other.room_;
  holding_ = std::exchange(other.holding_, nullptr);
  return *this;
}

void Reservation::Release() {
  if (holding_ != nullptr) room_->Release(std::exchange(holding_, nullptr), false);
}
void Reservation::ReleaseQuietly() {
  if (holding_ != nullptr) room_->Release(std::exchange(holding_, nullptr), true);
}
void Reservation::Cancel() {
  if (holding_ == nullptr) return;
  --room_->Taken(holding_->purpose);
  ReleaseQuietly();
}
void Reservation::SetLeaving(bool leaving) {
  if (holding_ != nullptr) room_->SetLeaving(holding_, leaving);
}
int64_t Reservation::Lacking() const {
  int64_t pods = 0;
  if (holding_ == nullptr) return pods;
  for (const Holding::Part& part : holding_->parts) pods += part.missing;
  return pods;
}
int64_t Reservation::Unbound() const {
  int64_t pods = Lacking();
  if (holding_ == nullptr) return pods;
  for (const Holding::Part& part : holding_->parts) {
    for (const MachinePlace& place : part.places) pods += place.pods;
  }
  return pods;
}
std::vector<std::string> Reservation::Nodes() const {
  return holding_ == nullptr ? std::vector<std::string>() : room_->NodesOf(*holding_);
}
void Reservation::SetNeeded(const std::vector<std::pair<std::string, int64_t>>& pods) {
  if (holding_ != nullptr) room_->SetNeeded(holding_, pods);
}

// ---- RoomAsker ----------------------------------------------------------------------------------

RoomAsker::RoomAsker(MachineRoom* room) : impl_(std::make_unique<RoomAskerImpl>(room->impl_.get())) {}
RoomAsker::~RoomAsker() = default;

bool RoomAsker::on() const { return impl_->room()->on(); }
bool RoomAsker::Checks(const std::vector<std::string>& flavors) const { return impl_->room()->Checks(flavors); }
RoomAnswer RoomAsker::Ask(const GangToSeat& gang, RoomView view) { return impl_->Ask(gang, view, true); }
bool RoomAsker::Fits(const GangToSeat& gang, RoomView view) { return impl_->Ask(gang, view, false).fits; }
void RoomAsker::Lift(const Reservation& reservation) {
  if (reservation.holding_ != nullptr) impl_->Lift(reservation.holding_);
}
void RoomAsker::PutBack(const Reservation& reservation) {
  if (reservation.holding_ != nullptr) impl_->PutBack(reservation.holding_);
}
bool RoomAsker::Holds(const Reservation& reservation) {
  return reservation.holding_ == nullptr || impl_->Holds(*reservation.holding_);
}
std::optional<Reservation> RoomAsker::Reserve(std::string_view workload, const GangToSeat& gang) {
  return impl_->Take(workload, gang, Purpose::kClaim);
}
std::optional<Reservation> RoomAsker::ReserveMore(std::string_view workload, const GangToSeat& gang) {
  if (!Fits(gang, RoomView::kBoth)) return std::nullopt;
  return impl_->Take(workload, gang, Purpose::kMorePods);
}
std::optional<Reservation> RoomAsker::Keep(std::string_view workload, const GangToSeat& gang) {
  return impl_->Take(workload, gang, Purpose::kWaiting);
}
std::optional<FutureRoom> RoomAsker::KeepFuture(std::string_view workload, const GangToSeat& gang,
                                                const GangEnds& ends) {
  return impl_->KeepFuture(workload, gang, ends);
}

}  // namespace muster::gang
