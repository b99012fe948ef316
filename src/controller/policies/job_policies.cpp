// Policies on batch/v1 Jobs. A Job is queued if its label kueue.x-k8s.io/queue-name is not empty. Labels and
// annotations are judged where they are written and left alone later, so that controllers can always finish a Job.

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include "policies/policy.h"

namespace muster::controller {
namespace {

constexpr char kQueueOf[] = "metadata.?labels[?'kueue.x-k8s.io/queue-name'].orValue('')";
constexpr char kRecordOf[] = "metadata.?annotations[?'muster.dev/admission']";

PolicySpec OnJobs(std::string name, std::vector<std::string> operations) {
  PolicySpec spec;
  spec.name = std::move(name);
  spec.group = "batch";
  spec.versions = {"v1"};
  spec.operations = std::move(operations);
  spec.resources = {"jobs"};
  return spec;
}

// Who may write the status of a Job writes its labels and annotations along with it.
void AlsoByStatus(PolicySpec* spec) { spec->resources.emplace_back("jobs/status"); }

PolicyParam DefaultLocalQueue() { return {"kueue.x-k8s.io/v1beta2", "LocalQueue", "default", ""}; }

// CEL: whether `object` has a parent that is queued in its place, by its controller owner.
std::string HasParent(const PolicyOptions& options, std::string_view object, std::string_view and_also = "") {
  if (options.parents.empty()) return "false";
  std::vector<std::string> parents;
  for (const ParentController& p : options.parents) {
    parents.push_back(absl::StrCat("{'user': ", CelString(p.user), ", 'group': ", CelString(p.group),
                                   ", 'kind': ", CelString(p.kind), "}"));
  }
  return absl::StrCat(
      "[", absl::StrJoin(parents, ",\n "), "].exists(p, ", std::string(and_also), "\n  ", std::string(object),
      R"(.metadata.?ownerReferences.orValue([]).exists(r, r.?controller.orValue(false) && r.kind == p.kind &&
    r.apiVersion.startsWith(p.group + '/'))))");
}

// CEL: whether the Job is being written by the controller of a parent that is queued in its place.
std::string IsChild(const PolicyOptions& options) {
  return HasParent(options, "object", "p.user == request.userInfo.username &&");
}

PolicySpec Suspend(const PolicyOptions& options) {
  PolicySpec spec = OnJobs("muster-jobs", {"CREATE"});
  const std::string queued =
      options.manage_jobs_without_queue_name ? "" : absl::StrCat("object.", kQueueOf, " != '' && ");
  const std::string recorded = absl::StrCat("object.", kRecordOf, ".hasValue()");
  const std::string runs = absl::StrCat(queued, "!object.spec.?suspend.orValue(false)");
  spec.conditions = {{"runs-or-recorded", absl::StrCat(runs, " ||\n", recorded)}};
  spec.variables = {{"child", IsChild(options)}, {"suspends", absl::StrCat("!variables.child &&\n", runs)}};
  // A record in a manifest or a CronJob's template is a copy of another Job's.
  spec.json_patch = absl::StrCat(R"((variables.suspends ?
  [JSONPatch{op: "add", path: "/spec/suspend", value: true}] : []) +
()",
                                 recorded, R"( ?
  [JSONPatch{op: "remove", path: "/metadata/annotations/muster.dev~1admission"}] : []))");
  return spec;
}

// Jobs without the label: those that have it, before and after, are passed over at no cost.
Node::Map Without(std::string label) {
  return {{"matchExpressions", Node::List{Node::Map{{"key", std::move(label)}, {"operator", "DoesNotExist"}}}}};
}
Node::Map WithoutQueue() { return Without("kueue.x-k8s.io/queue-name"); }

