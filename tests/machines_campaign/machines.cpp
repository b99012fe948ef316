#include "machines.h"

#include <algorithm>
#include <utility>

namespace muster::machines_campaign {
namespace {

using sim_campaign::PodsOf;
using sim_campaign::Sample;

constexpr const char* kFlavor = "muster.dev/flavor";
constexpr const char* kRack = "rack";
constexpr const char* kHost = "kubernetes.io/hostname";
constexpr const char* kRecord = "muster.dev/admission";
constexpr const char* kElastic = "kueue.x-k8s.io/elastic-job";
const std::vector<std::string> kFlavors = {"a", "b", "tainted"};
const std::vector<std::string> kRacks = {"r0", "r1"};
const std::vector<std::string> kResources = {"cpu", "nvidia.com/gpu"};
constexpr int kNodesMost = 9;

std::string NameOf(const Json& object) { return Text(At(object, "metadata", "name")); }

bool IsLive(const Json& pod) { return !sim::HasEnded(pod); }

Json TaintsOf(const std::string& flavor) {
  if (flavor != "tainted") return Json::array();
  return Json::array({{{"key", "dedicated"}, {"value", "batch"}, {"effect", "NoSchedule"}}});
}

// Thousandths as metrics have them.
double Units(int64_t milli) { return static_cast<double>(milli) / 1000; }

}  // namespace

Machines::Machines(sim_campaign::Cluster* cluster, MachinesOptions options)
    : cluster_(cluster), options_(std::move(options)), random_(cluster->executor.NewRandom("machines")) {
  cluster->store.Subscribe([this](const sim::Change& change) { Observe(change); });
}

void Machines::AddTo(sim_campaign::Chaos* chaos) {
  const auto add = [this, chaos](int weight, void (Machines::*happen)()) {
    chaos->Add(weight, [this, happen] { (this->*happen)(); });
  };
  add(6, &Machines::AddStranger);
  add(5, &Machines::RemoveStranger);
  if (!options_.changes) return;
  add(4, &Machines::AddNode);
  add(3, &Machines::RemoveNode);
  add(5, &Machines::Cordon);
  add(3, &Machines::Drain);
  add(4, &Machines::LoseReady);
  add(3, &Machines::Resize);
  // With a topology, what a gang holds counts in the flavor that it was given, also where its pods' node is another's.
  if (options_.topology.empty()) add(1, &Machines::Relabel);
  add(4, &Machines::DeletePod);
}

void Machines::ShapeJob(Json* job) {
  Json& spec = (*job)["spec"];
  // One that is lost is made anew, most of the time.
  const Json& annotations = At(*job, "spec", "template", "metadata", "annotations");
  if (Text(Get(annotations, "muster.dev/exit-code")) == "0" && !OneIn(6)) spec["backoffLimit"] = 100;
  if (OneIn(6) && !options_.stops_unready) spec["podReplacementPolicy"] = "Failed";
  if (OneIn(2) && Get(spec, "completions").is_number_integer()) spec["completionMode"] = "Indexed";
  if (options_.topology.empty()) return;
  // Not in flavors with a topology.
  if (At(*job, "metadata", "annotations").is_object()) (*job)["metadata"]["annotations"].erase(kElastic);
  Json& asks = spec["template"]["metadata"]["annotations"];
  if (OneIn(3)) {
    asks["kueue.x-k8s.io/podset-required-topology"] = OneIn(3) ? kHost : kRack;
  } else if (OneIn(3)) {
    asks["kueue.x-k8s.io/podset-preferred-topology"] = kRack;
  }
}

// ---- nodes --------------------------------------------------------------------------------------

void Machines::MakeNode(const std::string& name, const std::string& flavor, const std::string& rack, Json allocatable) {
  cluster_->Create({{"apiVersion", "v1"},
                    {"kind", "Node"},
                    {"metadata", {{"name", name}, {"labels", {{kFlavor, flavor}, {kRack, rack}, {kHost, name}}}}},
                    {"spec", {{"taints", TaintsOf(flavor)}}},
                    {"status", {{"allocatable", std::move(allocatable)}}}});
  SetReady(name, true);
}

void Machines::SetReady(const std::string& name, bool ready) {
  const Json condition = {{"type", "Ready"}, {"status", ready ? "True" : "False"}};
  cluster_->Patch("nodes", "", name, {{"status", {{"conditions", Json::array({condition})}}}}, "status");
}

std::string Machines::AnyNode() {
  const std::vector<Json> nodes = cluster_->List("nodes");
  return nodes.empty() ? "" : NameOf(nodes[Below(nodes.size())]);
}

void Machines::Make() {
  if (!options_.topology.empty()) {
    const Json levels = Json::array({{{"nodeLabel", kRack}}, {{"nodeLabel", kHost}}});
    cluster_->Create({{"apiVersion", "kueue.x-k8s.io/v1beta2"},
                      {"kind", "Topology"},
                      {"metadata", {{"name", options_.topology}}},
                      {"spec", {{"levels", levels}}}});
  }
  for (int i = 0; i < 5; ++i) AddNode();
}

void Machines::AddNode() {
  if (cluster_->List("nodes").size() >= kNodesMost) return;
  const Json allocatable = {{"cpu", std::to_string(1 + Below(6))},
                            {"nvidia.com/gpu", std::to_string(Below(3))},
                            {"pods", std::to_string(OneIn(4) ? 2 : 20)}};
  // Sometimes under the name of one that has gone.
  const std::string name = "n" + std::to_string(OneIn(3) && nodes_made_ > 0 ? Below(nodes_made_) : nodes_made_++);
  const std::string flavor = AnyOf(kFlavors);
  MakeNode(name, flavor, AnyOf(kRacks), allocatable);
}

void Machines::RemoveNode() { cluster_->Delete("nodes", "", AnyNode()); }

void Machines::Cordon() {
  const std::string name = AnyNode();
  cluster_->Patch("nodes", "", name, {{"spec", {{"unschedulable", OneIn(2)}}}});
}

// As `kubectl drain` does.
void Machines::Drain() {
  const std::string name = AnyNode();
  cluster_->Patch("nodes", "", name, {{"spec", {{"unschedulable", true}}}});
  for (const Json& pod : cluster_->List("pods")) {
    if (Text(At(pod, "spec", "nodeName")) != name) continue;
    cluster_->Delete("pods", Text(At(pod, "metadata", "namespace")), NameOf(pod));
  }
}

void Machines::LoseReady() {
  const std::string name = AnyNode();
  SetReady(name, OneIn(2));
}

void Machines::Resize() {
  const Json allocatable = {{"cpu", std::to_string(Below(6))}, {"nvidia.com/gpu", std::to_string(Below(3))}};
  cluster_->Patch("nodes", "", AnyNode(), {{"status", {{"allocatable", allocatable}}}}, "status");
}

void Machines::Relabel() {
  const std::string flavor = AnyOf(kFlavors);
  const Json labels = {{kFlavor, flavor}, {kRack, AnyOf(kRacks)}};
  cluster_->Patch("nodes", "", AnyNode(),
                  {{"metadata", {{"labels", labels}}}, {"spec", {{"taints", TaintsOf(flavor)}}}});
}

// As an eviction does, or a user.
void Machines::DeletePod() {
  const std::vector<Json> pods = cluster_->List("pods");
  if (pods.empty()) return;
  const Json& pod = pods[Below(pods.size())];
  cluster_->Delete("pods", Text(At(pod, "metadata", "namespace")), NameOf(pod));
}

void Machines::AddStranger() {
  const Json requests = {{"cpu", std::to_string(1 + Below(3))}, {"nvidia.com/gpu", std::to_string(OneIn(4) ? 1 : 0)}};
  Json pod = {{"apiVersion", "v1"},
              {"kind", "Pod"},
              {"metadata",
               {{"name", "stranger-" + std::to_string(strangers_made_++)},
                {"namespace", "team-a"},
                {"annotations", {{"muster.dev/run-seconds", OneIn(2) ? "1000000" : std::to_string(1 + Below(60))}}}}},
              {"spec", {{"containers", Json::array({{{"name", "c"}, {"resources", {{"requests", requests}}}}})}}},
              {"status", {{"phase", "Pending"}}}};
  if (OneIn(3)) pod["spec"]["tolerations"] = Json::array({{{"operator", "Exists"}}});
  cluster_->Create(std::move(pod));
}

void Machines::RemoveStranger() {
  std::vector<Json> pods = cluster_->List("pods");
  std::erase_if(pods, [](const Json& pod) { return !NameOf(pod).starts_with("stranger-"); });
  if (!pods.empty()) cluster_->Delete("pods", "team-a", NameOf(pods[Below(pods.size())]));
}

void Machines::End() {
  cluster_->nodes->SetPaused(false);
  for (const Json& node : cluster_->List("nodes")) SetReady(NameOf(node), true);
  // Where no flavor has a node, machines are not looked at.
  if (cluster_->List("nodes").empty()) AddNode();
}

void Machines::Repair() {
  for (const Json& node : cluster_->List("nodes")) {
    cluster_->Patch("nodes", "", NameOf(node), {{"spec", {{"unschedulable", false}}}});
  }
  for (const std::string& flavor : kFlavors) {
    for (const std::string& rack : kRacks) {
      MakeNode("big-" + flavor + "-" + rack, flavor, rack,
               {{"cpu", "1000"}, {"nvidia.com/gpu", "1000"}, {"pods", "1000"}});
    }
  }
}

// ---- at every moment ----------------------------------------------------------------------------

void Machines::Observe(const sim::Change& change) {
  if (change.kind->plural == "nodes") changed_ = cluster_->executor.Mono();
  if (change.kind->plural == "pods") ObservePod(change);
  if (change.kind->plural == "jobs" && change.type != sim::Change::Type::kDeleted) ObserveJob(change);
}

void Machines::ObservePod(const sim::Change& change) {
  const Json& pod = *change.object;
  if (At(pod, "metadata", "ownerReferences").empty()) changed_ = cluster_->executor.Mono();
  const std::string node = Text(At(pod, "spec", "nodeName"));
  const bool binds =
      !node.empty() && change.previous != nullptr && Text(At(*change.previous, "spec", "nodeName")).empty();
  if (!binds) return;
  ++bound_;
  const sim::Amounts allocatable = sim::AllocatableOf(cluster_->Find("nodes", "", node));
  for (const auto& [resource, amount] : TakenOn(node)) {
    const auto there = allocatable.find(resource);
    const int64_t most = there == allocatable.end() ? 0 : there->second;
    const bool asked = sim::RequestsOfPod(pod)[resource] > 0;
    if (asked && amount > most) broken_.push_back("Pod " + NameOf(pod) + " is bound to " + node + ", which is full");
  }
}

// A claim is stopped once.
void Machines::ObserveJob(const sim::Change& change) {
  const Json record = sim::ParseJson(Text(At(*change.object, "metadata", "annotations", kRecord))).value_or(Json());
  if (Text(Get(record, "state")) != "stopped" || Text(At(record, "eviction", "reason")) != "NodeFailures") return;
  if (!failed_claims_.insert(Text(Get(record, "claim"))).second) return;
  const MonoTime now = cluster_->executor.Mono();
  failures_.push_back({NameOf(*change.object), now, now - changed_ > std::chrono::minutes(5)});
}

std::vector<std::string> Machines::Broken() const {
  std::vector<std::string> out = broken_;
  std::map<std::string, int> at_rest;
  for (const Failure& failure : failures_) {
    if (failure.at_rest) ++at_rest[failure.job];
  }
  for (const auto& [job, count] : at_rest) {
    out.push_back("Job " + job + " lost its places " + std::to_string(count) + " times while nothing changed");
  }
  return out;
}

// ---- at rest ------------------------------------------------------------------------------------

sim::Amounts Machines::TakenOn(const std::string& node) const {
  sim::Amounts taken;
  for (const Json& pod : cluster_->List("pods")) {
    if (Text(At(pod, "spec", "nodeName")) != node || !IsLive(pod)) continue;
    for (const auto& [resource, amount] : sim::RequestsOfPod(pod)) taken[resource] += amount;
  }
  return taken;
}

// It has the flavor's labels, and pods of the flavor may go there.
bool Machines::IsOpen(const Json& node, const std::string& flavor) const {
  return Text(At(node, "metadata", "labels", kFlavor)) == flavor && sim::HasCondition(node, "Ready") &&
         !Flag(At(node, "spec", "unschedulable"));
}

bool Machines::Fit(const Json& job, int64_t pods, const std::string& flavor) const {
  const sim::Amounts requests = sim::RequestsOfPod(At(job, "spec", "template"));
  std::map<std::string, int64_t> by_rack;
  int64_t most_on_one = 0;
  for (const Json& node : cluster_->List("nodes")) {
    if (!IsOpen(node, flavor)) continue;
    sim::Amounts free = sim::AllocatableOf(node);
    for (const auto& [resource, amount] : TakenOn(NameOf(node))) free[resource] -= amount;
    int64_t fit = pods;
    for (const auto& [resource, amount] : requests) {
      if (amount > 0) fit = std::min(fit, std::max<int64_t>(0, free[resource]) / amount);
    }
    most_on_one = std::max(most_on_one, fit);
    by_rack[Text(At(node, "metadata", "labels", kRack))] += fit;
  }
  int64_t all = 0;
  int64_t most_in_one = 0;
  for (const auto& [rack, fit] : by_rack) {
    all += fit;
    most_in_one = std::max(most_in_one, fit);
  }
  const std::string level =
      Text(At(job, "spec", "template", "metadata", "annotations", "kueue.x-k8s.io/podset-required-topology"));
  const int64_t most = options_.topology.empty() || level.empty() ? all : level == kRack ? most_in_one : most_on_one;
  return most >= pods;
}

// "quota that no node can serve: ... of RESOURCE: no node of ResourceFlavor F has RESOURCE" or "... no node has the
// labels of ResourceFlavor F".
bool Machines::Explains(const std::string& problem) const {
  if (!problem.starts_with("quota that no node can serve: ")) return false;
  for (const std::string& flavor : kFlavors) {
    int64_t nodes = 0;
    sim::Amounts sum;
    for (const Json& node : cluster_->List("nodes")) {
      if (Text(At(node, "metadata", "labels", kFlavor)) != flavor) continue;
      ++nodes;
      for (const auto& [resource, amount] : sim::AllocatableOf(node)) sum[resource] += amount;
    }
    const auto says = [&problem](const std::string& text) { return problem.find(text) != std::string::npos; };
    if (says(": no node has the labels of ResourceFlavor " + flavor)) return nodes == 0;
    for (const std::string& resource : kResources) {
      const std::string text = ": no node of ResourceFlavor ";
      if (says(text + flavor + " has " + resource)) return nodes > 0 && sum[resource] == 0;
    }
  }
  return false;
}

void Machines::RecountFlavor(const sim_campaign::Process& leader, const std::string& flavor,
                             std::vector<std::string>* findings) const {
  int64_t nodes = 0;
  std::map<std::string, int64_t> allocatable;
  std::map<std::string, int64_t> free;
  std::map<std::string, int64_t> largest;
  for (const Json& node : cluster_->List("nodes")) {
    if (Text(At(node, "metadata", "labels", kFlavor)) != flavor) continue;
    ++nodes;
    sim::Amounts has = sim::AllocatableOf(node);
    sim::Amounts taken = TakenOn(NameOf(node));
    for (const std::string& resource : kResources) {
      allocatable[resource] += has[resource];
      if (!IsOpen(node, flavor)) continue;
      const int64_t left = std::max<int64_t>(0, has[resource] - taken[resource]);
      free[resource] += left;
      largest[resource] = std::max(largest[resource], left);
    }
  }
  const std::vector<prometheus::MetricFamily> families = leader.metrics->Collect();
  const auto expect = [&](const std::string& metric, const std::map<std::string, std::string>& labels, double value) {
    const std::optional<double> told = Sample(families, metric, labels);
    // Only what somebody has quota of is told.
    if (told.has_value() && *told != value) {
      findings->push_back(metric + " of " + flavor + " is " + std::to_string(*told) + ", a recount gives " +
                          std::to_string(value));
    }
  };
  expect("muster_flavor_nodes", {{"flavor", flavor}}, static_cast<double>(nodes));
  for (const std::string& resource : kResources) {
    const std::map<std::string, std::string> labels = {{"flavor", flavor}, {"resource", resource}};
    expect("muster_flavor_allocatable", labels, Units(allocatable[resource]));
    expect("muster_flavor_free", labels, Units(free[resource]));
    expect("muster_flavor_largest_free_block", labels, Units(largest[resource]));
  }
}

// One that runs has all its pods on nodes, and one that does not has none.
void Machines::LookAtPods(const Json& job, std::vector<std::string>* findings) const {
  const bool ended = sim::HasCondition(job, "Complete") || sim::HasCondition(job, "Failed");
  const bool runs = !ended && !Flag(At(job, "spec", "suspend"));
  int64_t there = 0;
  int64_t on_nodes = 0;
  for (const Json& pod : cluster_->List("pods")) {
    const Json& owners = At(pod, "metadata", "ownerReferences");
    if (!IsLive(pod) || owners.empty() || Get(owners[0], "uid") != At(job, "metadata", "uid")) continue;
    ++there;
    on_nodes += Text(At(pod, "spec", "nodeName")).empty() ? 0 : 1;
  }
  const Json record = sim::ParseJson(Text(At(job, "metadata", "annotations", kRecord))).value_or(Json());
  int64_t wanted = 0;
  if (runs && record.is_object()) {
    const Json& pods = record["podSets"][0];
    wanted = Number(Get(pods, "count"));
    // Of a flavor that is gone nobody knows the nodes.
    for (const auto& [resource, flavor] : Get(pods, "flavors").items()) {
      if (cluster_->Find("resourceflavors", "", Text(flavor)).is_null()) return;
    }
  }
  const int64_t more = runs ? PodsOf(job) - wanted : 0;
  if (on_nodes != wanted || there != wanted + more) {
    findings->push_back("Job " + NameOf(job) + (runs ? " runs" : " does not run") + " with " + std::to_string(there) +
                        " pods, of which " + std::to_string(on_nodes) + " are on nodes, and " + std::to_string(wanted) +
                        " are admitted");
  }
}

std::vector<std::string> Machines::Findings(const sim_campaign::Process& leader) const {
  std::vector<std::string> findings;
  for (const Json& job : cluster_->List("jobs")) LookAtPods(job, &findings);
  for (const std::string& flavor : kFlavors) RecountFlavor(leader, flavor, &findings);
  const double lacking = Sample(leader.metrics->Collect(), "muster_workloads_lacking_places", {}).value_or(0);
  if (lacking != 0) findings.push_back(std::to_string(lacking) + " Workloads lack places");
  return findings;
}

}  // namespace muster::machines_campaign
