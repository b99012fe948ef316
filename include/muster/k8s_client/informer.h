// List and watch of one kind, with client-go's reflector rules: paged list, watch with bookmarks, resume
// after a cut, relist as a diff that also finds deletions, back-off with jitter, Retry-After, both forms of
// 410. What it delivers is keyed and coalesced: the newest state of an object replaces an older one that
// nobody has taken yet; nothing is ever dropped.
//
// Source: cpp_ecosystem section 12, k8s.io/client-go tools/cache reflector.go.
// Threading: used from the executor only; the handler runs there.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/core/clock.h"
#include "muster/k8s_client/client.h"
#include "muster/k8s_client/json_reader.h"
#include "muster/k8s_client/object.h"

namespace muster::k8s {

struct InformerOptions {
  std::string ns;              // empty: all namespaces
  std::string label_selector;  // empty: all
  std::string field_selector;
  int page_size = 500;
  // PartialObjectMetadata instead of the whole object, for kinds where labels and owners suffice.
  bool metadata_only = false;
  // Doubles from the one to the other; each wait is stretched by up to its own length. Starts over after two
  // minutes of health. Retry-After counts where it is longer.
  Duration backoff_min = std::chrono::milliseconds(800);
  Duration backoff_max = std::chrono::seconds(30);
};

// The untyped half. Objects go to the sink as raw JSON.
//
// A watch that is over is resumed at once, from the last version seen: at its time limit always, and at a cut
// if it did not follow another within the back-off. A list is taken again after 410, after a refused version,
// and after three resumptions in a row without progress. Lists are consistent reads (no resourceVersion), so
// they are never older than what was seen before.
class Reflector {
 public:
  class Sink {
   public:
    virtual ~Sink() = default;
    // One object exists as `json`.
    virtual void Upsert(std::string_view json) = 0;
    // One object was deleted; `json` is its last state.
    virtual void Delete(std::string_view json) = 0;
    // A list is about to be asked for: what it does not name until EndList has vanished.
    virtual void BeginList() = 0;
    // `resource_version`: of the list.
    virtual void EndList(std::string_view resource_version) = 0;
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
  // `done` follows when a list that began after this call is complete.
  void Relist(std::function<void()> done);
  // Delivers now what has come in for this object and waits to be taken.
  void Flush(const ObjectKey& key);
  // Everything up to here was received; opaque.
  const std::string& resource_version() const;

  int64_t lists() const;       // complete ones
  int64_t watch_cuts() const;  // watches that did not end in order
  int64_t bad_lines() const;   // lines of watches that could not be read
  // Why it does not follow the server right now, in words; empty while it does.
  const std::string& problem() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// RETURNS: whether both are decimal resourceVersions of one resource type and `a` is the later. (Their order
// is guaranteed since Kubernetes 1.35, and has held on every server before.)
bool IsNewerVersion(std::string_view a, std::string_view b);

// The typed half: a cache of decoded objects. T has a member `ObjectMeta meta`.
//
// What the server streams comes in order and is believed. An own write's result (Observe) runs ahead of the
// stream; until the stream has caught up with it, older states of that object are not taken.
template <typename T>
class Informer final : private Reflector::Sink {
 public:
  using Ptr = std::shared_ptr<const T>;
  // Decodes one object. ON FAILURE: the status names object, field and value.
  using Decode = std::function<absl::StatusOr<T>(std::string_view json)>;
  struct Handler {
    std::function<void(const Ptr& object, const Ptr& previous)> upserted;  // previous null: new
    std::function<void(const Ptr& last)> deleted;
    // An object that was never read is treated as absent; one that was read before keeps the last state that
    // could be read, until it can be read again or is deleted. Told once for each object and message.
    std::function<void(const ObjectMeta&, const absl::Status&)> undecodable;
  };
  struct UnreadableObject {
    ObjectMeta meta;
    std::string message;
  };

  // REQUIRES: client, resource outlive it.
  Informer(Environment env, Client* client, const Resource& resource, InformerOptions options, Decode decode,
           Handler handler)
      : resource_(resource),
        decode_(std::move(decode)),
        handler_(std::move(handler)),
        reflector_(env, client, resource, options, this) {}

  void Start() { reflector_.Start(); }
  bool synced() const { return reflector_.synced(); }
  void Relist(std::function<void()> done) { reflector_.Relist(std::move(done)); }
  const Reflector& reflector() const { return reflector_; }
  const Resource& resource() const { return resource_; }

  // RETURNS: the object, or null.
  Ptr Get(const ObjectKey& key) const {
    const auto it = objects_.find(key);
    return it == objects_.end() ? nullptr : it->second;
  }
  const std::map<ObjectKey, Ptr>& objects() const { return objects_; }
  // Objects that exist and whose newest state cannot be read, with the reason.
  const std::map<ObjectKey, UnreadableObject>& unreadable() const { return unreadable_; }