// `selector`: the Jobs that have no queue.
PolicySpec DefaultQueue(const PolicyOptions& options, std::string name, Node::Map selector) {
  PolicySpec spec = OnJobs(std::move(name), {"CREATE"});
  spec.param = DefaultLocalQueue();
  spec.object_selector = std::move(selector);
  spec.variables = {
      {"child", IsChild(options)},
      // A held queue takes no Jobs by default, as in Kueue.
      {"open", "params.spec.?stopPolicy.orValue('None') == 'None'"},
  };
  spec.json_patch = R"(variables.open && !variables.child ?
  [has(object.metadata.labels) ?
    JSONPatch{op: "add", path: "/metadata/labels/kueue.x-k8s.io~1queue-name", value: "default"} :
    JSONPatch{op: "add", path: "/metadata/labels", value: {"kueue.x-k8s.io/queue-name": "default"}},
   JSONPatch{op: "add", path: "/spec/suspend", value: true}] : [])";
  return spec;
}

// A WorkloadPriorityClass named default, for queued Jobs that name none.
PolicySpec DefaultPriority(const PolicyOptions& options) {
  PolicySpec spec = OnJobs("muster-jobs-default-priority", {"CREATE"});
  spec.param = {"kueue.x-k8s.io/v1beta2", "WorkloadPriorityClass", "default", ""};
  spec.object_selector = Without("kueue.x-k8s.io/priority-class");
  // The queue may be a default itself, and given after this was asked: only what was asked before is asked again, so
  // that this is no match condition.
  spec.reinvoked = !options.manage_jobs_without_queue_name;
  spec.variables = {{"child", IsChild(options)},
                    {"queued", options.manage_jobs_without_queue_name ? std::string("true")
                                                                      : absl::StrCat("object.", kQueueOf, " != ''")}};
  spec.json_patch = R"(!variables.queued || variables.child ? [] :
  [has(object.metadata.labels) ?
    JSONPatch{op: "add", path: "/metadata/labels/kueue.x-k8s.io~1priority-class", value: "default"} :
    JSONPatch{op: "add", path: "/metadata/labels", value: {"kueue.x-k8s.io/priority-class": "default"}}])";
  return spec;
}

// The pods of an elastic Job start one by one, as they are admitted.
PolicySpec Elastic(const PolicyOptions& options) {
  PolicySpec spec = OnJobs("muster-jobs-elastic", {"CREATE"});
  spec.conditions.emplace_back("elastic",
                               "object.metadata.?annotations[?'kueue.x-k8s.io/elastic-job'].orValue('') == 'true'");
  // As above: the queue may be a default itself.
  spec.reinvoked = !options.manage_jobs_without_queue_name;
  spec.variables = {{"child", IsChild(options)},
                    {"queued", options.manage_jobs_without_queue_name ? std::string("true")
                                                                      : absl::StrCat("object.", kQueueOf, " != ''")},
                    {"gated", R"(object.spec.template.spec.?schedulingGates.orValue([]).exists(g,
  g.name == 'kueue.x-k8s.io/elastic-job'))"}};
  spec.json_patch = R"(!variables.queued || variables.child || variables.gated ? [] :
  [has(object.spec.template.spec.schedulingGates) ?
    JSONPatch{op: "add", path: "/spec/template/spec/schedulingGates/-", value: {"name": "kueue.x-k8s.io/elastic-job"}} :
    JSONPatch{op: "add", path: "/spec/template/spec/schedulingGates",
              value: [{"name": "kueue.x-k8s.io/elastic-job"}]}])";
  return spec;
}

