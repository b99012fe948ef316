// Calls over cpprestsdk, with its traps closed. What was found in its source (2.10.18):
//
// * A connection may be closed by a time-out or a cancellation while another thread of the pool works on
//   it, without a lock. So the pool has one thread, and everything of cpprestsdk happens on it.
// * Its timeout() starts anew with every block of data and does not cover name resolution. So each call has
//   a timer of its own on the executor; a call that ends by it is cancelled, and what it still does is
//   ignored.
// * A pooled connection that the server has closed is noticed only when the answer is read; the request is
//   then sent again. So a closed connection is looked for before it is used, and dropped. Where the close
//   crosses the request, a read may be sent again; of a write nobody can know whether it was applied, so it
//   ends unknown. A request without a body cannot be held back then, so a write has one.
// * The progress handler runs right before the body is written. It tells "certainly not sent" from "may
//   have been", and stops a call whose time is over, so that no write leaves after its end was reported. It looks
//   at the clock itself: in a process that was paused, the executor's timers run late.
// * A chunk of negative length would make it write outside of its buffer; the progress handler sees the
//   count go wrong before that.
// * TLS is set up anew for each connection by a callback: it only shares what was parsed before, and the
//   system's authorities are kept out of its way (SpareSystemAuthorities).
// * Redirects would carry the credentials along: none is followed.
// * "[::1]" is handed to the resolver with its brackets: IPv6 addresses are refused by name.
//
// Threading: used from the executor only; callbacks run there, never inside the call.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "http_address.h"
#include "http_tls.h"
#include "muster/core/clock.h"
#include "muster/k8s_client/transport.h"

namespace muster::k8s {

class CpprestCalls {
 public:
  // `tls` null: plain HTTP.
  CpprestCalls(Environment env, const ServerAddress& address, std::shared_ptr<const TlsSettings> tls,
               std::string user_agent, int64_t response_bytes_max);
  // Ends what is under way; no callback follows. Waits for the ended calls to be gone, two seconds at most.
  ~CpprestCalls();
  CpprestCalls(const CpprestCalls&) = delete;
  CpprestCalls& operator=(const CpprestCalls&) = delete;

  struct Limits {
    MonoTime deadline;  // the call ends then at the latest
    MonoTime leave_by;  // a body that has not left by then is not sent
  };

  // `token` empty: none is sent.
  void Start(std::shared_ptr<const HttpRequest> request, const std::string& token, Limits limits, Transport::Done done);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::k8s
