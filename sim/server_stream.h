// The two ends of a watch, and of a client's connections. Internal to the simulated server.
//
// Threading: one thread, that of the executor.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "muster/k8s_client/transport.h"
#include "muster/sim/server.h"
#include "selectors.h"

namespace muster::sim {

// A client process as the network knows it. Outlives the transport: what is still under way looks here
// whether anybody is left to hear it.
struct ClientEnd {
  std::string user;
  Executor* executor = nullptr;
  InputLog* log = nullptr;
  const SimExecutor* clock = nullptr;
  bool alive = true;

  void Log(std::string_view kind, std::string_view text) const {
    if (log != nullptr) log->Add(clock->Mono(), kind, text);
  }
};

struct SimServer::Call {
  std::shared_ptr<ClientEnd> client;
  k8s::HttpRequest http;
  k8s::Transport::Done done;
  std::optional<ApiRequest> request;  // unset: it was not understood
  Reply misunderstood;
  std::optional<Fault> fault;
  FaultPlan::RuleId rule = 0;  // that the fault comes from
  Executor::TimerId timeout = 0;
  bool finished = false;
};

class SimServer::Stream : public std::enable_shared_from_this<SimServer::Stream> {
 public:
  Stream(SimServer* server, std::shared_ptr<ClientEnd> client, k8s::WatchHandler* handler, ApiRequest request,
         Duration silence_max)
      : server_(server),
        client_(std::move(client)),
        handler_(handler),
        request_(std::move(request)),
        silence_max_(silence_max) {}

  // Server side.
  void Open(Selector selector);
  void Refuse(int status, std::string body, std::optional<Duration> retry_after);
  void OnChange(const Change& change);
  void Strike(const Fault& fault);
  // Ends it; `status` OK: in order.
  void End(absl::Status status);
  void FailToConnect(std::string why);

  // Client side: nobody listens any more.
  void Abandon();

  void set_fault(std::optional<Fault> fault) { fault_ = std::move(fault); }
  const std::optional<Fault>& fault() const { return fault_; }
  const ApiRequest& request() const { return request_; }
  const ClientEnd& client() const { return *client_; }
  bool serving() const { return serving_; }
  bool abandoned() const { return !listening_; }

 private:
  enum class Event { kOpen, kLine, kClose };
  struct Delivery {
    Event event = Event::kLine;
    std::string text;  // the line, or the body of a refusal
    absl::Status status;
    int http_status = 0;
    std::optional<Duration> retry_after;
  };

  void SendObject(std::string_view type, const Json& object);
  void SendLine(std::string line);
  void SendBookmark(bool initial_events_end);
  void SendInitialEvents();
  void ScheduleBookmark();
  void Send(Delivery delivery);
  void Deliver(const Delivery& delivery);
  void ExpectLine();
  void CancelTimers();

  SimServer* server_;
  std::shared_ptr<ClientEnd> client_;
  k8s::WatchHandler* handler_;
  ApiRequest request_;
  Duration silence_max_;
  std::optional<Selector> selector_;
  std::optional<Fault> fault_;
  int lines_ = 0;
  MonoTime last_delivery_;
  bool serving_ = false;   // the server still sends
  bool listening_ = true;  // the client still listens
  Executor::TimerId end_timer_ = 0;
  Executor::TimerId bookmark_timer_ = 0;
  Executor::TimerId last_bookmark_timer_ = 0;
  Executor::TimerId silence_timer_ = 0;
};

}  // namespace muster::sim
