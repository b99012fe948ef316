// What a watch delivered and nobody has taken yet, keyed by object. A state that has not been taken is
// replaced by the next one of the same object; a deletion never is, nor is anything before it.
//
// Threading: needs external synchronisation.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "muster/k8s_client/json_reader.h"

namespace muster::k8s {

class PendingEvents {
 public:
  struct Event {
    bool deleted = false;
    std::string uid;
    std::string json;
  };

  void Add(WatchLine line) {
    auto [it, is_new] = events_.try_emplace(line.key);
    if (is_new) order_.push_back(line.key);
    std::vector<Event>& events = it->second;
    Event event{line.type == "DELETED", std::move(line.uid), std::string(line.object)};
    if (!events.empty() && !events.back().deleted && !event.deleted && events.back().uid == event.uid) {
      events.back() = std::move(event);
    } else {
      events.push_back(std::move(event));
    }
  }

  bool empty() const { return events_.empty(); }

  // RETURNS: the events of that object, in order; they are no longer pending.
  std::vector<Event> Take(const ObjectKey& key) {
    auto node = events_.extract(key);
    if (events_.empty()) order_.clear();
    return node.empty() ? std::vector<Event>() : std::move(node.mapped());
  }
  // Likewise of the object that has waited longest. REQUIRES: not empty.
  std::vector<Event> TakeFirst() {
    for (;;) {
      const ObjectKey key = std::move(order_.front());
      order_.pop_front();
      // A key that was taken by name is still in the order, and may be there again.
      if (auto events = Take(key); !events.empty()) return events;
    }
  }

 private:
  std::map<ObjectKey, std::vector<Event>> events_;
  std::deque<ObjectKey> order_;
};

}  // namespace muster::k8s
