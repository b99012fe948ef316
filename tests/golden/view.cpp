#include "view.h"

#include <regex>
#include <set>

namespace muster::golden {
namespace {

constexpr const char* kObjectKinds[] = {"jobs", "workloads", "clusterQueues", "localQueues"};

// Kubernetes has its own, which tell of pods and come as its controllers happen to look.
bool IsOfKueue(const std::string& source) { return source.find("kueue") != std::string::npos; }

Json MapOf(const Json& value) { return value.is_object() ? value : Json::object(); }
Json ListOf(const Json& value) { return value.is_array() ? value : Json::array(); }

// The recordings name Workloads so.
std::string WithoutWorkloadUids(const std::string& message) {
  static const std::regex uid(R"(\(UID: [0-9a-f]{8}-[0-9a-f-]{27})");
  return std::regex_replace(message, uid, "(UID: <workload-uid>");
}

Json Conditions(const Json& list) {
  Json out = Json::object();
  for (const Json& c : list) {
    if (Text(Get(c, "type")).starts_with("muster.dev/")) continue;  // Muster's own
    out[Text(Get(c, "type"))] = {{"status", Get(c, "status")},
                                 {"reason", Get(c, "reason")},
                                 {"message", WithoutWorkloadUids(Text(Get(c, "message")))}};
  }
  return out;
}

void HideTimes(Json* value) {
  static const std::regex time("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z");
  if (value->is_string() && std::regex_match(value->get_ref<const std::string&>(), time)) *value = "<time>";
  if (value->is_structured()) {
    for (Json& item : *value) HideTimes(&item);
  }
}

Json Status(const Json& object) {
  Json out = MapOf(Get(object, "status"));
  out["conditions"] = Conditions(Get(out, "conditions"));
  for (auto& [key, value] : out.items()) {
    if (value.is_number() && key.ends_with("TimeSeconds")) value = "<seconds>";
  }
  HideTimes(&out);
  return out;
}

// Of a Job, those that are not true are there or not, as the job controller happened to look.
void DropUntrue(Json* conditions) {
  for (auto it = conditions->begin(); it != conditions->end();) {
    it = Text(Get(*it, "status")) == "True" ? std::next(it) : conditions->erase(it);
  }
}

Json Reduced(const std::string& kind, const Json& object) {
  if (kind == "clusterQueues" || kind == "localQueues") return {{"status", Status(object)}};
  const Json& meta = Get(object, "metadata");
  Json out = {{"labels", MapOf(Get(meta, "labels"))},
              {"annotations", MapOf(Get(meta, "annotations"))},
              {"finalizers", ListOf(Get(meta, "finalizers"))},
              {"ownerReferences", ListOf(Get(meta, "ownerReferences"))},
              {"spec", Get(object, "spec")},
              {"status", Status(object)}};
  HideTimes(&out["spec"]);
  if (kind == "jobs") DropUntrue(&out["status"]["conditions"]);
  return out;
}

// An object of a list may carry its name alone (queues of a recording), or its whole metadata.
std::string NameOf(const Json& object) {
  return Text(object.contains("name") ? Get(object, "name") : At(object, "metadata", "name"));
}

Json EventOf(const Json& event) {
  static const std::regex waited("was [0-9]+s");
  return {{"kind", At(event, "regarding", "kind")},
          {"name", At(event, "regarding", "name")},
          {"type", Get(event, "type")},
          {"reason", Get(event, "reason")},
          {"message", std::regex_replace(WithoutWorkloadUids(Text(Get(event, "note"))), waited, "was <n>s")},
          {"source", Get(event, "reportingController")},
          {"count", Number(At(event, "series", "count"), 1)}};
}

void Compare(const std::string& path, const Json& wanted, const Json& found, std::vector<std::string>* out) {
  if (wanted == found) return;
  if (!wanted.is_object() || !found.is_object()) {
    const auto shown = [](const Json& value) { return value.is_null() ? std::string("nothing") : value.dump(); };
    out->push_back(std::string(path).append(": wanted ").append(shown(wanted)).append(", found ").append(shown(found)));
    return;
  }
  std::set<std::string> keys;
  for (const auto& [key, value] : wanted.items()) keys.insert(key);
  for (const auto& [key, value] : found.items()) keys.insert(key);
  for (const std::string& key : keys) {
    Compare(std::string(path).append(path.empty() ? "" : "/").append(key), Get(wanted, key), Get(found, key), out);
  }
}

}  // namespace

Json ViewOf(const Json& then) {
  Json out;
  for (const char* kind : kObjectKinds) {
    out[kind] = Json::object();
    for (const Json& object : Get(then, kind)) out[kind][NameOf(object)] = Reduced(kind, object);
  }
  out["events"] = Json::array();
  for (const Json& event : Get(then, "events")) {
    if (IsOfKueue(Text(Get(event, "source")))) out["events"].push_back(event);
  }
  return out;
}

Json ViewOf(const Objects& objects) {
  Json out;
  for (const char* kind : kObjectKinds) {
    out[kind] = Json::object();
    const auto it = objects.find(kind);
    if (it == objects.end()) continue;
    for (const Json& object : it->second) out[kind][NameOf(object)] = Reduced(kind, object);
  }
  out["events"] = Json::array();
  if (const auto it = objects.find("events"); it != objects.end()) {
    for (const Json& event : it->second) {
      if (IsOfKueue(Text(Get(event, "reportingController")))) out["events"].push_back(EventOf(event));
    }
  }
  return out;
}

std::vector<std::string> Differences(const Json& wanted, const Json& found) {
  std::vector<std::string> out;
  for (const char* kind : kObjectKinds) Compare(kind, Get(wanted, kind), Get(found, kind), &out);
  return out;
}

}  // namespace muster::golden
