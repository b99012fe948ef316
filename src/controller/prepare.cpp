#include "prepare.h"

#include <algorithm>

#include "muster/controller/names.h"
#include "muster/core/quantity.h"
#include "text.h"

namespace muster::controller {
namespace {

// What users can ask for that is not served: better refused by name than half done.
absl::Status Unsupported(const Job& job) {
  if (job.Annotation(kElasticJobAnnotation) == "true") {
    return absl::UnimplementedError(Cat("annotation ", kElasticJobAnnotation, ": elastic Jobs are not supported"));
  }
  if (!job.Annotation(kPrebuiltWorkloadName).empty() || !job.Label(kPrebuiltWorkloadName).empty()) {
    return absl::UnimplementedError(Cat(kPrebuiltWorkloadName, ": prebuilt Workloads are not supported"));
  }
  return absl::OkStatus();
}

RequestContext ContextOf(const Job& job, const Catalog& catalog, const gang::RequestConfig& config) {
  RequestContext context;
  context.config = config;
  if (const auto it = catalog.limit_ranges.find(job.meta.ns); it != catalog.limit_ranges.end()) {
    for (const auto& [name, range] : it->second) context.limits.Add(name, range.range);
  }
  if (const auto it = catalog.runtime_classes.find(job.pod.resources.runtime_class);
      it != catalog.runtime_classes.end()) {
    context.class_overhead = &it->second.overhead;
  }
  return context;
}

}  // namespace

Prepared PrepareWorkload(const Job& job, const Catalog& catalog, const gang::RequestConfig& config,
                         gang::ShapeTable* shapes) {
  Prepared out;
  out.problem = Unsupported(job);
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
  } else {
    out.problem.Update(seconds.status());
  }

  PodTemplate pod = job.pod;
  pod.node_selector = original.view.node_selector;
  pod.tolerations = original.view.tolerations;
  ShapedPod shaped = MakeShape(pod, ContextOf(job, catalog, config), kJobPodSet);

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
  workload.invalid = std::move(shaped.invalid);
  engine::PodSet pod_set;
  pod_set.name = kJobPodSet;
  pod_set.count = original.pod_count() - ReclaimablePods(job, original);
  // Where completions follow parallelism, fewer of them would take back what has ended.
  const bool whole = CompletionsFollowParallelism(job) && job.status.ended > 0;
  if (!whole && out.min_count < pod_set.count) pod_set.min_count = out.min_count;
  pod_set.shape = shapes->Intern(std::move(shaped.shape));

  PodSetRequests requests{pod_set.name, {}};
  for (const auto& [resource, amount] : pod_set.shape->requests) {
    requests.resources.emplace(resource, FormatAmount(resource, amount * pod_set.count));
  }
  out.requests.push_back(std::move(requests));
  workload.pod_sets.push_back(std::move(pod_set));
  return out;
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
