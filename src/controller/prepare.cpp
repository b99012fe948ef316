#include "prepare.h"

#include <algorithm>

#include "muster/controller/names.h"
#include "muster/core/quantity.h"
#include "muster/engine/totals.h"
#include "text.h"

namespace muster::controller {
namespace {

// What an elastic Job must not have, and what it must. Source: kueue_semantics 2.1, 2.2.
absl::Status CheckElastic(const Job& job) {
  if (!job.elastic()) return absl::OkStatus();
  for (const std::string_view other : {kMinParallelismAnnotation, kPrebuiltWorkloadName}) {
    const std::string_view value = other == kPrebuiltWorkloadName ? job.prebuilt() : job.Annotation(other);
    if (value.empty()) continue;
    return absl::InvalidArgumentError(
        Cat("annotation ", other, ": \"", value, "\" cannot be used together with ", kElasticJobAnnotation));
  }
  if (job.gated) return absl::OkStatus();
  return absl::InvalidArgumentError(Cat("spec.template.spec.schedulingGates: ", kElasticJobAnnotation,
                                        " is missing; the policy muster-jobs-elastic adds it to elastic Jobs that are "
                                        "made with a queue name"));
}

absl::Status CheckMovable(std::string_view mark) {
  if (mark.empty() || mark == "true" || mark == "false") return absl::OkStatus();
  return absl::InvalidArgumentError(
      Cat("annotation ", kMovableAnnotation, ": \"", mark, "\" must be \"true\" or \"false\""));
}

RequestContext ContextOf(const std::string& ns, const PodTemplate& pod, const Catalog& catalog,
                         const gang::RequestConfig& config) {
  RequestContext context;
  context.config = config;
  if (const auto it = catalog.limit_ranges.find(ns); it != catalog.limit_ranges.end()) {
    for (const auto& [name, range] : it->second) context.limits.Add(name, range.range);
  }
  if (const auto it = catalog.runtime_classes.find(pod.resources.runtime_class); it != catalog.runtime_classes.end()) {
    context.class_overhead = &it->second.overhead;
  }
  context.charged = catalog.charges_pods;
  const PriorityClass* by_default = GlobalDefault(catalog.pod_priority_classes);
  if (context.charged && by_default != nullptr) context.default_priority_class = by_default->meta.name;
  return context;
}

// `pods`: of which it asks for the requests.
void AddPodSet(std::string_view name, int32_t pods, std::optional<int32_t> min_count, gang::TopologyRequest topology,
               ShapedPod shaped, gang::ShapeTable* shapes, Prepared* out) {
  engine::PodSet pod_set;
  pod_set.name = name;
  pod_set.count = pods;
  pod_set.min_count = min_count;
  pod_set.topology = std::move(topology);
  pod_set.shape = shapes->Intern(std::move(shaped.shape));
  PodSetRequests requests{pod_set.name, {}};
  for (const auto& [resource, amount] : pod_set.shape->requests) {
    requests.resources.emplace(resource, FormatAmount(resource, amount * pod_set.count));
  }
  std::vector<engine::Obstacle>& invalid = out->workload.invalid;
  invalid.insert(invalid.end(), shaped.invalid.begin(), shaped.invalid.end());
  out->requests.push_back(std::move(requests));
  out->workload.pod_sets.push_back(std::move(pod_set));
}

}  // namespace

Prepared PrepareWorkload(const Job& job, const Catalog& catalog, const gang::RequestConfig& config,
                         gang::ShapeTable* shapes) {
  Prepared out;
  out.problem = CheckElastic(job);
  const JobShape original = OriginalShape(job);
  if (auto priority = ResolvePriority(job, catalog.workload_priority_classes, catalog.pod_priority_classes);
      priority.ok()) {
    out.priority = *std::move(priority);
  } else {
    out.problem.Update(priority.status());
  }
  if (auto min_count = MinParallelism(job); min_count.ok()) {
    out.min_count = *min_count;
  } else {
    out.problem.Update(min_count.status());
  }
  if (auto seconds = MaxExecutionSeconds(job); seconds.ok()) {
    out.max_execution_seconds = *seconds;
    if (seconds->has_value()) out.workload.max_execution = SecondsClamped(**seconds);
  } else {
    out.problem.Update(seconds.status());
  }

  gang::TopologyRequest topology;
  if (auto request = TopologyRequestOf(job); request.ok()) {
    topology = *std::move(request);
  } else {
    out.problem.Update(request.status());
  }

  PodTemplate pod = job.pod;
  pod.node_selector = original.view.node_selector;
  pod.tolerations = original.view.tolerations;
  ShapedPod shaped = MakeShape(pod, ContextOf(job.meta.ns, pod, catalog, config), kJobPodSet);

  engine::Workload& workload = out.workload;
  workload.uid = job.meta.uid;
  workload.ns = job.meta.ns;
  workload.name = job.meta.name;
  workload.local_queue = job.queue_name();
  workload.generation = job.meta.generation;
  workload.priority = out.priority.value;
  if (out.priority.ref.has_value()) workload.priority_class = out.priority.ref->name;
  workload.queue_time = job.meta.creation;
  workload.gated_by = job.Annotation(kAdmissionGatedByAnnotation);
  const std::string_view movable = job.Annotation(kMovableAnnotation);
  workload.movable = movable == "true";
  out.problem.Update(CheckMovable(movable));
  const int32_t pods = original.pod_count() - ReclaimablePods(job, original);
  // Where completions follow parallelism, fewer of them would take back what has ended.
  const bool whole = CompletionsFollowParallelism(job) && job.status.ended > 0;
  AddPodSet(kJobPodSet, pods, !whole && out.min_count < pods ? out.min_count : std::nullopt, std::move(topology),
            std::move(shaped), shapes, &out);
  return out;
}

bool IsMovable(const Workload& object) {
  const auto mark = object.meta.annotations.find(kMovableAnnotation);
  return mark != object.meta.annotations.end() && mark->second == "true";
}

Prepared PrepareWorkload(const Workload& object, const engine::Admission* held, const Catalog& catalog,
                         const gang::RequestConfig& config, gang::ShapeTable* shapes) {
  Prepared out;
  out.priority = {object.spec.priority, object.spec.priority_class};
  out.max_execution_seconds = object.spec.max_execution_seconds;
  if (out.max_execution_seconds.has_value()) out.workload.max_execution = SecondsClamped(*out.max_execution_seconds);
  engine::Workload& workload = out.workload;
  workload.uid = object.meta.uid;
  workload.ns = object.meta.ns;
  workload.name = object.meta.name;
  workload.local_queue = object.spec.queue_name;
  workload.generation = object.meta.generation;
  workload.priority = object.spec.priority;
  if (object.spec.priority_class.has_value()) workload.priority_class = object.spec.priority_class->name;
  workload.queue_time = QueueTime(object.meta.creation, object.status);
  workload.active = object.active;
  if (const auto gate = object.meta.annotations.find(kAdmissionGatedByAnnotation);
      gate != object.meta.annotations.end()) {
    workload.gated_by = gate->second;
  }
  workload.movable = IsMovable(object);
  if (const auto mark = object.meta.annotations.find(kMovableAnnotation); mark != object.meta.annotations.end()) {
    out.problem = CheckMovable(mark->second);
  }
  workload.preemption_gates = ClosedGates(object.preemption_gates, object.status.preemption_gates);
  for (const PodSetTemplate& pod_set : object.templates) {
    int32_t pods = pod_set.count;
    if (held != nullptr) {
      for (const engine::PodSetAssignment& assigned : held->pod_sets) {
        if (assigned.name == pod_set.name) pods = assigned.count;
      }
    }
    const auto done = object.status.reclaimable_pods.find(pod_set.name);
    if (done != object.status.reclaimable_pods.end()) pods -= std::min(done->second, pods);
    ShapedPod shaped = MakeShape(pod_set.pod, ContextOf(object.meta.ns, pod_set.pod, catalog, config), pod_set.name);
    AddPodSet(pod_set.name, pods, pod_set.min_count, pod_set.topology, std::move(shaped), shapes, &out);
  }
  return out;
}

void TakeFromPrebuilt(const Job& job, const Workload& object, const Catalog& catalog, const gang::RequestConfig& config,
                      gang::ShapeTable* shapes, Prepared* out) {
  if (object.templates.size() != 1) return;
  const Prepared from = PrepareWorkload(object, nullptr, catalog, config, shapes);
  const PodTemplate& pod = object.templates.front().pod;
  const engine::PodSet own = out->workload.pod_sets.front();
  out->workload.pod_sets.clear();
  out->workload.invalid.clear();
  out->requests.clear();
  AddPodSet(own.name, own.count, own.min_count, object.templates.front().topology,
            MakeShape(pod, ContextOf(object.meta.ns, pod, catalog, config), own.name), shapes, out);
  out->workload.queue_time = from.workload.queue_time;
  if (out->workload.local_queue.empty()) out->workload.local_queue = from.workload.local_queue;
  if (out->workload.gated_by.empty()) out->workload.gated_by = from.workload.gated_by;
  if (job.Annotation(kMovableAnnotation).empty()) {
    out->workload.movable = from.workload.movable;
    out->problem.Update(from.problem);
  }
  if (!job.Label(kPriorityClassLabel).empty()) return;
  out->priority = from.priority;
  out->workload.priority = from.workload.priority;
  out->workload.priority_class = from.workload.priority_class;
}

int64_t PodsHeld(const engine::Admission& admission, const Prepared* prepared) {
  int64_t pods = 0;
  for (const engine::PodSetAssignment& assigned : admission.pod_sets) {
    int32_t needed = assigned.count;
    if (prepared != nullptr) {
      for (const engine::PodSet& pod_set : prepared->workload.pod_sets) {
        if (pod_set.name == assigned.name) needed = pod_set.count;
      }
    }
    pods += engine::StillHeld(assigned, needed).first;
  }
  return pods;
}

bool RunByJobController(const Job& job) {
  return job.managed_by.empty() || job.managed_by == "kubernetes.io/job-controller";
}

bool InManagedNamespace(const Job& job, const Catalog& catalog, const Options& options) {
  const auto ns = catalog.namespaces.find(job.meta.ns);
  return ns != catalog.namespaces.end() && options.managed_jobs_namespace_selector.Matches(ns->second);
}

bool IsManaged(const Job& job, const Catalog& catalog, const Options& options) {
  if (job.queue_name().empty() && !options.manage_jobs_without_queue_name) return false;
  if (!InManagedNamespace(job, catalog, options)) return false;
  const k8s::OwnerReference* owner = job.meta.Controller();
  if (owner == nullptr) return true;
  const std::string_view group = std::string_view(owner->api_version).substr(0, owner->api_version.find('/'));
  return std::none_of(options.parents.begin(), options.parents.end(),
                      [&](const ParentController& p) { return p.group == group && p.kind == owner->kind; });
}

}  // namespace muster::controller
