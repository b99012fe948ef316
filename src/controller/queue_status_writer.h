// Keeps the status of queues and cohorts in step with the engine, at most once a second each, and only where it
// differs.
//
// Threading: used from the executor only.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "muster/controller/queue_status.h"
#include "muster/core/backoff.h"
#include "muster/core/clock.h"
#include "muster/k8s_client/client.h"
#include "write_progress.h"

namespace muster::controller {

class QueueStatusWriter {
 public:
  // RETURNS: what the status should be; nothing where the engine does not know the queue.
  using Project = std::function<std::optional<QueueStatus>(const QueueObject&)>;

  // Given the object that an own write returned; it comes back by Observe, unless the watch has passed it.
  using Returned = std::function<void(const std::string& json)>;

  QueueStatusWriter(Environment env, k8s::Client* client, const k8s::Resource& resource, QueueKind kind,
                    Project project, Returned returned);
  ~QueueStatusWriter();
  QueueStatusWriter(const QueueStatusWriter&) = delete;
  QueueStatusWriter& operator=(const QueueStatusWriter&) = delete;

  void Open() { open_ = true; }
  void Observe(std::shared_ptr<const QueueObject> object);
  void Deleted(const k8s::ObjectKey& key);
  // What the engine says of this queue may have changed.
  void Touch(const k8s::ObjectKey& key);

 private:
  struct Entry {
    std::shared_ptr<const QueueObject> known;
    bool busy = false;
    bool dirty = false;
    WriteProgress progress;
    MonoTime not_before;
    Backoff backoff{std::chrono::seconds(1), std::chrono::seconds(60)};
  };

  void Arm(MonoTime when);
  void Flush();
  void Sync(const k8s::ObjectKey& key, Entry* entry);
  void Answered(const k8s::ObjectKey& key, const k8s::Result& result);
  void Fetched(const k8s::ObjectKey& key, const k8s::Result& result);
  void Failed(const k8s::ObjectKey& key, const k8s::Result& result);

  Environment env_;
  k8s::Client* client_;
  const k8s::Resource& resource_;
  QueueKind kind_;
  Project project_;
  Returned returned_;
  bool open_ = false;
  std::map<k8s::ObjectKey, Entry> entries_;
  std::set<k8s::ObjectKey> dirty_;
  Executor::TimerId timer_ = 0;
  MonoTime due_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace muster::controller
