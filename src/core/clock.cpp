#include "muster/core/clock.h"

#include <chrono>
#include <random>

namespace muster {

WallTime SystemClock::Now() const {
  return {std::chrono::duration_cast<Duration>(std::chrono::system_clock::now().time_since_epoch()).count()};
}

MonoTime SystemClock::Mono() const {
  return {std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch()).count()};
}

SeededRandom SeededRandom::FromSystem() {
  std::random_device device;
  return SeededRandom(uint64_t{device()} << 32 | device());
}

uint64_t SeededRandom::Next() {
  // splitmix64, Steele, Lea and Flood 2014.
  uint64_t z = state_ += 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

}  // namespace muster
