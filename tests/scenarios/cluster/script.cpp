#include "script.h"

#include <algorithm>
#include <catch2/catch.hpp>

namespace muster::scenarios {
namespace {

// The name, without what the server made up for it.
std::string NameOf(const Json& meta) {
  const std::string prefix = Text(sim::Get(meta, "generateName"));
  const std::string name = Text(sim::Get(meta, "name"));
  if (prefix.empty() || !name.starts_with(prefix) || name.size() != prefix.size() + 5) return name;
  return prefix + "?????";
}

void Take(const Json& from, const char* key, Json* to) {
  if (from.contains(key)) (*to)[key] = from[key];
}

}  // namespace

std::string ScriptRun::Filled(std::string text) const {
  for (size_t at = text.find("${"); at != std::string::npos; at = text.find("${", at)) {
    const size_t colon = text.find(':', at);
    const size_t end = text.find('}', at);
    REQUIRE((colon < end && end != std::string::npos));
    const std::string what = text.substr(at + 2, colon - at - 2);
    const auto known = known_.find(text.substr(colon + 1, end - colon - 1));
    INFO(text);
    REQUIRE(known != known_.end());
    const Known& k = known->second;
    text.replace(at, end + 1 - at, what == "uid" ? k.uid : what == "rv" ? k.version : k.old_version);
  }
  return text;
}

void ScriptRun::ReplaceMadeUp(Json* value) const {
  if (value->is_structured()) {
    for (Json& member : *value) ReplaceMadeUp(&member);
  } else if (value->is_string()) {
    const auto known = made_up_.find(value->get<std::string>());
    if (known != made_up_.end()) *value = known->second;
  }
}

Json ScriptRun::NormalizedObject(const Json& object) {
  Json out = object;
  Json meta = Json::object();
  const Json& had = At(object, "metadata");
  const std::string name = NameOf(had);
  meta["name"] = name;
  for (const char* key : {"namespace", "labels", "annotations", "finalizers", "generation", "ownerReferences",
                          "generateName", "deletionGracePeriodSeconds"}) {
    Take(had, key, &meta);
  }
  meta["being deleted"] = had.contains("deletionTimestamp");
  Known& known = known_[name];
  const std::string uid = Text(sim::Get(had, "uid"));
  const std::string version = Text(sim::Get(had, "resourceVersion"));
  meta["uid"] = uid.empty() ? "none" : uid == known.uid ? "same" : "new";
  meta["resourceVersion"] = version.empty() ? "none" : version == known.version ? "same" : "moved";
  if (!uid.empty()) {
    if (known.uid != uid) known = {uid, "", ""};
    if (known.version != version) known.old_version = std::exchange(known.version, version);
    made_up_[uid] = "uid of " + name;
    if (name.ends_with("?")) made_up_[Text(sim::Get(had, "name"))] = name;
  }
  out["metadata"] = std::move(meta);
  ReplaceMadeUp(&out);
  return out;
}

Json ScriptRun::NormalizedStatus(const Json& status) {
  Json out = Json::object();
  for (const char* key : {"kind", "apiVersion", "status", "reason", "code"}) Take(status, key, &out);
  const Json& details = At(status, "details");
  for (const char* key : {"name", "group", "kind"}) {
    if (details.contains(key)) out["details"][key] = details[key];
  }
  std::vector<std::string> causes;
  for (const Json& cause : At(status, "details", "causes")) {
    causes.push_back(Text(sim::Get(cause, "field")) + ": " + Text(sim::Get(cause, "reason")));
  }
  std::ranges::sort(causes);
  causes.erase(std::unique(causes.begin(), causes.end()), causes.end());
  if (!causes.empty()) out["causes"] = causes;
  ReplaceMadeUp(&out);
  return out;
}

Json ScriptRun::Normalized(const Json& body) {
  if (!body.is_object()) return body;
  if (Text(sim::Get(body, "kind")) == "Status") return NormalizedStatus(body);
  if (!body.contains("items")) return NormalizedObject(body);
  Json out = {{"kind", body["kind"]}, {"apiVersion", body["apiVersion"]}, {"items", Json::array()}};
  for (const Json& item : body["items"]) out["items"].push_back(NormalizedObject(item));
  Take(body["metadata"], "remainingItemCount", &out);
  out["more"] = !Text(At(body, "metadata", "continue")).empty();
  if (out["more"] == true) known_["the list"].version = Text(body["metadata"]["continue"]);
  return out;
}

Json ScriptRun::Run(const Step& step) {
  const Response response = api_->Call(step.method, Filled(step.target), Filled(step.body), step.type);
  return {{"code", response.code}, {"body", Normalized(response.body)}, {"message", At(response.body, "message")}};
}

}  // namespace muster::scenarios