  // Records the object that an own write returned, so that the next decision does not act on an older state.
  // No effect where the stream has already passed that state, or where its version cannot be compared. The
  // handler is called, if at all, before it returns.
  void Observe(std::string_view json) {
    const Ptr object = Take(json);
    if (object == nullptr) return;
    const ObjectKey key = object->meta.key();
    const std::string& version = object->meta.resource_version;
    reflector_.Flush(key);
    // Absent and passed by the stream: it was deleted since.
    const Ptr known = Get(key);
    const std::string& passed = known != nullptr ? known->meta.resource_version : reflector_.resource_version();
    const bool first = known == nullptr && passed.empty();
    if (!IsNewerVersion(version, first ? "0" : passed)) return;
    ahead_[key] = {listing_};
    Put(object);
  }

 private:
  // An object whose cached state came from Observe, ahead of the stream.
  struct Ahead {
    // Observed after the list now under way was asked for, so that the list may not know of it.
    bool during_list = false;
  };

  absl::StatusOr<Ptr> Decoded(std::string_view json) const {
    auto decoded = decode_(json);
    if (!decoded.ok()) return decoded.status();
    if (decoded->meta.name.empty()) return absl::InvalidArgumentError("an object without metadata.name");
    return std::make_shared<const T>(*std::move(decoded));
  }

  // RETURNS: null where it cannot be read, which is then a standing problem of this object.
  Ptr Take(std::string_view json) {
    auto object = Decoded(json);
    if (object.ok()) return *std::move(object);
    std::string message(object.status().message());
    ObjectMeta meta = ReadMeta(json);
    UnreadableObject& standing = unreadable_[meta.key()];
    const bool told = standing.message == message && standing.meta.uid == meta.uid;
    standing = {std::move(meta), std::move(message)};
    if (!told) handler_.undecodable(standing.meta, object.status());
    return nullptr;
  }

  void Upsert(std::string_view json) override {
    const Ptr object = Take(json);
    if (object == nullptr) return Unreadable(json);
    const ObjectKey key = object->meta.key();
    if (listing_) listed_.insert(key);
    const Ptr known = Get(key);
    if (const auto ahead = ahead_.find(key); ahead != ahead_.end()) {
      // A list that was asked for after the write knows of it; else the newer of the two counts.
      const bool authoritative = listing_ && !ahead->second.during_list;
      if (!authoritative && IsNewerVersion(known->meta.resource_version, object->meta.resource_version)) return;
      ahead_.erase(ahead);
    }
    if (known != nullptr && known->meta.uid == object->meta.uid &&
        known->meta.resource_version == object->meta.resource_version) {
      return;
    }
    Put(object);
  }

  void Delete(std::string_view json) override {
    const ObjectMeta meta = ReadMeta(json);
    const Ptr known = Get(meta.key());
    if (known == nullptr) unreadable_.erase(meta.key());
    if (known == nullptr || known->meta.uid != meta.uid) return;
    const auto last = Decoded(json);
    Remove(meta.key(), last.ok() ? *last : known);
  }

  void BeginList() override {
    listing_ = true;
    listed_.clear();
    for (auto& [key, ahead] : ahead_) ahead.during_list = false;
  }

  void EndList(std::string_view resource_version) override {
    listing_ = false;
    std::vector<ObjectKey> vanished;
    for (const auto& [key, object] : objects_) {
      if (listed_.contains(key)) continue;
      const auto ahead = ahead_.find(key);
      const bool created_since = ahead != ahead_.end() && ahead->second.during_list &&
                                 IsNewerVersion(object->meta.resource_version, resource_version);
      if (!created_since) vanished.push_back(key);
    }
    std::erase_if(unreadable_, [this](const auto& entry) {
      return !listed_.contains(entry.first) && !objects_.contains(entry.first);
    });
    listed_.clear();
    for (const ObjectKey& key : vanished) Remove(key, Get(key));
  }

  void AbortList() override {
    listing_ = false;
    listed_.clear();
  }

  void Put(const Ptr& object) {
    unreadable_.erase(object->meta.key());
    Ptr previous = std::exchange(objects_[object->meta.key()], object);
    // A new object under an old name: the old one is gone, whatever the watch showed in between.
    if (previous != nullptr && previous->meta.uid != object->meta.uid) {
      handler_.deleted(previous);
      previous = nullptr;
    }
    handler_.upserted(object, previous);
  }

  void Remove(const ObjectKey& key, const Ptr& last) {
    objects_.erase(key);
    ahead_.erase(key);
    unreadable_.erase(key);
    handler_.deleted(last);
  }

  // It exists all the same: its last readable state stays, unless that was of another object of this name.
  void Unreadable(std::string_view json) {
    const ObjectMeta meta = ReadMeta(json);
    const ObjectKey key = meta.key();
    if (listing_) listed_.insert(key);
    const Ptr known = Get(key);
    if (known == nullptr || known->meta.uid == meta.uid) return;
    UnreadableObject standing = unreadable_[key];
    Remove(key, known);
    unreadable_[key] = std::move(standing);
  }

  const Resource& resource_;
  Decode decode_;
  Handler handler_;
  std::map<ObjectKey, Ptr> objects_;
  std::map<ObjectKey, Ahead> ahead_;
  std::map<ObjectKey, UnreadableObject> unreadable_;
  bool listing_ = false;
  std::set<ObjectKey> listed_;
  Reflector reflector_;  // last: it calls the sink
};

}  // namespace muster::k8s