std::vector<NamedExpression> JobVariables(const PolicyOptions& options) {
  return {
      {"labels", "object.metadata.?labels.orValue({})"},
      {"notes", "object.metadata.?annotations.orValue({})"},
      {"oldLabels", "oldObject == null ? {} : oldObject.metadata.?labels.orValue({})"},
      {"oldNotes", "oldObject == null ? {} : oldObject.metadata.?annotations.orValue({})"},
      {"record", "variables.notes[?'muster.dev/admission'].orValue('')"},
      {"startedWith", "object.spec.template.?metadata.?annotations[?'kueue.x-k8s.io/workload'].orValue('')"},
      {"oldStartedWith",
       R"(oldObject == null ? '' :
  oldObject.spec.template.?metadata.?annotations[?'kueue.x-k8s.io/workload'].orValue(''))"},
      {"oldRecord", "variables.oldNotes[?'muster.dev/admission'].orValue('')"},
      {"queue", "variables.labels[?'kueue.x-k8s.io/queue-name'].orValue('')"},
      {"oldQueue",
       "oldObject == null ? variables.queue : variables.oldLabels[?'kueue.x-k8s.io/queue-name'].orValue('')"},
      {"managed",
       options.manage_jobs_without_queue_name ? "true" : "variables.queue != '' || variables.oldQueue != ''"},
      {"suspended", "object.spec.?suspend.orValue(false)"},
      // A Job that is being created counts as suspended before.
      {"wasSuspended", "oldObject == null || oldObject.spec.?suspend.orValue(false)"},
      {"child", IsChild(options)},
      {"done",
       R"(oldObject != null && oldObject.?status.?conditions.orValue([]).exists(c,
  c.type in ['Complete', 'Failed'] && c.status == 'True'))"},
      {"maxTime", "variables.labels[?'kueue.x-k8s.io/max-exec-time-seconds'].orValue('')"},
      {"oldMaxTime",
       "oldObject == null ? '' : variables.oldLabels[?'kueue.x-k8s.io/max-exec-time-seconds'].orValue('')"},
      {"priority", "variables.labels[?'kueue.x-k8s.io/priority-class'].orValue('')"},
      {"oldPriority", "variables.oldLabels[?'kueue.x-k8s.io/priority-class'].orValue('')"},
      {"prebuilt",
       R"(variables.notes[?'kueue.x-k8s.io/prebuilt-workload-name'].orValue(
  variables.labels[?'kueue.x-k8s.io/prebuilt-workload-name'].orValue('')))"},
      {"oldPrebuilt",
       R"(variables.oldNotes[?'kueue.x-k8s.io/prebuilt-workload-name'].orValue(
  variables.oldLabels[?'kueue.x-k8s.io/prebuilt-workload-name'].orValue('')))"},
      {"least", "variables.notes[?'kueue.x-k8s.io/job-min-parallelism'].orValue('')"},
      {"oldLeast", "variables.oldNotes[?'kueue.x-k8s.io/job-min-parallelism'].orValue('')"},
      {"parallelism", "object.spec.?parallelism.orValue(1)"},
      {"oldParallelism", "oldObject == null ? variables.parallelism : oldObject.spec.?parallelism.orValue(1)"},
      {"completions", "object.spec.?completions.orValue(variables.parallelism)"},
      {"pods", "variables.completions < variables.parallelism ? variables.completions : variables.parallelism"},
      {"equal", "variables.notes[?'kueue.x-k8s.io/job-completions-equal-parallelism'].orValue('')"},
      {"oldEqual", "variables.oldNotes[?'kueue.x-k8s.io/job-completions-equal-parallelism'].orValue('')"},
      {"isEqual", "variables.equal in ['1', 't', 'T', 'true', 'TRUE', 'True']"},
      {"elastic", "variables.notes[?'kueue.x-k8s.io/elastic-job'].orValue('') == 'true'"},
      {"oldElastic", "variables.oldNotes[?'kueue.x-k8s.io/elastic-job'].orValue('') == 'true'"},
  };
}

