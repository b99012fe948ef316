#include "list.h"

#include "muster/k8s_client/resources.h"

namespace muster::bench {

Lists::Kind::Kind(Environment env, k8s::Client* client, const k8s::Resource& resource, std::function<void()> listed)
    : listed_(std::move(listed)), reflector_(env, client, resource, k8s::InformerOptions{}, this) {}

void Lists::Kind::Upsert(std::string_view json) {
  ++objects;
  bytes += static_cast<int64_t>(json.size());
}

Lists::Lists(Environment env, k8s::Client* client, std::function<void(ListResult)> done)
    : env_(env),
      done_(std::move(done)),
      jobs_(env, client, k8s::kJobs, [this] { Listed(); }),
      workloads_(env, client, k8s::kWorkloads, [this] { Listed(); }) {}

void Lists::Start() {
  begun_ = env_.clock->Mono();
  jobs_.Start();
  workloads_.Start();
}

void Lists::Listed() {
  if (--left_ > 0) return;
  done_({jobs_.objects, workloads_.objects, jobs_.bytes + workloads_.bytes, env_.clock->Mono() - begun_});
}

}  // namespace muster::bench
