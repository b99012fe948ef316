// Kubernetes quantities ("1500m", "2Gi", "1e3", ".5"), exact.
//
// Source: k8s.io/apimachinery resource.Quantity; kueue_semantics 3.2-3.3; the notes of oracle category 12.
// Threading: values.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "muster/core/amount.h"

namespace muster {

// An exact decimal number. Parsing rounds what is finer than one nano unit (1n) up, away from zero, as the
// API server does; binary-suffix values are capped at 2^63-1, decimal ones are not. Sums and products of up
// to three parsed quantities are exact.
class Quantity {
 public:
  Quantity() = default;
  static Quantity FromInteger(int64_t units);

  // ON FAILURE: InvalidArgument that names the text.
  static absl::StatusOr<Quantity> Parse(std::string_view text);

  // In base units of `resource` (milli for "cpu", whole units otherwise), rounded up, away from zero,
  // saturating at Amount::Unlimited(). The sign is kept.
  Amount ToAmount(std::string_view resource) const;

  bool IsZero() const;
  bool IsNegative() const;

  friend Quantity operator+(const Quantity& a, const Quantity& b);
  friend Quantity operator-(const Quantity& a, const Quantity& b);
  // What is finer than the last decimal that is kept is rounded up.
  friend Quantity operator*(const Quantity& a, const Quantity& b);
  friend bool operator==(const Quantity& a, const Quantity& b);
  friend bool operator<(const Quantity& a, const Quantity& b);

 private:
  struct Value;  // an integer of any length; its header is a long one, and stays out of this one
  explicit Quantity(std::shared_ptr<const Value> value) : value_(std::move(value)) {}
  static Quantity Of(Value value);
  const Value& value() const;

  std::shared_ptr<const Value> value_;  // never changed once made; null: zero
};

// An amount as the canonical quantity text of that resource: 1500 of cpu -> "1500m", 2000 -> "2";
// bytes of memory, storage and hugepages with a binary suffix where exact ("2Gi"), all else decimal
// ("4", "4k", as resource.Quantity prints a DecimalSI value).
std::string FormatAmount(std::string_view resource, Amount amount);

}  // namespace muster
