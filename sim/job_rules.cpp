#include "job_rules.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "object_meta.h"
#include "text.h"

namespace muster::sim {
namespace {

constexpr std::string_view kImmutable = "field is immutable";
constexpr const char* kControllerUid = "batch.kubernetes.io/controller-uid";

bool IsOneOf(std::string_view text, std::initializer_list<std::string_view> options) {
  return std::ranges::find(options, text) != options.end();
}

bool IsStringMap(std::string_view key) {
  return IsOneOf(key, {"labels", "annotations", "nodeSelector", "matchLabels", "requests", "limits"});
}

// Drops what a typed encoder leaves out: nulls, empty lists, empty strings, empty maps of strings.
void DropEmpty(Json* value, bool in_string_map) {
  if (value->is_array()) {
    for (Json& element : *value) DropEmpty(&element, /*in_string_map=*/false);
    return;
  }
  if (!value->is_object()) return;
  for (auto it = value->begin(); it != value->end();) {
    const bool string_map = IsStringMap(it.key());
    DropEmpty(&*it, string_map);
    if (it->is_null() && in_string_map) *it = "";
    const bool drop = it->is_null() || (it->is_array() && it->empty()) ||
                      (it->is_object() && it->empty() && string_map) ||
                      (it->is_string() && *it == "" && !in_string_map);
    it = drop ? value->erase(it) : std::next(it);
  }
}

// RETURNS: whether the member is absent or of that type.
bool AbsentOr(const Json& object, const char* key, bool (Json::*is_type)() const noexcept) {
  const Json& value = Get(object, key);
  return value.is_null() || (value.*is_type)();
}

void SetDefault(Json* object, const char* key, Json value) {
  if (!object->contains(key)) (*object)[key] = std::move(value);
}

void DefaultContainer(Json* container) {
  const std::string image = Text(Get(*container, "image"));
  const size_t slash = image.rfind('/');
  const size_t colon = image.find(':', slash == std::string::npos ? 0 : slash);
  const bool latest =
      image.find('@') == std::string::npos && (colon == std::string::npos || image.substr(colon + 1) == "latest");
  SetDefault(container, "imagePullPolicy", latest ? "Always" : "IfNotPresent");
  SetDefault(container, "resources", Json::object());
  SetDefault(container, "terminationMessagePath", "/dev/termination-log");
  SetDefault(container, "terminationMessagePolicy", "File");
  for (Json& port : (*container)["ports"]) SetDefault(&port, "protocol", "TCP");
  if (Get(*container, "ports").is_null()) container->erase("ports");
}

void DefaultPodSpec(Json* spec) {
  SetDefault(spec, "dnsPolicy", "ClusterFirst");
  SetDefault(spec, "restartPolicy", "Always");
  SetDefault(spec, "schedulerName", "default-scheduler");
  SetDefault(spec, "securityContext", Json::object());
  SetDefault(spec, "terminationGracePeriodSeconds", 30);
  for (const char* list : {"containers", "initContainers"}) {
    const auto it = spec->find(list);
    if (it == spec->end() || !it->is_array()) continue;
    for (Json& container : *it) {
      if (container.is_object()) DefaultContainer(&container);
    }
  }
}

void CheckLabels(const Json& labels, const std::string& field, FieldErrors* errors) {
  for (const auto& [key, value] : labels.items()) {
    const std::string text = Text(value);
    if (!IsQualifiedName(key)) errors->push_back(InvalidValue(field, key, "not a qualified name"));
    if (text.size() > 63) {
      errors->push_back(InvalidValue(field, value, "must be no more than 63 bytes"));
    } else if (!IsLabelValue(text)) {
      errors->push_back(InvalidValue(field, value, "not a label value"));
    }
  }
}

void CheckTolerations(const Json& tolerations, const std::string& field, FieldErrors* errors) {
  if (!tolerations.is_array()) return;
  for (size_t i = 0; i < tolerations.size(); ++i) {
    const Json& toleration = tolerations[i];
    const std::string at = Concat(field, "[", i, "]");
    const std::string key = Text(Get(toleration, "key"));
    const std::string op = Text(Get(toleration, "operator"), "Equal");
    const std::string effect = Text(Get(toleration, "effect"));
    if (!key.empty() && !IsQualifiedName(key))
      errors->push_back(InvalidValue(at + ".key", key, "not a qualified name"));
    if (key.empty() && op != "Exists") {
      errors->push_back(InvalidValue(at + ".operator", op,
                                     "operator must be Exists when `key` is empty, which means \"match all values and "
                                     "all keys\""));
    }
    if (!IsOneOf(op, {"Equal", "Exists"})) {
      errors->push_back(NotSupported(at + ".operator", op, {"Equal", "Exists"}));
    }
    if (op == "Exists" && !Text(Get(toleration, "value")).empty()) {
      errors->push_back(InvalidValue(at + ".operator", toleration, "value must be empty when `operator` is 'Exists'"));
    }
    if (!IsOneOf(effect, {"", "NoSchedule", "PreferNoSchedule", "NoExecute"})) {
      errors->push_back(NotSupported(at + ".effect", effect, {"NoSchedule", "PreferNoSchedule", "NoExecute"}));
    }
    if (toleration.contains("tolerationSeconds") && effect != "NoExecute") {
      errors->push_back(
          InvalidValue(at + ".effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set"));
    }
  }
}

void CheckTemplate(const Json& pod_template, FieldErrors* errors) {
  const Json& spec = Get(pod_template, "spec");
  const std::string field = "spec.template";
  CheckLabels(At(pod_template, "metadata", "labels"), field + ".labels", errors);
  CheckLabels(Get(spec, "nodeSelector"), field + ".spec.nodeSelector", errors);
  CheckTolerations(Get(spec, "tolerations"), field + ".spec.tolerations", errors);
  const Json& containers = Get(spec, "containers");
  if (!containers.is_array() || containers.empty()) errors->push_back(Required(field + ".spec.containers", ""));
  for (size_t i = 0; i < containers.size(); ++i) {
    const std::string at = Concat(field, ".spec.containers[", i, "]");
    if (Text(Get(containers[i], "name")).empty()) errors->push_back(Required(at + ".name", ""));
    if (Text(Get(containers[i], "image")).empty()) errors->push_back(Required(at + ".image", ""));
  }
  const std::string restart = Text(Get(spec, "restartPolicy"));
  if (restart.empty() || restart == "Always") {
    errors->push_back(Required(field + ".spec.restartPolicy", "valid values: \"OnFailure\", \"Never\""));
  } else if (!IsOneOf(restart, {"OnFailure", "Never"})) {
    errors->push_back(NotSupported(field + ".spec.restartPolicy", restart, {"OnFailure", "Never"}));
  }
}

void CheckNotNegative(const Json& object, const std::string& at, std::initializer_list<const char*> keys,
                      FieldErrors* errors) {
  for (const char* key : keys) {
    if (Number(Get(object, key)) < 0) {
      errors->push_back(InvalidValue(Concat(at, ".", key), Get(object, key), "must be greater than or equal to 0"));
    }
  }
}

// It must match the template, and where the server made it up, it and the template's labels must be as made.
void CheckSelector(const Json& job, FieldErrors* errors) {
  const Json& spec = Get(job, "spec");
  const Json& labels = At(spec, "template", "metadata", "labels");
  const Json& wanted = At(spec, "selector", "matchLabels");
  if (!spec.contains("selector")) errors->push_back(Required("spec.selector", ""));
  bool matches = spec.contains("selector");
  for (const auto& [key, value] : wanted.items()) matches = matches && Get(labels, key) == value;
  if (!matches) {
    errors->push_back(
        InvalidValue("spec.template.metadata.labels", labels, "`selector` does not match template `labels`"));
  }
  if (Flag(Get(spec, "manualSelector")) || !spec.contains("selector")) return;
  const std::string uid = Text(At(job, "metadata", "uid"));
  const std::string name = Text(At(job, "metadata", "name"));
  const auto must_be = [&](const char* key, const std::string& value) {
    if (Text(Get(labels, key)) == value) return;
    errors->push_back(
        InvalidValue(Concat("spec.template.metadata.labels[", key, "]"), labels, Concat("must be '", value, "'")));
  };
  for (const char* key : {"controller-uid", kControllerUid}) must_be(key, uid);
  for (const char* key : {"job-name", "batch.kubernetes.io/job-name"}) must_be(key, name);
  if (Text(Get(wanted, kControllerUid)) != uid) {
    errors->push_back(InvalidValue("spec.selector", Get(spec, "selector"), "`selector` not auto-generated"));
  }
}

bool IsIndexed(const Json& spec) { return Text(Get(spec, "completionMode")) == "Indexed"; }

// The template as it was, with what may change while suspended taken over from the new one.
Json WithMutableFields(Json old, const Json& wanted) {
  const auto take = [](Json* target, const Json& source, const char* key) {
    (*target)[key] = Get(source, key);
    if ((*target)[key].is_null()) target->erase(key);
  };
  Json& spec = old["spec"];
  const Json& wanted_spec = Get(wanted, "spec");
  for (const char* key : {"nodeSelector", "tolerations", "schedulingGates"}) take(&spec, wanted_spec, key);
  if (!old.contains("metadata")) old["metadata"] = Json::object();
  for (const char* key : {"labels", "annotations"}) take(&old["metadata"], Get(wanted, "metadata"), key);
  if (!wanted.contains("metadata") && old["metadata"].empty()) old.erase("metadata");
  // Of the affinity only the node affinity may change.
  const Json& wanted_affinity = Get(wanted_spec, "affinity");
  if (wanted_affinity.is_null()) {
    if (spec.contains("affinity")) {
      spec["affinity"].erase("nodeAffinity");
      if (spec["affinity"].empty()) spec.erase("affinity");
    }
  } else {
    take(&spec["affinity"], wanted_affinity, "nodeAffinity");
    if (spec["affinity"].is_null()) spec["affinity"] = Json::object();
  }
  for (const char* list : {"containers", "initContainers"}) {
    const Json& from = Get(wanted_spec, list);
    const auto to = spec.find(list);
    if (to == spec.end() || !from.is_array() || from.size() != to->size()) continue;
    for (size_t i = 0; i < from.size(); ++i) {
      if (Get(from[i], "name") == Get((*to)[i], "name")) take(&(*to)[i], from[i], "resources");
    }
  }
  return old;
}

// Suspended, no pod active, and never started or seen to be suspended.
bool TemplateIsMutable(const Json& job) {
  return Flag(At(job, "spec", "suspend")) && Number(At(job, "status", "active")) == 0 &&
         (At(job, "status", "startTime").is_null() || HasCondition(job, "Suspended"));
}

}  // namespace

std::string NormalizeJob(Json* job) {
  Json& spec = (*job)["spec"];
  if (spec.is_null()) spec = Json::object();
  if (!spec.is_object()) return "spec is not an object";
  Json& status = (*job)["status"];
  if (status.is_null()) status = Json::object();
  if (!status.is_object()) return "status is not an object";
  DropEmpty(&spec, /*in_string_map=*/false);
  DropEmpty(&status, /*in_string_map=*/false);
  for (const char* key :
       {"parallelism", "completions", "backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished"}) {
    if (!AbsentOr(spec, key, &Json::is_number_integer)) return Concat("spec.", key, " is not an integer");
  }
  for (const char* key : {"suspend", "manualSelector"}) {
    if (!AbsentOr(spec, key, &Json::is_boolean)) return Concat("spec.", key, " is not a boolean");
  }
  for (const char* key : {"active", "succeeded", "failed", "ready", "terminating"}) {
    if (!AbsentOr(status, key, &Json::is_number_integer)) return Concat("status.", key, " is not an integer");
  }
  if (!AbsentOr(status, "conditions", &Json::is_array)) return "status.conditions is not a list";
  for (const char* key : {"active", "succeeded", "failed"}) {
    if (Get(status, key) == 0) status.erase(key);
  }
  Json& pod_template = spec["template"];
  if (pod_template.is_null()) pod_template = Json::object();
  if (!pod_template.is_object()) return "spec.template is not an object";
  for (const char* key : {"spec", "metadata"}) {
    if (!AbsentOr(pod_template, key, &Json::is_object)) return Concat("spec.template.", key, " is not an object");
  }
  const Json& pod = Get(pod_template, "spec");
  for (const char* key : {"containers", "initContainers", "tolerations", "schedulingGates"}) {
    if (!AbsentOr(pod, key, &Json::is_array)) return Concat("spec.template.spec.", key, " is not a list");
  }
  for (const char* key : {"nodeSelector", "affinity"}) {
    if (!AbsentOr(pod, key, &Json::is_object)) return Concat("spec.template.spec.", key, " is not an object");
  }
  return "";
}

void DefaultJob(Json* job) {
  Json& spec = (*job)["spec"];
  if (!spec.contains("completions") && !spec.contains("parallelism")) spec["completions"] = 1;
  SetDefault(&spec, "parallelism", 1);
  SetDefault(&spec, "backoffLimit", 6);
  SetDefault(&spec, "completionMode", "NonIndexed");
  SetDefault(&spec, "suspend", false);
  SetDefault(&spec, "podReplacementPolicy", spec.contains("podFailurePolicy") ? "Failed" : "TerminatingOrFailed");
  SetDefault(&spec, "manualSelector", false);
  Json& pod = spec["template"]["spec"];
  if (pod.is_null()) pod = Json::object();
  DefaultPodSpec(&pod);
}

void PrepareJobForCreate(Json* job) {
  (*job)["status"] = Json::object();
  Json& meta = (*job)["metadata"];
  Json& spec = (*job)["spec"];
  const std::string uid = Text(Get(meta, "uid"));
  const std::string name = Text(Get(meta, "name"));
  if (!Flag(Get(spec, "manualSelector"))) {
    Json& labels = spec["template"]["metadata"]["labels"];
    for (const char* key : {"batch.kubernetes.io/job-name", "job-name"}) SetDefault(&labels, key, name);
    for (const char* key : {kControllerUid, "controller-uid"}) SetDefault(&labels, key, uid);
    SetDefault(&spec["selector"]["matchLabels"], kControllerUid, uid);
  }
  ShareTemplateLabels(job);
}

void ShareTemplateLabels(Json* job) {
  const Json& labels = At(*job, "spec", "template", "metadata", "labels");
  if (At(*job, "metadata", "labels").is_null() && labels.is_object()) (*job)["metadata"]["labels"] = labels;
}

FieldErrors ValidateJob(const Json& job) {
  FieldErrors errors;
  const Json& spec = Get(job, "spec");
  CheckNotNegative(spec, "spec",
                   {"parallelism", "completions", "backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished"},
                   &errors);
  const std::string mode = Text(Get(spec, "completionMode"));
  if (!IsOneOf(mode, {"NonIndexed", "Indexed"})) {
    errors.push_back(NotSupported("spec.completionMode", mode, {"Indexed", "NonIndexed"}));
  }
  if (IsIndexed(spec) && !spec.contains("completions")) {
    errors.push_back(Required("spec.completions", "when completion mode is Indexed"));
  }
  CheckTemplate(Get(spec, "template"), &errors);
  CheckSelector(job, &errors);
  return errors;
}

FieldErrors ValidateJobUpdate(const Json& job, const Json& old) {
  FieldErrors errors = ValidateJob(job);
  const Json& spec = Get(job, "spec");
  const Json& before = Get(old, "spec");
  if (Get(spec, "completions") != Get(before, "completions")) {
    if (!IsIndexed(spec)) {
      errors.push_back(InvalidValue("spec.completions", Get(spec, "completions"), kImmutable));
    } else if (spec.contains("completions") && Get(spec, "completions") != Get(spec, "parallelism")) {
      errors.push_back(InvalidValue("spec.completions", Get(spec, "completions"),
                                    "can only be modified in tandem with spec.parallelism"));
    }
  }
  for (const char* key :
       {"selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"}) {
    if (Get(spec, key) != Get(before, key)) {
      errors.push_back(InvalidValue(Concat("spec.", key), Get(spec, key), kImmutable));
    }
  }
  const Json& pod_template = Get(spec, "template");
  Json allowed = Get(before, "template");
  const bool is_mutable = TemplateIsMutable(old);
  if (is_mutable) allowed = WithMutableFields(std::move(allowed), pod_template);
  if (pod_template != allowed) {
    errors.push_back(InvalidValue(is_mutable ? "spec.template.spec" : "spec.template", pod_template, kImmutable));
  }
  return errors;
}

FieldErrors ValidateJobStatusUpdate(const Json& job, const Json& old) {
  FieldErrors errors;
  const Json& status = Get(job, "status");
  const Json& before = Get(old, "status");
  const auto fail = [&errors](const char* key, const Json& value, std::string_view why) {
    errors.push_back(InvalidValue(Concat("status.", key), value, why));
  };
  CheckNotNegative(status, "status", {"active", "succeeded", "failed", "ready", "terminating"}, &errors);
  for (const char* type : {"Failed", "Complete", "FailureTarget", "SuccessCriteriaMet"}) {
    if (HasCondition(old, type) && !HasCondition(job, type)) {
      fail("conditions", type, Concat("cannot disable the ", type, "=True condition"));
    }
  }
  for (const char* key : {"failed", "succeeded"}) {
    const bool may_shrink = std::string_view(key) == "succeeded" && IsIndexed(Get(job, "spec")) &&
                            At(job, "spec", "completions") == At(job, "spec", "parallelism");
    if (!may_shrink && Number(Get(status, key)) < Number(Get(before, key))) {
      fail(key, Get(status, key), Concat("cannot decrease the ", key, " counter"));
    }
  }
  const bool resuming = HasCondition(old, "Suspended") && !HasCondition(job, "Suspended");
  if (before.contains("startTime") && Get(before, "startTime") != Get(status, "startTime") && !resuming &&
      !Flag(At(job, "spec", "suspend"))) {
    fail("startTime", Get(status, "startTime"), "field is immutable for unsuspended job once set");
  }
  const bool complete = HasCondition(job, "Complete");
  const bool failed = HasCondition(job, "Failed");
  if (complete && failed) fail("conditions", nullptr, "cannot set Complete=True and Failed=true conditions");
  if (complete && !HasCondition(old, "Complete") && !HasCondition(job, "SuccessCriteriaMet")) {
    fail("conditions", nullptr, "cannot set Complete=True condition without the SuccessCriteriaMet=true condition");
  }
  if (failed && !HasCondition(old, "Failed") && !HasCondition(job, "FailureTarget")) {
    fail("conditions", nullptr, "cannot set Failed=True condition without the FailureTarget=true condition");
  }
  if (status.contains("completionTime") != complete &&
      (complete != HasCondition(old, "Complete") || Get(status, "completionTime") != Get(before, "completionTime"))) {
    fail("completionTime", Get(status, "completionTime"), "is set exactly where Complete=True");
  }
  if ((complete || failed) && !HasCondition(old, "Complete") && !HasCondition(old, "Failed")) {
    if (Number(Get(status, "active")) > 0)
      fail("active", Get(status, "active"), "active>0 is invalid for finished job");
    if (Number(Get(status, "terminating")) > 0) {
      fail("terminating", Get(status, "terminating"), "terminating>0 is invalid for finished job");
    }
    if (!status.contains("startTime"))
      errors.push_back(Required("status.startTime", "startTime is required for finished job"));
  }
  if (status.contains("ready") && Number(Get(status, "ready")) > Number(Get(status, "active")) &&
      (Get(status, "ready") != Get(before, "ready") || Get(status, "active") != Get(before, "active"))) {
    fail("ready", Get(status, "ready"), "cannot set more ready pods than active");
  }
  return errors;
}

}  // namespace muster::sim
