// List and watch of one kind, with client-go's reflector rules: paged list, watch with bookmarks, resume
// after a cut, relist as a diff that also finds deletions, back-off with jitter, Retry-After, both forms of
// 410. What it delivers is keyed and coalesced: the newest state of an object replaces an older one that
// nobody has taken yet; nothing is ever dropped.
//
// Source: cpp_ecosystem section 12, k8s.io/client-go tools/cache reflector.go.
// Threading: used from the executor only; the handler runs there.
#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "muster/core/clock.h"
#include "muster/k8s_client/client.h"
#include "muster/k8s_client/object.h"

namespace muster::k8s {

struct InformerOptions {
  std::string ns;              // empty: all namespaces
  std::string label_selector;  // empty: all
  std::string field_selector;
  int page_size = 500;
  // PartialObjectMetadata instead of the whole object, for kinds where labels and owners suffice.
  bool metadata_only = false;
  Duration backoff_min = std::chrono::milliseconds(800);
  Duration backoff_max = std::chrono::seconds(30);
};

// The untyped half. Objects go to the sink as raw JSON.
class Reflector {
 public:
  class Sink {
   public:
    virtual ~Sink() = default;
    // One object exists as `json`. RETURNS: its key and resourceVersion; on failure the object is skipped
    // and reported, the rest goes on.
    virtual void Upsert(std::string_view json) = 0;
    // One object was deleted; `json` is its last state.
    virtual void Delete(std::string_view json) = 0;
    // A list begins: what it does not name until EndList has vanished.
    virtual void BeginList() = 0;
    virtual void EndList() = 0;
    // The list failed half-way; what came of it counts, what did not come is not deleted.
    virtual void AbortList() = 0;
  };

  // REQUIRES: client, sink outlive it.
  Reflector(Environment env, Client* client, const Resource& resource, InformerOptions options, Sink* sink);
  ~Reflector();
  Reflector(const Reflector&) = delete;
  Reflector& operator=(const Reflector&) = delete;

  void Start();
  // One complete list has been delivered.
  bool synced() const;
  // A new list, by quorum read, that replaces the present one; what a new leader does before it decides.
  void Relist(std::function<void()> done);
  int64_t lists() const;
  int64_t watch_cuts() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// The typed half: a cache of decoded objects. T has a member `ObjectMeta meta`.
template <typename T>
class Informer final : private Reflector::Sink {
 public:
  using Ptr = std::shared_ptr<const T>;
  // Decodes one object. ON FAILURE: the status names object, field and value.
  using Decode = std::function<absl::StatusOr<T>(std::string_view json)>;
  struct Handler {
    std::function<void(const Ptr& object, const Ptr& previous)> upserted;  // previous null: new
    std::function<void(const Ptr& last)> deleted;
    std::function<void(const absl::Status&)> undecodable;  // the object is treated as absent
  };

  Informer(Environment env, Client* client, const Resource& resource, InformerOptions options, Decode decode,
           Handler handler)
      : decode_(std::move(decode)), handler_(std::move(handler)), reflector_(env, client, resource, options, this) {}

  void Start() { reflector_.Start(); }
  bool synced() const { return reflector_.synced(); }
  void Relist(std::function<void()> done) { reflector_.Relist(std::move(done)); }
  const Reflector& reflector() const { return reflector_; }

  // RETURNS: the object, or null.
  Ptr Get(const ObjectKey& key) const {
    const auto it = objects_.find(key);
    return it == objects_.end() ? nullptr : it->second;
  }
  const std::map<ObjectKey, Ptr>& objects() const { return objects_; }

  // Records the object that an own write returned, so that the next decision does not act on an older
  // state. Ignored if the informer already has that resourceVersion.
  void Observe(std::string_view json) { Upsert(json); }

 private:
  void Upsert(std::string_view json) override {
    auto decoded = decode_(json);
    if (!decoded.ok()) {
      handler_.undecodable(decoded.status());
      return;
    }
    auto object = std::make_shared<const T>(*std::move(decoded));
    if (listing_) listed_.insert_or_assign(object->meta.key(), true);
    Ptr& slot = objects_[object->meta.key()];
    if (slot != nullptr && slot->meta.uid == object->meta.uid &&
        slot->meta.resource_version == object->meta.resource_version) {
      return;
    }
    Ptr previous = std::exchange(slot, object);
    // A new object under an old name: the old one is gone, whatever the watch showed in between.
    if (previous != nullptr && previous->meta.uid != object->meta.uid) {
      handler_.deleted(previous);
      previous = nullptr;
    }
    handler_.upserted(object, previous);
  }
  void Delete(std::string_view json) override {
    auto decoded = decode_(json);
    if (!decoded.ok()) {
      handler_.undecodable(decoded.status());
      return;
    }
    const auto it = objects_.find(decoded->meta.key());
    if (it == objects_.end() || it->second->meta.uid != decoded->meta.uid) return;
    objects_.erase(it);
    handler_.deleted(std::make_shared<const T>(*std::move(decoded)));
  }
  void BeginList() override {
    listing_ = true;
    listed_.clear();
  }
  void EndList() override {
    listing_ = false;
    for (auto it = objects_.begin(); it != objects_.end();) {
      if (listed_.contains(it->first)) {
        ++it;
        continue;
      }
      const Ptr last = it->second;
      it = objects_.erase(it);
      handler_.deleted(last);
    }
    listed_.clear();
  }
  void AbortList() override {
    listing_ = false;
    listed_.clear();
  }

  Decode decode_;
  Handler handler_;
  std::map<ObjectKey, Ptr> objects_;
  bool listing_ = false;
  std::map<ObjectKey, bool> listed_;
  Reflector reflector_;  // last: it calls the sink
};

}  // namespace muster::k8s
