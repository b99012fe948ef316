// Saturating amounts, and exact decimal quantities.
//
// Rules: kueue_semantics 3.3 (the greatest 64-bit number is "unlimited" and absorbs), 3.2 (cpu in milli units,
// all else in whole ones, rounded up); resource.Quantity of k8s.io/apimachinery for what texts mean.
#include "muster/core/amount.h"

#include <rapidcheck.h>

#include <boost/multiprecision/cpp_int.hpp>
#include <catch2/catch.hpp>
#include <string>

#include "muster/core/quantity.h"

namespace muster {

namespace {

using Wide = boost::multiprecision::cpp_int;

// What is beyond 64 bits counts as the end of the range.
Amount Saturated(const Wide& value) {
  if (value > INT64_MAX) return Amount::Unlimited();
  if (value < INT64_MIN) return Amount::Lowest();
  return {static_cast<int64_t>(value)};
}

// Ends of the range are frequent, so that sums leave it.
int64_t AnyAmount() {
  const int64_t any = *rc::gen::arbitrary<int64_t>();
  switch (*rc::gen::inRange(0, 4)) {
    case 0:
      return INT64_MAX - (any & 0xff);
    case 1:
      return INT64_MIN + (any & 0xff);
    case 2:
      return any % 1000;
    default:
      return any;
  }
}

Amount Of(const std::string& text, const std::string& resource) {
  const absl::StatusOr<Quantity> quantity = Quantity::Parse(text);
  INFO(text);
  REQUIRE(quantity.ok());
  return quantity->ToAmount(resource);
}

}  // namespace

TEST_CASE("unlimited absorbs what is added and taken, and nothing is left of a limit less it") {
  const Amount unlimited = Amount::Unlimited();
  CHECK(unlimited + Amount{-5} == unlimited);
  CHECK(Amount{-5} + unlimited == unlimited);
  CHECK(unlimited - Amount{7} == unlimited);
  CHECK(unlimited - unlimited == unlimited);
  CHECK(Amount{7} - unlimited == Amount::Lowest());
  CHECK(unlimited * 3 == unlimited);
}

TEST_CASE("amounts saturate at both ends, and are exact between") {
  CHECK(rc::check([] {
    const Amount a{AnyAmount()};
    const Amount b{AnyAmount()};
    const Wide wide_a = a.value;
    const Wide wide_b = b.value;
    if (a.IsUnlimited() || b.IsUnlimited()) return;
    RC_ASSERT(a + b == Saturated(wide_a + wide_b));
    RC_ASSERT(a - b == Saturated(wide_a - wide_b));
    RC_ASSERT(a * b.value == Saturated(wide_a * wide_b));
  }));
}

TEST_CASE("a quantity is what its text says, rounded up to whole units once") {
  CHECK(Of("1", "cpu") == Amount{1000});
  CHECK(Of("0.3", "cpu") == Amount{300});
  CHECK(Of("100m", "cpu") == Amount{100});
  CHECK(Of("0.0001", "cpu") == Amount{1});  // a tenth of a milli unit
  CHECK(Of("1500m", "nvidia.com/gpu") == Amount{2});
  CHECK(Of("2Gi", "memory") == Amount{2147483648});
  CHECK(Of("1.5Gi", "memory") == Amount{1610612736});
  CHECK(Of("1e3", "memory") == Amount{1000});
  CHECK(Of("2E", "memory") == Amount{2'000'000'000'000'000'000});
  CHECK(Of(".5", "cpu") == Amount{500});
  CHECK(Of("+1", "cpu") == Amount{1000});
  CHECK(Of("-4", "cpu") == Amount{-4000});
  CHECK(Of("0", "memory") == Amount{0});
}

TEST_CASE("a quantity beyond 64 bits is unlimited") {
  CHECK(Of("9223372036854775807", "memory") == Amount::Unlimited());
  CHECK(Of("9223372036854775806", "memory") == Amount{INT64_MAX - 1});
  CHECK(Of("9223372036854775808", "memory") == Amount::Unlimited());
  CHECK(Of("1e30", "memory") == Amount::Unlimited());
  // In milli units: a thousandth is enough.
  CHECK(Of("9223372036854775", "cpu") == Amount{9223372036854775000});
  CHECK(Of("9223372036854776", "cpu") == Amount::Unlimited());
  CHECK(Of("8Ei", "memory") == Amount::Unlimited());  // 2^63
}

// As resource.Quantity reads them: what is too small is one nano unit, of exponents the lower 32 bits count.
TEST_CASE("absurd quantities are read as the API server reads them") {
  CHECK(Of("1e-99999999999", "cpu") == Amount{1});  // the lower 32 bits are -1215752191
  CHECK(Of("1e-2000000000", "cpu") == Amount{1});
  CHECK(Of("-1e-2000000000", "cpu") == Amount{-1});
  CHECK(Of("0e-99999999999", "cpu") == Amount{0});
  CHECK(Of("1e2000000000", "memory") == Amount::Unlimited());
  CHECK(Of("-1e2000000000", "memory") == Amount::Lowest());
  CHECK(Of("7e4294967296", "memory") == Amount{7});  // 2^32
  CHECK(Of(std::string(5000, '9'), "memory") == Amount::Unlimited());
  CHECK(Of("0." + std::string(5000, '0') + "1", "memory") == Amount{1});
  CHECK(Of(std::string(5000, '0') + "12", "memory") == Amount{12});
  // More than 64 bits of an exponent are none.
  for (const char* text : {"1e99999999999999999999", "1e-99999999999999999999", "1e1.5", "1ee5", "1e+-5"}) {
    INFO(text);
    CHECK(!Quantity::Parse(text).ok());
  }
}

TEST_CASE("texts that are no quantities are refused") {
  for (const char* text : {"", " 1", "1 ", "one", "1.2.3", "1Kib", "--1", "1e", "0x10", "1,5", "m", ".", "NaN"}) {
    INFO(text);
    CHECK(!Quantity::Parse(text).ok());
  }
}

TEST_CASE("a sum of fractions is exact before it is rounded") {
  Quantity sum;
  for (int i = 0; i < 10; ++i) sum = sum + *Quantity::Parse("0.1");
  CHECK(sum == Quantity::FromInteger(1));
  CHECK((*Quantity::Parse("0.0003") + *Quantity::Parse("0.0004")).ToAmount("cpu") == Amount{1});
  CHECK((*Quantity::Parse("0.3") * *Quantity::Parse("3")).ToAmount("cpu") == Amount{900});
}

TEST_CASE("an amount as text reads as the same amount") {
  CHECK(FormatAmount("cpu", Amount{1500}) == "1500m");
  CHECK(FormatAmount("cpu", Amount{2000}) == "2");
  CHECK(FormatAmount("memory", Amount{2147483648}) == "2Gi");
  CHECK(rc::check([] {
    const Amount amount{*rc::gen::inRange<int64_t>(0, INT64_MAX)};
    const std::string resource = *rc::gen::element<std::string>("cpu", "memory", "nvidia.com/gpu", "pods");
    const absl::StatusOr<Quantity> read = Quantity::Parse(FormatAmount(resource, amount));
    RC_ASSERT(read.ok());
    RC_ASSERT(read->ToAmount(resource) == amount);
  }));
}

}  // namespace muster