// What keeps starting, stopping and queueing in Muster's hands.
std::vector<Rule> Ownership() {
  return {
      {"variables.record == variables.oldRecord",
       R"('metadata.annotations[muster.dev/admission]: is written by Muster alone; ' +
(oldObject == null ? 'remove it from the manifest' : 'keep the stored value'))"},
      // It tells which admission a Job was started with; a child's comes with its parent's template.
      {R"(variables.startedWith == '' || variables.startedWith == variables.oldStartedWith || variables.child)",
       R"('spec.template.metadata.annotations[kueue.x-k8s.io/workload]: "' + variables.startedWith +
'" is written by Muster alone; ' + (oldObject == null ? 'remove it from the manifest' : 'keep the stored value'))"},
      {"!variables.managed || !variables.wasSuspended || variables.suspended || variables.child",
       R"(oldObject == null ?
  'spec.suspend: must be true in a new Job with the queue name "' + variables.queue + '"; Muster starts it' :
  'spec.suspend: cannot be set to false, the Job waits in LocalQueue "' + variables.oldQueue +
  '"; Muster starts it')"},
      {"variables.wasSuspended || variables.done || variables.queue == variables.oldQueue",
       R"('metadata.labels[kueue.x-k8s.io/queue-name]: cannot change from "' + variables.oldQueue + '" to "' +
variables.queue + '" while the Job runs; suspend it first')"},
      {R"(!variables.wasSuspended || variables.done || variables.queue != '' || variables.oldQueue == '' ||
!variables.oldRecord.contains('"state":"started"'))",
       R"('metadata.labels[kueue.x-k8s.io/queue-name]: "' + variables.oldQueue + '" cannot be removed while the Job is ' +
'admitted; set spec.active of its Workload to false first')"},
  };
}

std::vector<Rule> LabelRules() {
  return {
      {R"((oldObject != null && variables.queue == variables.oldQueue) ||
!('kueue.x-k8s.io/queue-name' in variables.labels) ||
variables.queue.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$'))",
       R"('metadata.labels[kueue.x-k8s.io/queue-name]: "' + variables.queue + '" cannot name a LocalQueue: use lower-case ' +
'letters, digits, - and ., and begin and end with a letter or digit')"},
      {R"((oldObject != null && variables.maxTime == variables.oldMaxTime) ||
!('kueue.x-k8s.io/max-exec-time-seconds' in variables.labels) ||
(variables.maxTime.matches('^0*[1-9][0-9]{0,9}$') && int(variables.maxTime) <= 2147483647))",
       R"('metadata.labels[kueue.x-k8s.io/max-exec-time-seconds]: "' + variables.maxTime +
'" is not a whole number of seconds from 1 to 2147483647')"},
      {R"(oldObject == null || variables.maxTime == variables.oldMaxTime ||
(variables.suspended && variables.wasSuspended))",
       R"('metadata.labels[kueue.x-k8s.io/max-exec-time-seconds]: cannot change from "' + variables.oldMaxTime + '" to "' +
variables.maxTime + '" unless the Job is suspended')"},
      {"oldObject == null || variables.oldPriority == '' || variables.priority != ''",
       R"('metadata.labels[kueue.x-k8s.io/priority-class]: "' + variables.oldPriority +
'" can be replaced by another class but not removed')"},
      {"oldObject == null || variables.suspended || variables.oldPriority != '' || variables.priority == ''",
       R"('metadata.labels[kueue.x-k8s.io/priority-class]: "' + variables.priority + '" cannot be added while the Job runs')"},
      {"oldObject == null || variables.suspended || variables.prebuilt == variables.oldPrebuilt",
       R"('metadata.annotations[kueue.x-k8s.io/prebuilt-workload-name]: cannot change from "' + variables.oldPrebuilt +
'" to "' + variables.prebuilt + '" while the Job runs')"},
      {R"(variables.prebuilt == '' || (oldObject != null && variables.prebuilt == variables.oldPrebuilt) ||
(variables.prebuilt.size() <= 253 &&
 variables.prebuilt.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')))",
       R"('metadata.annotations[kueue.x-k8s.io/prebuilt-workload-name]: "' + variables.prebuilt + '" cannot name a Workload')"},
  };
}

