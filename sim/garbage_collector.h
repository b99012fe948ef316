// The simulated garbage collector. Internal to the simulated controllers.
//
// Threading: one thread, that of the executor.
#pragma once

#include <functional>
#include <set>
#include <string>

#include "muster/sim/controllers.h"

namespace muster::sim {

class GarbageCollector {
 public:
  // `blocks`: whether something that is no object (the pods of a Job) keeps an owner of that uid from going;
  // asked only of owners deleted in the foreground, after `delete_pods` of theirs.
  GarbageCollector(SimExecutor* executor, SimStore* store, Executor* source, const ControllerOptions& options,
                   std::function<bool(const std::string& uid)> blocks,
                   std::function<void(const std::string& uid)> delete_pods);

  void OnChange(const Change& change);

 private:
  struct Found {
    const Kind* kind = nullptr;
    JsonPtr object;
  };
  static Target TargetOf(const Found& found);
  // What stands behind a reference to an owner.
  enum class Owner : uint8_t {
    kSolid,    // it is there
    kGone,     // it is not, or another of that name is
    kWaiting,  // it is deleted in the foreground, and waits for those that it owns
  };
  std::vector<Found> DependentsOf(const std::string& uid) const;
  Owner Look(const Json& owner, const std::string& ns) const;
  bool RefersOutOfReach(const Kind& kind, const Json& owners) const;

  void Later(std::function<void()> task);
  // An object goes with the last of its owners; while one is there, references to the others are taken out.
  void CheckOwners(const Kind* kind, const std::string& ns, const std::string& name);
  void DeleteOwned(const Found& found, bool owner_waits);
  void Orphan(const Kind* kind, const std::string& ns, const std::string& name);
  void DeleteForeground(const Kind* kind, const std::string& ns, const std::string& name);
  void RemoveFinalizer(const Target& target, const std::string& finalizer);

  SimExecutor* executor_;
  SimStore* store_;
  Executor* source_;
  ControllerOptions options_;
  SeededRandom random_;
  std::function<bool(const std::string&)> blocks_;
  std::function<void(const std::string&)> delete_pods_;
};

}  // namespace muster::sim
