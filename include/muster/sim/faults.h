// What can go wrong between the product and the API server, by rule or by chance.
//
// Threading: needs external synchronisation.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/core/clock.h"
#include "muster/core/time.h"
#include "muster/sim/store.h"

namespace muster::sim {

// A request as the server understands it.
struct ApiRequest {
  std::string user;
  std::string verb;  // get list watch create update patch delete deletecollection; empty: not of a resource
  Target target;     // of a resource
  std::map<std::string, std::string> query;
  bool metadata_only = false;
  std::string body;

  bool IsWrite() const { return !verb.empty() && verb != "get" && verb != "list" && verb != "watch"; }
  // "jobs", "workloads/status".
  std::string Resource() const;
  std::string Query(const std::string& key) const;
};

struct Fault {
  enum class Kind : uint8_t {
    kRefuse,          // no connection: certainly not applied, and the client knows
    kDelayRequest,    // arrives `delay` later; past the request's own ?timeout= it is answered 504, not applied
    kDelayAnswer,     // applied at once, answered `delay` later
    kAnswer,          // answered with `status`, not applied
    kApplyAndAnswer,  // applied, and answered with `status` all the same
    kLoseRequest,     // the connection breaks: not applied, but the client cannot know
    kLoseAnswer,      // applied, then the connection breaks
    kHang,            // applied, never answered: the client's own timeout ends it
    kHold,            // kept from the store until SimServer::Release
    kHoldAnswer,      // applied, the answer kept from the client until SimServer::Release
    // Of watches, after `lines` more lines have been delivered:
    kCut,           // the stream ends in the middle of a line
    kGoneInStream,  // an ERROR event with code 410, and the end
    kGarbage,       // a line that is not JSON; the stream goes on
    kStall,         // nothing more comes, and no end either
  };
  Kind kind = Kind::kRefuse;
  int status = 500;
  Duration delay{0};
  std::optional<Duration> retry_after = std::nullopt;
  int lines = 0;
};

// Which requests a fault strikes. Empty members match everything.
struct FaultRule {
  std::string user;
  std::vector<std::string> verbs;
  std::string resource;  // "jobs", "jobs/status"
  std::string ns;
  std::string name;
  std::string body_contains;
  int skip = 0;   // so many matching requests pass first
  int times = 1;  // then so many are struck; negative: all
  Fault fault;
};

// How many of a thousand requests (or watch lines) are struck, by chance.
struct RandomFaults {
  std::string user;  // empty: every user
  int write_permille = 0;
  int read_permille = 0;
  int watch_line_permille = 0;
  Duration delay_max = std::chrono::seconds(5);
};

class FaultPlan {
 public:
  using RuleId = uint64_t;
  RuleId Add(FaultRule rule);
  void Remove(RuleId id);
  void Clear();
  // From here on faults strike by chance too. REQUIRES: rates of 0 to 1000.
  void SetRandom(SeededRandom random, RandomFaults rates);
  void ClearRandom() { chance_.reset(); }

  // A fault that strikes, and the rule that it comes from; 0: chance.
  struct Strike {
    Fault fault;
    RuleId rule = 0;
  };
  // Asked once for each request, when it is sent. A watch's fault is kept with its stream.
  std::optional<Strike> OnRequest(const ApiRequest& request);
  // Asked once for each line of a watch.
  std::optional<Fault> OnWatchLine(const std::string& user);

  // How many requests the rule has struck.
  int64_t hits(RuleId id) const;
  int64_t random_hits() const { return random_hits_; }

 private:
  struct Armed {
    FaultRule rule;
    int64_t seen = 0;
    int64_t hits = 0;
  };
  struct Chance {
    SeededRandom random;
    RandomFaults rates;
  };
  static bool Matches(const FaultRule& rule, const ApiRequest& request);
  Fault DrawCallFault(bool write);

  std::map<RuleId, Armed> rules_;
  std::map<RuleId, int64_t> past_hits_;
  RuleId next_ = 1;
  std::optional<Chance> chance_;
  int64_t random_hits_ = 0;
};

}  // namespace muster::sim
