// Which Jobs, or Workloads, name which LocalQueue: so that an event about one queue or namespace costs what is in it.
//
// Threading: needs external synchronisation.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace muster::controller {

class QueueIndex {
 public:
  using Queue = std::pair<std::string, std::string>;  // namespace and name, which may be empty

  // `uid` stays where it is until it is removed.
  void Add(const Queue& queue, const std::string& uid) { queues_[queue].insert(&uid); }
  void Remove(const Queue& queue, const std::string& uid) {
    const auto it = queues_.find(queue);
    if (it == queues_.end()) return;
    it->second.erase(&uid);
    if (it->second.empty()) queues_.erase(it);
  }

  // In the order of uids; those of a namespace queue by queue.
  std::vector<std::string> Of(const Queue& queue) const {
    std::vector<std::string> out;
    if (const auto it = queues_.find(queue); it != queues_.end()) Append(it->second, &out);
    return out;
  }
  std::vector<std::string> OfNamespace(const std::string& ns) const {
    std::vector<std::string> out;
    for (auto it = queues_.lower_bound({ns, ""}); it != queues_.end() && it->first.first == ns; ++it) {
      Append(it->second, &out);
    }
    return out;
  }

 private:
  struct ByText {
    bool operator()(const std::string* a, const std::string* b) const { return *a < *b; }
  };
  using Uids = std::set<const std::string*, ByText>;

  static void Append(const Uids& uids, std::vector<std::string>* out) {
    for (const std::string* uid : uids) out->push_back(*uid);
  }

  std::map<Queue, Uids> queues_;
};

}  // namespace muster::controller
