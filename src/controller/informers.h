// How the controller's informers are made: what cannot be read is a problem of its object.
//
// Threading: used from the executor only.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "muster/core/clock.h"
#include "muster/k8s_client/client.h"
#include "muster/k8s_client/informer.h"
#include "spec_problems.h"

namespace muster::controller {

template <typename T>
using Informer = std::unique_ptr<k8s::Informer<T>>;

struct InformerDeps {
  Environment env;
  k8s::Client* client = nullptr;
  SpecProblems* problems = nullptr;
};

// `changed` is given the former state too; null: it is new. REQUIRES: what the pointers point to outlives it.
template <typename T>
Informer<T> MakeInformer(
    const InformerDeps& deps, const k8s::Resource& resource, typename k8s::Informer<T>::Decode decode,
    std::function<void(const std::shared_ptr<const T>& object, const std::shared_ptr<const T>& previous)> changed,
    std::function<void(const T& last)> deleted, k8s::InformerOptions options = {}) {
  typename k8s::Informer<T>::Handler handler;
  handler.upserted = std::move(changed);
  handler.deleted = [deleted = std::move(deleted)](const auto& last) { deleted(*last); };
  handler.undecodable = [problems = deps.problems, &resource](const k8s::ObjectMeta& meta, const absl::Status& status) {
    problems->Tell(resource, meta, std::string(status.message()));
  };
  return std::make_unique<k8s::Informer<T>>(deps.env, deps.client, resource, std::move(options), std::move(decode),
                                            std::move(handler));
}

}  // namespace muster::controller
