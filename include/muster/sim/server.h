// The simulated API server: HTTP over a SimStore. It parses paths and queries, takes time, serves watches
// with bookmarks and timeouts, and lets faults strike. Clients reach it through a k8s::Transport, one for
// each user and process, so the product's client, reflectors and leader election run on it unchanged.
//
// Threading: one thread, that of the executor.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "muster/k8s_client/transport.h"
#include "muster/sim/executor.h"
#include "muster/sim/faults.h"
#include "muster/sim/input_log.h"
#include "muster/sim/store.h"

namespace muster::sim {

// Each time is drawn evenly from its range.
struct Latency {
  Duration min{0};
  Duration max{0};
};

struct ServerOptions {
  Latency network{std::chrono::microseconds(50), std::chrono::microseconds(300)};  // one way
  Latency read{std::chrono::microseconds(200), std::chrono::milliseconds(1)};
  Latency write{std::chrono::microseconds(500), std::chrono::milliseconds(3)};
  Latency watch{std::chrono::microseconds(200), std::chrono::milliseconds(4)};  // commit to line
  Duration bookmark_interval = std::chrono::minutes(1);
  // A watch without timeoutSeconds ends within this and twice this.
  Duration watch_timeout = std::chrono::minutes(30);
  // A watch that starts from a compacted version is told by HTTP 410, not by an ERROR event.
  bool gone_as_http = false;
  int minor_version = 36;
  bool mutating_policies = true;  // MutatingAdmissionPolicy v1 is served
};

// A write that reached the store, whoever made it and however it was answered.
struct WriteRecord {
  MonoTime at;
  std::string user;
  std::string verb;
  std::string resource;  // "jobs", "workloads/status"
  std::string ns;
  std::string name;
  std::string body;
  int code = 0;
};

class SimServer {
 public:
  enum class Phase : uint8_t { kSent, kApplied, kAnswered };

  SimServer(SimExecutor* executor, SimStore* store, ServerOptions options);
  ~SimServer();
  SimServer(const SimServer&) = delete;
  SimServer& operator=(const SimServer&) = delete;

  // A client of its own. Its callbacks run on `client`; what reaches it is recorded in `log` (may be null).
  // REQUIRES: destroyed before the server, `client` and `log`.
  std::unique_ptr<k8s::Transport> Connect(std::string user, Executor* client, InputLog* log);

  FaultPlan& faults() { return faults_; }
  // What a rule of kHold or kHoldAnswer holds, and will hold, goes on.
  void Release(FaultPlan::RuleId rule);
  // Requests held at present.
  int64_t held() const { return static_cast<int64_t>(held_.size()); }
  // Ends open watches of a resource ("" = all) with a watch fault, as soon as the network allows.
  void BreakWatches(const std::string& resource, Fault fault);
  // While down, nothing connects and no watch survives.
  void SetDown(bool down);
  // RETURNS: whether the user may; a false one gets 403. Unset: everybody may do everything.
  void SetAuthorizer(std::function<bool(const ApiRequest&)> authorizer) { authorizer_ = std::move(authorizer); }
  // Told of each call of a resource as it goes through. Must not destroy a transport: note it, and act
  // between two steps of the executor.
  void SetObserver(std::function<void(const ApiRequest&, Phase)> observer) { observer_ = std::move(observer); }

  const std::vector<WriteRecord>& writes() const { return writes_; }
  int64_t open_watches() const;

 private:
  friend class SimTransport;
  class Stream;
  struct Call;
  struct Reply {
    int status = 200;
    std::string body;
    std::optional<Duration> retry_after;
  };

  Duration Draw(const Latency& latency);
  // RETURNS: what the request asks for, or the answer that it makes no sense.
  std::variant<ApiRequest, Reply> Parse(const std::string& user, const k8s::HttpRequest& http) const;
  Reply Serve(const ApiRequest& request, const k8s::HttpRequest& http);
  Reply ServeUnstored(const ApiRequest& request, const k8s::HttpRequest& http) const;
  Answer Dispatch(const ApiRequest& request, const k8s::HttpRequest& http);
  std::optional<Answer> CheckAccess(const ApiRequest& request) const;
  void Start(std::shared_ptr<Call> call);
  void Arrive(std::shared_ptr<Call> call);
  void Reach(std::shared_ptr<Call> call);
  void AnswerCall(std::shared_ptr<Call> call, Reply reply);
  // Keeps `go_on` for Release. RETURNS: false if the rule was released already.
  bool Hold(FaultPlan::RuleId rule, std::function<void()> go_on);
  void Finish(const std::shared_ptr<Call>& call, k8s::HttpResponse response);
  void OpenWatch(std::shared_ptr<Stream> stream);
  void OnChange(const Change& change);

  SimExecutor* executor_;
  SimStore* store_;
  ServerOptions options_;
  SeededRandom random_;
  std::unique_ptr<SimSource> source_;
  FaultPlan faults_;
  std::function<bool(const ApiRequest&)> authorizer_;
  std::function<void(const ApiRequest&, Phase)> observer_;
  std::list<std::shared_ptr<Stream>> streams_;
  std::vector<WriteRecord> writes_;
  std::multimap<FaultPlan::RuleId, std::function<void()>> held_;
  std::set<FaultPlan::RuleId> released_;
  bool down_ = false;
};

}  // namespace muster::sim
