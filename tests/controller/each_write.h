// A life that is played once for each write in it: the write fails in each way, or the process dies at it. Muster
// decides over queues of 4 cpus, over which a Referee(World*, cpus) watches; and all comes to rest afterwards.
//
// Threading: one thread.
#pragma once

#include <catch2/catch.hpp>
#include <functional>
#include <utility>
#include <vector>

#include "drills.h"
#include "world.h"

namespace muster::controller {

// Each of `writes`, as verb and resource, fails three times in each way before live(world, muster, referee) gets its
// own through. All that it makes has to end.
template <typename Referee, typename Live>
void FailEachWrite(const std::vector<std::pair<const char*, const char*>>& writes, const Live& live) {
  for (const auto& [verb, resource] : writes) {
    for (const Way& way : AllWays()) {
      DYNAMIC_SECTION(verb << " " << resource << " " << way.Name()) {
        World world;
        Referee referee(&world, 4);
        Process& muster = world.Start();
        world.MakeQueues("4");
        const auto id = world.server.faults().Add(Strike(way, verb, resource, 3));
        live(world, muster, referee);
        CHECK(world.server.faults().hits(id) >= 2);  // a life may have no third write of the kind
        AtRest(world, muster);
      }
    }
  }
}

// Runs the first process until it dies, at its write or at this limit; `meanwhile` is done again and again.
using AwaitDeath = std::function<void(Duration limit, const std::function<void()>& meanwhile)>;

// The first process dies at each of its first `points` writes, Events apart: as the write leaves, or once it is
// applied. live(world, referee, await_death) makes what is written about, starts the next process, and sees to it that
// all ends.
template <typename Referee, typename Live>
void DieAtEachWrite(int points, const Live& live) {
  for (int point = 0; point < points; ++point) {
    for (const bool applied : {false, true}) {
      DYNAMIC_SECTION("write " << point << (applied ? ", after" : ", before")) {
        World world(static_cast<uint64_t>(point) + 1);
        Referee referee(&world, 4);
        Process& first = world.Start();
        world.MakeQueues("4");
        const WriteCounter writes(&world, applied ? sim::SimServer::Phase::kApplied : sim::SimServer::Phase::kSent);
        live(world, referee, [&](Duration limit, const std::function<void()>& meanwhile) {
          world.RunUntil(
              [&] {
                meanwhile();
                return writes.seen() > point;
              },
              limit);
          world.Kill(first);
        });
        AtRest(world, *world.processes.back());
      }
    }
  }
}

// As many writes as a life has: play(number, phase) lives it with a process that dies as that write leaves, or once it
// is applied, and says whether there was such a write. RETURNS: how many there were, of both phases.
template <typename Play>
int PlayEachWrite(const Play& play) {
  int points = 0;
  for (const auto phase : {sim::SimServer::Phase::kSent, sim::SimServer::Phase::kApplied}) {
    for (int point = 0;; ++point) {
      INFO("write " << point << (phase == sim::SimServer::Phase::kApplied ? ", after" : ", before"));
      if (!play(point, phase)) break;
      ++points;
    }
  }
  return points;
}

}  // namespace muster::controller
