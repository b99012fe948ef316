// Asks the API server at the start for each right that Muster needs whether it has it, and names those that it lacks:
// else each would show where it is first used, the last of them in the middle of a stop.
//
// Threading: used from the executor only.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "muster/controller/rights.h"
#include "muster/core/clock.h"
#include "muster/k8s_client/client.h"

namespace muster::controller {

class RightsCheck {
 public:
  RightsCheck(Environment env, k8s::Client* client, std::vector<Right> rights)
      : env_(env), client_(client), rights_(std::move(rights)) {}
  ~RightsCheck();
  RightsCheck(const RightsCheck&) = delete;
  RightsCheck& operator=(const RightsCheck&) = delete;

  // Asks for one after the other; again, while some are missing.
  void Start() { Ask(0); }
  // In words, with the remedy; empty: all are there, as far as is known.
  const std::string& problem() const { return problem_; }

 private:
  void Ask(size_t index);
  void Answered(size_t index, const k8s::HttpResponse& response);

  Environment env_;
  k8s::Client* client_;
  std::vector<Right> rights_;
  std::vector<std::string> missing_;  // in this round
  std::string problem_;
  Executor::TimerId timer_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace muster::controller
