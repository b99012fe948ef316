// How writes to one object go on from the states of it that are known, each made for one of them.
//
// An answer that is not taken up by the informer is of a state that cannot be read: any further write would meet it,
// so the object is left alone until it changes.
//
// Threading: values.
#pragma once

#include <string>
#include <string_view>

#include "muster/k8s_client/json_reader.h"

namespace muster::controller {

class WriteProgress {
 public:
  enum class Step : uint8_t {
    kMoved,       // a later state is known
    kNone,        // refused or without effect though nothing has changed, or the answer is no object: try again later
    kUnreadable,  // leave it alone
  };

  // A write leaves that was made for the state of this version; empty: for an object that is not known to exist.
  void Sent(std::string version) { sent_ = std::move(version); }
  // `known`: the version of the newest known state, after the informer was given `answer`; empty: none is.
  Step Answered(std::string_view known, std::string_view answer) {
    if (known != sent_) return Step::kMoved;
    if (known.empty()) return Step::kNone;
    const std::string version = k8s::ReadMeta(answer).resource_version;
    if (version.empty() || version == known) return Step::kNone;
    unreadable_ = true;
    return Step::kUnreadable;
  }
  // The object has changed, or is gone.
  void Changed() { unreadable_ = false; }
  bool unreadable() const { return unreadable_; }

 private:
  std::string sent_;
  bool unreadable_ = false;
};

}  // namespace muster::controller