// Partial admission and elastic Jobs.
std::vector<Rule> SizeRules() {
  return {
      {R"(!('kueue.x-k8s.io/job-min-parallelism' in variables.notes) ||
(oldObject != null && variables.least == variables.oldLeast) ||
(variables.least.matches('^0*[1-9][0-9]{0,8}$') && int(variables.least) < variables.pods))",
       R"('metadata.annotations[kueue.x-k8s.io/job-min-parallelism]: "' + variables.least +
'" is not a whole number greater than 0 and less than the Job\'s pods, ' + string(variables.pods))"},
      {"!('kueue.x-k8s.io/job-min-parallelism' in variables.notes) || !variables.elastic",
       R"('metadata.annotations[kueue.x-k8s.io/job-min-parallelism]: "' + variables.least +
'" cannot be used together with kueue.x-k8s.io/elastic-job')"},
      {R"(oldObject == null || variables.wasSuspended || variables.oldLeast == '' ||
variables.parallelism == variables.oldParallelism)",
       R"('spec.parallelism: cannot change from ' + string(variables.oldParallelism) + ' to ' +
string(variables.parallelism) + ' while the Job runs with kueue.x-k8s.io/job-min-parallelism')"},
      {R"(!('kueue.x-k8s.io/job-completions-equal-parallelism' in variables.notes) ||
(oldObject != null && variables.equal == variables.oldEqual) || variables.isEqual ||
variables.equal in ['0', 'f', 'F', 'false', 'FALSE', 'False'])",
       R"('metadata.annotations[kueue.x-k8s.io/job-completions-equal-parallelism]: "' + variables.equal +
'" is neither true nor false')"},
      {R"(!variables.isEqual || (oldObject != null && variables.equal == variables.oldEqual) ||
object.spec.?completionMode.orValue('NonIndexed') == 'Indexed')",
       R"('metadata.annotations[kueue.x-k8s.io/job-completions-equal-parallelism]: "' + variables.equal +
'" needs spec.completionMode Indexed')"},
      {R"(!variables.isEqual || !variables.suspended || object.spec.?completions.orValue(1) == variables.parallelism ||
(oldObject != null && variables.equal == variables.oldEqual && variables.parallelism == variables.oldParallelism &&
 object.spec.?completions.orValue(-1) == oldObject.spec.?completions.orValue(-1)))",
       R"('spec.completions: ' + string(object.spec.?completions.orValue(1)) + ' must equal spec.parallelism, ' +
string(variables.parallelism) + ', with kueue.x-k8s.io/job-completions-equal-parallelism')"},
      {"oldObject == null || variables.wasSuspended || variables.suspended || variables.equal == variables.oldEqual",
       R"('metadata.annotations[kueue.x-k8s.io/job-completions-equal-parallelism]: cannot change from "' +
variables.oldEqual + '" to "' + variables.equal + '" while the Job runs')"},
      {"oldObject == null || variables.elastic == variables.oldElastic",
       R"('metadata.annotations[kueue.x-k8s.io/elastic-job]: cannot change to ' + string(variables.elastic) +
' once the Job exists')"},
  };
}

// The controller knows a child by its owner alone (IsManaged in controller/prepare.h) and leaves it alone: nobody
// else may make a Job look like one.
Rule ChildrenAreTheParents() {
  return {
      R"(!variables.hasParent || variables.child ||
(oldObject != null && variables.hadParent && variables.queue == variables.oldQueue))",
      R"('metadata.ownerReferences: only the controller of this owner may create or queue Jobs for it, since the owner ' +
'is queued in their place; remove the reference, or the queue name "' + variables.queue + '"')"};
}

