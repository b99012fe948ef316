#include "player.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "muster/controller/names.h"
#include "muster/core/time.h"

namespace muster::golden {
namespace {

using scenarios::kMergePatch;
using scenarios::Response;
using scenarios::World;

constexpr std::string_view kAnyPod = "<any running pod>";

struct Kind {
  const char* api;
  const char* plural;
  bool namespaced;
};

Kind KindOf(const std::string& kind) {
  static const std::map<std::string, Kind> kinds = {
      {"Job", {"/apis/batch/v1", "jobs", true}},
      {"Pod", {"/api/v1", "pods", true}},
      {"LimitRange", {"/api/v1", "limitranges", true}},
      {"Namespace", {"/api/v1", "namespaces", false}},
      {"RuntimeClass", {"/apis/node.k8s.io/v1", "runtimeclasses", false}},
      {"PriorityClass", {"/apis/scheduling.k8s.io/v1", "priorityclasses", false}},
      {"Workload", {"/apis/kueue.x-k8s.io/v1beta2", "workloads", true}},
      {"LocalQueue", {"/apis/kueue.x-k8s.io/v1beta2", "localqueues", true}},
      {"ClusterQueue", {"/apis/kueue.x-k8s.io/v1beta2", "clusterqueues", false}},
      {"Cohort", {"/apis/kueue.x-k8s.io/v1beta2", "cohorts", false}},
      {"AdmissionCheck", {"/apis/kueue.x-k8s.io/v1beta2", "admissionchecks", false}},
      {"ResourceFlavor", {"/apis/kueue.x-k8s.io/v1beta2", "resourceflavors", false}},
      {"WorkloadPriorityClass", {"/apis/kueue.x-k8s.io/v1beta2", "workloadpriorityclasses", false}}};
  const auto it = kinds.find(kind);
  if (it == kinds.end()) FAIL("a recording works on the unknown kind " << kind);
  return it->second;
}

std::string PathOf(const std::string& kind, const std::string& ns, const std::string& name = "") {
  const Kind k = KindOf(kind);
  std::string path = k.api;
  if (k.namespaced) path.append("/namespaces/").append(ns);
  path.append("/").append(k.plural);
  return name.empty() ? path : path.append("/").append(name);
}

void Replace(const std::string& from, const std::string& to, std::string* text) {
  for (size_t at = text->find(from); at != std::string::npos; at = text->find(from, at + to.size())) {
    text->replace(at, from.size(), to);
  }
}

Objects Look(World* world) {
  Objects out;
  for (const auto& [kind, list] : {std::pair{"jobs", "/apis/batch/v1/jobs"},
                                   {"workloads", "/apis/kueue.x-k8s.io/v1beta2/workloads"},
                                   {"localQueues", "/apis/kueue.x-k8s.io/v1beta2/localqueues"},
                                   {"clusterQueues", "/apis/kueue.x-k8s.io/v1beta2/clusterqueues"},
                                   {"events", "/apis/events.k8s.io/v1/events"}}) {
    Response response;
    // A kind that is new is not served for a moment.
    world->Await([&, target = std::string(list)] { return (response = world->Call("GET", target)).ok(); },
                 std::chrono::seconds(60));
    INFO(list << ": " << response.code << " " << response.body);
    REQUIRE(response.ok());
    for (Json& item : response.body["items"]) out[kind].push_back(std::move(item));
  }
  return out;
}

std::string EventText(const Json& event) {
  std::string out;
  for (const char* key : {"kind", "name", "type", "reason", "message", "source"}) {
    out.append(out.empty() ? "" : "|").append(Text(Get(event, key)));
  }
  return out;
}

}  // namespace

Player::Player(World* world, const Json& recording, const Pace& pace)
    : world_(world),
      recording_(recording),
      id_(Text(Get(recording, "id"))),
      pace_(pace),
      due_(world->Now()),
      deadline_(due_ + pace.patience) {
  const Json ns = {{"apiVersion", "v1"},
                   {"kind", "Namespace"},
                   {"metadata", {{"name", id_}, {"labels", {{"kubernetes.io/metadata.name", id_}}}}}};
  const Response response = world_->Call("POST", PathOf("Namespace", ""), ns.dump());
  INFO(response.body);
  REQUIRE(response.ok());
}

void Player::Advance(const Objects& seen) {
  const WallTime now = world_->Now();
  if (done() || now < due_) return;
  const Objects mine = Mine(seen);
  const Json& ops = At(step(), "do", "ops");
  if (op_ < ops.size()) {
    if (now >= deadline_) return NextStep({"what operation " + std::to_string(op_) + " needs is not there"});
    if (op_ > 0 && !QueuesKnown(mine)) return;
    // Pods of one step end together.
    do {
      if (!Do(ops[op_])) return;
      ++op_;
    } while (op_ < ops.size() && Text(Get(ops[op_], "kind")) == "Pod");
    due_ = world_->Now() + (op_ < ops.size() ? pace_.between : pace_.look);
    deadline_ = now + pace_.patience;
    return;
  }
  const std::vector<std::string> differences = Compare(mine);
  if (!differences.empty()) {
    ConfirmStops(mine);
    as_recorded_since_.reset();
    if (now >= deadline_) NextStep(differences);
    return;
  }
  if (!as_recorded_since_.has_value()) as_recorded_since_ = now;
  if (now - *as_recorded_since_ < Still()) return;
  Views(mine, &rules_used_);
  NextStep({});
}

std::chrono::milliseconds Player::Still() const {
  return IsMoment(recording_, step()) ? pace_.still / 4 : pace_.still;
}

void Player::NextStep(const std::vector<std::string>& differences) {
  for (const std::string& difference : differences) {
    findings_.push_back(id_ + " step " + std::to_string(step_) + " (" + Text(At(step(), "do", "text")) +
                        "): " + difference);
  }
  // What follows will differ too, most likely: no need to wait as long for it.
  if (!differences.empty()) pace_.patience = std::chrono::seconds(5);
  before_ = events_;
  as_recorded_since_.reset();
  ++step_;
  op_ = 0;
  deadline_ = world_->Now() + pace_.patience;
}

Objects Player::Mine(const Objects& seen) const {
  Objects out;
  for (const auto& [kind, objects] : seen) {
    for (const Json& object : objects) {
      const bool mine = kind == "clusterQueues" ? cluster_queues_.contains(Text(At(object, "metadata", "name")))
                        : kind == "events"      ? Text(At(object, "regarding", "namespace")) == id_
                                                : Text(At(object, "metadata", "namespace")) == id_;
      if (mine) out[kind].push_back(object);
    }
  }
  return out;
}

bool Player::QueuesKnown(const Objects& mine) const {
  for (const char* kind : {"clusterQueues", "localQueues"}) {
    const auto it = mine.find(kind);
    if (it == mine.end()) continue;
    for (const Json& queue : it->second) {
      const Json& active = sim::FindCondition(At(queue, "status", "conditions"), "Active");
      if (Number(Get(active, "observedGeneration")) != Number(At(queue, "metadata", "generation"), -1)) return false;
    }
  }
  return true;
}

// ---- operations ---------------------------------------------------------------------------------

bool Player::Do(const Json& op) {
  const std::string verb = Text(Get(op, "op"));
  if (verb == "create") {
    Create(op);
    return true;
  }
  const std::string kind = Text(Get(op, "kind"));
  std::string name = Text(Translated(Get(op, "name")));
  if (name == kAnyPod && (name = AnyRunningPod()).empty()) return false;
  const std::string target = PathOf(kind, id_, name);
  if (verb == "delete") {
    Send(op, "DELETE", target + "?propagationPolicy=" + Text(Get(op, "propagationPolicy"), "Background"), "",
         scenarios::kJson);
  } else {
    const std::string patch = WithTimes(op, target).dump();
    Send(op, "PATCH", target + (verb == "patchStatus" ? "/status" : ""), patch, kMergePatch);
  }
  return true;
}

void Player::Create(const Json& op) {
  const Json& object = Get(op, "object");
  const std::string kind = Text(Get(object, "kind"));
  const std::string name = Text(At(object, "metadata", "name"));
  if (kind == "ClusterQueue") {
    cluster_queues_.insert(name);
    if (Text(At(object, "spec", "queueingStrategy")) == "StrictFIFO") queues_.strict.insert(name);
  }
  if (kind == "LocalQueue") queues_.cluster_queue_of[name] = Text(At(object, "spec", "clusterQueue"));
  Send(op, "POST", PathOf(kind, id_), object.dump(), scenarios::kJson);
}

// An answer that is not as recorded is a finding: the API server's own rules refused some of it then, too.
void Player::Send(const Json& op, std::string_view method, const std::string& target, const std::string& body,
                  std::string_view type) {
  const Response response = world_->Call(method, target, body, type);
  const Json& refused = Get(op, "error");
  if (refused.is_null() ? response.ok() : response.code == Number(Get(refused, "code"))) return;
  findings_.push_back(id_ + " step " + std::to_string(step_) + ": " + std::string(method) + " " + target + " " + body +
                      " is answered by " + std::to_string(response.code) + " " + response.body.dump());
}

// Where the recording plays the job controller and says nothing of a stop, since the reference asks nobody.
void Player::ConfirmStops(const Objects& mine) {
  const auto jobs = mine.find("jobs");
  if (HasJobController(recording_) || jobs == mine.end()) return;
  const std::string now = FormatTime(world_->Now());
  const Json suspended = {{"type", "Suspended"},        {"status", "True"},     {"reason", "JobSuspended"},
                          {"message", "Job suspended"}, {"lastProbeTime", now}, {"lastTransitionTime", now}};
  for (const Json& job : jobs->second) {
    const std::string name = Text(At(job, "metadata", "name"));
    const Json record =
        sim::ParseJson(Text(At(job, "metadata", "annotations", "muster.dev/admission"))).value_or(Json());
    if (Text(Get(record, "state")) != "stopped" || sim::HasCondition(job, "Suspended")) continue;
    for (const Json& recorded : At(step(), "then", "jobs")) {
      // Restored already, so it counted as stopped.
      const bool over = Text(At(recorded, "metadata", "name")) == name && Flag(At(recorded, "spec", "suspend")) &&
                        At(recorded, "metadata", "annotations", "kueue.x-k8s.io/stopping").is_null();
      if (!over || Number(At(recorded, "status", "active")) != 0) continue;
      const Json patch = {{"status", {{"conditions", Json::array({suspended})}}}};
      Send(Json(), "PATCH", PathOf("Job", id_, name) + "/status", patch.dump(), kMergePatch);
    }
  }
}

std::string Player::AnyRunningPod() const {
  const Response pods = world_->Call("GET", PathOf("Pod", id_));
  for (const Json& pod : Get(pods.body, "items")) {
    if (Text(At(pod, "status", "phase")) == "Running" && At(pod, "metadata", "deletionTimestamp").is_null()) {
      return Text(At(pod, "metadata", "name"));
    }
  }
  return "";
}

Json Player::WithTimes(const Json& op, const std::string& target) const {
  std::string text = Get(op, "patch").dump();
  Replace("<time>", FormatTime(world_->Now()), &text);
  Json patch = Json::parse(text);
  // The recording says only that there is a start time; once set it stays while the Job runs.
  if (Text(Get(op, "kind")) == "Job" && At(patch, "status", "startTime").is_string()) {
    const Json job = world_->Call("GET", target).body;
    if (const Json& started = At(job, "status", "startTime"); started.is_string())
      patch["status"]["startTime"] = started;
  }
  return patch;
}

// ---- comparing ----------------------------------------------------------------------------------

Json Player::Translated(const Json& recorded) const {
  std::string text = recorded.dump();
  for (const auto& [from, to] : names_) Replace(from, to, &text);
  return Json::parse(text);
}

void Player::LearnNames(const Objects& mine) {
  const auto jobs = mine.find("jobs");
  if (jobs == mine.end()) return;
  for (const Json& recorded : At(step(), "then", "jobs")) {
    const std::string name = Text(At(recorded, "metadata", "name"));
    const std::string then = Text(At(recorded, "metadata", "uid"));
    for (const Json& job : jobs->second) {
      if (Text(At(job, "metadata", "name")) != name) continue;
      const std::string now = Text(At(job, "metadata", "uid"));
      names_[then] = now;
      names_[controller::WorkloadName("Job", "batch", name, then)] =
          controller::WorkloadName("Job", "batch", name, now);
    }
  }
}

std::pair<Json, Json> Player::Views(const Objects& mine, std::set<std::string>* rules_used) const {
  const Json recorded = Translated(step());
  Json earlier = Json::array();
  for (size_t i = 0; i < step_; ++i) {
    const Json view = ViewOf(Translated(At(Get(recording_, "steps")[i], "then")));
    earlier.insert(earlier.end(), view["events"].begin(), view["events"].end());
  }
  std::pair<Json, Json> out{ViewOf(Get(recorded, "then")), ViewOf(mine)};
  for (const Rule& rule : Rules()) {
    const std::pair<Json, Json> before = rules_used == nullptr ? std::pair<Json, Json>() : out;
    rule.apply({queues_, At(recorded, "do", "ops"), earlier}, &out.first, &out.second);
    if (rules_used != nullptr && before != out) rules_used->insert(rule.documented);
  }
  return out;
}

std::vector<std::string> Player::Compare(const Objects& mine) {
  LearnNames(mine);
  const auto [wanted, found] = Views(mine, nullptr);
  std::vector<std::string> out = Differences(wanted, found);
  events_ = before_;
  CountEvents(wanted["events"], &events_);
  CompareEvents(events_, found["events"], &out);
  return out;
}

void Player::CountEvents(const Json& wanted, Events* events) {
  std::set<std::string> texts;
  for (const Json& event : wanted) {
    const std::string text = EventText(event);
    Recorded& recorded = (*events)[text];
    recorded.steps += texts.insert(text).second ? 1 : 0;
    recorded.most += Number(Get(event, "count"));
    recorded.waiting = Text(Get(event, "type")) == "Warning";
  }
}

void Player::CompareEvents(const Events& wanted, const Json& found, std::vector<std::string>* out) {
  std::map<std::string, int64_t> counts;
  for (const Json& event : found) counts[EventText(event)] += Number(Get(event, "count"));
  for (const auto& [text, recorded] : wanted) {
    const int64_t least = recorded.waiting ? 1 : recorded.steps;
    const int64_t count = counts[text];
    if (count >= least && (recorded.waiting || count <= recorded.most)) continue;
    out->push_back("events/" + text + ": wanted " + std::to_string(least) + " to " + std::to_string(recorded.most) +
                   ", found " + std::to_string(count));
  }
  for (const auto& [text, count] : counts) {
    if (!wanted.contains(text)) out->push_back("events/" + text + ": wanted none, found " + std::to_string(count));
  }
}

std::vector<Player> PlayAll(World* world, const std::vector<Json>& recordings, const Pace& pace) {
  std::vector<Player> players;
  players.reserve(recordings.size());
  for (const Json& recording : recordings) players.emplace_back(world, recording, pace);
  while (!std::all_of(players.begin(), players.end(), [](const Player& player) { return player.done(); })) {
    world->Pass(pace.look);
    const Objects seen = Look(world);
    for (Player& player : players) player.Advance(seen);
  }
  return players;
}

}  // namespace muster::golden
