// Asks the API server who a bearer token belongs to (TokenReview) and whether they may read a page
// (SubjectAccessReview), as Kueue's metrics server does. Answers are remembered for a short time; where the API
// server cannot be asked, nobody is let in.
//
// Tokens are remembered as digests only. Strangers cannot crowd out those who were let in before: they have a list
// of their own, and only so many new ones a second are asked about.
//
// Source: controller-runtime's filters.WithAuthenticationAndAuthorization; the two APIs.
// Threading: used from the executor only.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "muster/core/access.h"
#include "muster/core/clock.h"
#include "muster/k8s_client/transport.h"

namespace muster::k8s {

struct AccessReviewOptions {
  Duration allowed_for = std::chrono::minutes(1);
  // Short, so that a right which was just given works.
  Duration refused_for = std::chrono::seconds(10);
  size_t remembered_max = 256;  // of those allowed, and of those refused
  // New questions, beside those that were answered with yes before.
  double new_per_second = 10;
  int new_at_once = 50;
  Duration call_timeout = std::chrono::seconds(4);  // of each of the two
};

class ApiAccessReview final : public AccessReview {
 public:
  // REQUIRES: `transport` and what `env` points to outlive it.
  ApiAccessReview(Environment env, Transport* transport, AccessReviewOptions options = {});
  ~ApiAccessReview() override;
  ApiAccessReview(const ApiAccessReview&) = delete;
  ApiAccessReview& operator=(const ApiAccessReview&) = delete;

  void Ask(AccessQuestion question, Done done) override;

  // Why the last review could not be made; empty where it was. For people who can do something about it.
  const std::string& problem() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::k8s
