#include "told_reasons.h"

#include "muster/controller/reason_text.h"

namespace muster::controller {

bool ToldReasons::IsAnother(const std::optional<engine::Reason>& told, const engine::Reason& reason) {
  if (!told.has_value() || !SameKind(*told, reason)) return true;
  again_ = true;
  if (timer_ == 0) Wait(kDelay);
  return false;
}

bool ToldReasons::TakeNumbers(const std::optional<engine::WorkloadView>& view, const std::string& ns,
                              std::optional<engine::Reason>* told) {
  using Place = engine::WorkloadView::Place;
  if (!told->has_value() || !view.has_value()) return false;
  if (view->place != Place::kActive && view->place != Place::kParked) return false;
  engine::Reason reason = view->reason;
  HideForeign(ns, &reason);
  if (**told == reason || !SameKind(**told, reason)) return false;  // another is told when it is decided
  *told = std::move(reason);
  return true;
}

void ToldReasons::Wait(Duration delay) {
  timer_ = env_.executor->PostAt(env_.clock->Mono() + delay, [this] {
    timer_ = 0;
    Look();
  });
}

void ToldReasons::Look() {
  int written = 0;
  for (int looks = 0; looks < kLooksMax && written < kWritesMax; ++looks) {
    if (last_.empty()) again_ = false;
    last_ = next_(last_);
    if (!last_.empty()) {
      written += renew_(last_) ? 1 : 0;
    } else if (!again_) {
      return;
    }
  }
  Wait(kPause);
}

}  // namespace muster::controller
