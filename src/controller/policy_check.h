// Looks once in a while whether the admission policies are in force as the configuration has them, and says in
// words where they are not.
//
// Threading: used from the executor only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/controller/policies.h"
#include "muster/core/clock.h"
#include "muster/k8s_client/client.h"

namespace muster::controller {

class PolicyCheck {
 public:
  // `serves_mutating`: asked in each round; where false, policies that mutate are not looked for. Unset: not known yet.
  PolicyCheck(Environment env, k8s::Client* client, std::vector<PolicyExpectation> expected,
              std::function<std::optional<bool>()> serves_mutating);
  ~PolicyCheck();
  PolicyCheck(const PolicyCheck&) = delete;
  PolicyCheck& operator=(const PolicyCheck&) = delete;

  void Start();
  // Of the last complete round, the remedy behind them; empty: all is as it should be.
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  void Look();
  void Again(Duration wait);
  // RETURNS: what is wrong with one policy, or nothing.
  static std::string Judge(const PolicyExpectation& expected, const k8s::Result& result);
  void Seen(uint64_t round, size_t index, const k8s::Result& result);

  Environment env_;
  k8s::Client* client_;
  std::vector<PolicyExpectation> expected_;
  std::function<std::optional<bool>()> serves_mutating_;
  uint64_t round_ = 0;
  std::vector<std::string> found_;  // in this round, one for each that is expected
  std::vector<std::string> problems_;
  size_t outstanding_ = 0;
  Executor::TimerId timer_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace muster::controller
