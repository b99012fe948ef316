#include "muster/core/clock.h"

#include <catch2/catch.hpp>

namespace muster {
namespace {

TEST_CASE("the seeded sequence is splitmix64") {
  // Published for seed 1234567 (Rosetta Code, "Pseudo-random numbers/Splitmix64").
  SeededRandom random(1234567);
  CHECK(random.Next() == 6457827717110365317ULL);
  CHECK(random.Next() == 3203168211198807973ULL);
  CHECK(random.Next() == 9817491932198370423ULL);
}

TEST_CASE("jitter stays within its bounds") {
  SeededRandom random(1);
  bool above_half = false;
  for (int i = 0; i < 1000; ++i) {
    const Duration d = random.Jitter(std::chrono::seconds(2), 120);
    CHECK(d >= std::chrono::seconds(2));
    CHECK(d <= std::chrono::milliseconds(4400));
    above_half = above_half || d > std::chrono::milliseconds(3200);
  }
  CHECK(above_half);
  CHECK(random.Jitter(Duration(0), 120) == Duration(0));
}

TEST_CASE("the system's clocks move forward") {
  const SystemClock clock;
  const MonoTime before = clock.Mono();
  CHECK(clock.Mono() >= before);
  // 2020-01-01: a clock that counts from another epoch would be far off.
  CHECK(clock.Now().unix_nanos > 1'577'836'800'000'000'000);
}

}  // namespace
}  // namespace muster