PolicySpec Guard(const PolicyOptions& options) {
  PolicySpec spec = OnJobs("muster-jobs", {"CREATE", "UPDATE"});
  AlsoByStatus(&spec);
  // Muster's own writes are let through here, before anything else is computed: it makes one for each start.
  spec.conditions.emplace_back("others", FromOthers(options));
  spec.conditions.emplace_back("not-status-alone", R"(request.?subResource.orValue('') == '' ||
object.metadata.?labels != oldObject.metadata.?labels ||
object.metadata.?annotations != oldObject.metadata.?annotations)");
  if (!options.manage_jobs_without_queue_name) {
    spec.conditions.emplace_back("queued-or-recorded",
                                 absl::StrCat("[object, oldObject].exists(o, o != null && (o.", kQueueOf,
                                              " != '' ||\n  o.", kRecordOf, ".hasValue()))"));
  }
  spec.variables = JobVariables(options);
  for (auto* rules : {&Ownership, &LabelRules, &SizeRules}) {
    for (Rule& rule : rules()) spec.rules.push_back(std::move(rule));
  }
  if (!options.parents.empty()) {
    spec.variables.push_back({"hasParent", HasParent(options, "object")});
    spec.variables.push_back({"hadParent", absl::StrCat("oldObject != null && ", HasParent(options, "oldObject"))});
    spec.rules.push_back(ChildrenAreTheParents());
  }
  return spec;
}

// In a namespace with a default queue a Job cannot leave by losing its label: the next one without would not.
PolicySpec KeepQueue() {
  PolicySpec spec = OnJobs("muster-jobs-default-queue", {"UPDATE"});
  AlsoByStatus(&spec);
  spec.param = DefaultLocalQueue();
  spec.object_selector = WithoutQueue();
  spec.conditions = {{"leaves", absl::StrCat("oldObject.", kQueueOf, " != '' &&\nobject.", kQueueOf, " == ''")}};
  spec.rules = {{"params.spec.?stopPolicy.orValue('None') != 'None'",
                 absl::StrCat(R"('metadata.labels[kueue.x-k8s.io/queue-name]: "' +
oldObject.)",
                              kQueueOf,
                              R"( +
'" cannot be removed in a namespace with a LocalQueue named default')")}};
  return spec;
}

// A start that a former leader decided on and that was held up on its way. Claims begin with the term of the leader
// that made them (engine/objects.h), which is the number of the Lease's transitions plus one. A Job that is started
// again under the claim it has is no new decision, and its patch tests the record. While nobody holds the Lease nobody
// has decided anything since: whoever takes it reads what was started until then.
PolicySpec Fence(const PolicyOptions& options) {
  const auto claim_in = [](std::string_view object) {
    return absl::StrCat(std::string(object), ".", kRecordOf, R"(.orValue('').find('"claim":"[^"]*'))");
  };
  PolicySpec spec = OnJobs("muster-fence", {"UPDATE"});
  spec.param = {"coordination.k8s.io/v1", "Lease", options.lease_name, options.lease_namespace};
  spec.conditions = {
      {"muster", absl::StrCat("request.userInfo.username == ", OwnUser(options))},
      {"starts", "oldObject.spec.?suspend.orValue(false) && !object.spec.?suspend.orValue(false)"},
  };
  spec.variables = {
      {"claim", claim_in("object")},
      {"oldClaim", claim_in("oldObject")},
      {"term", "string(params.spec.?leaseTransitions.orValue(0) + 1)"},
  };
  spec.rules = {{R"(params.spec.?holderIdentity.orValue('') == '' || variables.claim == variables.oldClaim ||
variables.claim.startsWith('"claim":"' + variables.term + '-'))",
                 R"('metadata.annotations[muster.dev/admission]: ' + variables.claim +
'" was decided on by a former leader; the term now is ' + variables.term)"}};
  return spec;
}

}  // namespace

std::vector<PolicySpec> JobPolicies(const PolicyOptions& options) {
  // An empty name is no queue, but no selector says "absent or empty".
  const Node::Map empty_label{{"matchLabels", Node::Map{{"kueue.x-k8s.io/queue-name", ""}}}};
  std::vector<PolicySpec> out{Suspend(options),
                              DefaultQueue(options, "muster-jobs-default-queue", WithoutQueue()),
                              DefaultQueue(options, "muster-jobs-default-queue-empty", empty_label),
                              DefaultPriority(options),
                              Elastic(options),
                              Guard(options),
                              KeepQueue()};
  if (options.fence) out.push_back(Fence(options));
  return out;
}

}  // namespace muster::controller
