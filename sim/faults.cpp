#include "muster/sim/faults.h"

#include <algorithm>
#include <utility>

#include "muster/core/check.h"

namespace muster::sim {

std::string ApiRequest::Resource() const {
  if (target.kind == nullptr) return "";
  return target.subresource.empty() ? target.kind->plural : target.kind->plural + "/" + target.subresource;
}

std::string ApiRequest::Query(const std::string& key) const {
  const auto it = query.find(key);
  return it == query.end() ? "" : it->second;
}

FaultPlan::RuleId FaultPlan::Add(FaultRule rule) {
  rules_.emplace(next_, Armed{std::move(rule)});
  return next_++;
}

void FaultPlan::Remove(RuleId id) {
  past_hits_[id] = hits(id);
  rules_.erase(id);
}

void FaultPlan::Clear() {
  for (const auto& [id, armed] : rules_) past_hits_[id] = armed.hits;
  rules_.clear();
  chance_.reset();
}

void FaultPlan::SetRandom(SeededRandom random, RandomFaults rates) {
  for (const int rate : {rates.write_permille, rates.read_permille, rates.watch_line_permille}) {
    MUSTER_CHECK(rate >= 0 && rate <= 1000);
  }
  chance_.emplace(Chance{random, std::move(rates)});
}

bool FaultPlan::Matches(const FaultRule& rule, const ApiRequest& request) {
  const auto same = [](const std::string& wanted, const std::string& have) { return wanted.empty() || wanted == have; };
  return same(rule.user, request.user) && same(rule.resource, request.Resource()) && same(rule.ns, request.target.ns) &&
         same(rule.name, request.target.name) &&
         (rule.verbs.empty() || std::ranges::find(rule.verbs, request.verb) != rule.verbs.end()) &&
         request.body.find(rule.body_contains) != std::string::npos;
}

std::optional<FaultPlan::Strike> FaultPlan::OnRequest(const ApiRequest& request) {
  for (auto& [id, armed] : rules_) {
    if (!Matches(armed.rule, request)) continue;
    if (armed.seen++ < armed.rule.skip) continue;
    if (armed.rule.times >= 0 && armed.hits >= armed.rule.times) continue;
    ++armed.hits;
    return Strike{armed.rule.fault, id};
  }
  if (!chance_.has_value() || request.verb.empty() || request.verb == "watch") return std::nullopt;
  const RandomFaults& rates = chance_->rates;
  if (!rates.user.empty() && rates.user != request.user) return std::nullopt;
  const int rate = request.IsWrite() ? rates.write_permille : rates.read_permille;
  if (chance_->random.Below(1000) >= static_cast<uint64_t>(rate)) return std::nullopt;
  ++random_hits_;
  return Strike{DrawCallFault(request.IsWrite()), 0};
}

Fault FaultPlan::DrawCallFault(bool write) {
  SeededRandom& random = chance_->random;
  const auto any = [&](Duration max) {
    return Duration(static_cast<int64_t>(random.Below(static_cast<uint64_t>(max.count()) + 1)));
  };
  Fault fault;
  switch (random.Below(write ? 9 : 6)) {
    case 0:
      fault.kind = Fault::Kind::kRefuse;
      break;
    case 1:
      fault.kind = Fault::Kind::kDelayRequest;
      fault.delay = any(chance_->rates.delay_max);
      break;
    case 2:
      fault.kind = Fault::Kind::kDelayAnswer;
      fault.delay = any(chance_->rates.delay_max);
      break;
    case 3:
      fault.kind = Fault::Kind::kAnswer;
      fault.status = 500;
      break;
    case 4:
      fault.kind = Fault::Kind::kAnswer;
      fault.status = 429;
      fault.retry_after = std::chrono::seconds(1);
      break;
    case 5:
      fault.kind = Fault::Kind::kLoseRequest;
      break;
    case 6:
      fault.kind = Fault::Kind::kLoseAnswer;
      break;
    case 7:
      fault.kind = Fault::Kind::kHang;
      break;
    default:
      fault.kind = Fault::Kind::kAnswer;
      fault.status = 409;
  }
  return fault;
}

std::optional<Fault> FaultPlan::OnWatchLine(const std::string& user) {
  if (!chance_.has_value()) return std::nullopt;
  const RandomFaults& rates = chance_->rates;
  if (!rates.user.empty() && rates.user != user) return std::nullopt;
  if (chance_->random.Below(1000) >= static_cast<uint64_t>(rates.watch_line_permille)) return std::nullopt;
  ++random_hits_;
  constexpr Fault::Kind kKinds[] = {Fault::Kind::kCut, Fault::Kind::kGoneInStream, Fault::Kind::kGarbage,
                                    Fault::Kind::kStall};
  Fault fault;
  fault.kind = kKinds[chance_->random.Below(std::size(kKinds))];
  return fault;
}

int64_t FaultPlan::hits(RuleId id) const {
  if (const auto it = rules_.find(id); it != rules_.end()) return it->second.hits;
  const auto it = past_hits_.find(id);
  return it == past_hits_.end() ? 0 : it->second;
}

}  // namespace muster::sim
