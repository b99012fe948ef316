// What Muster does to the API while nothing goes wrong: few writes, each seen in the audit log, and Kueue's words.
#include <catch2/catch.hpp>
#include <thread>

#include "fixture/text.h"
#include "world.h"

namespace muster::campaign {
namespace {

using cluster::AuditEvent;
using cluster::Cat;
using std::chrono::seconds;

int Sum(const std::map<std::string, int>& writes, std::string_view prefix) {
  int sum = 0;
  for (const auto& [key, count] : writes) sum += key.starts_with(prefix) ? count : 0;
  return sum;
}

std::string Print(const std::map<std::string, int>& writes) {
  std::string text;
  for (const auto& [key, count] : writes) text += Cat(count, " ", key, "\n");
  return text;
}

TEST_CASE("A Job that fits is started by one write, and its whole life takes four") {
  World& world = Shared();
  const Run run;
  world.MakeQueue("calm", 4);
  world.Submit("calm", {.name = "fits", .pods = 4, .run_seconds = "3"});
  REQUIRE(world.Await([&] { return world.Condition("calm", "fits", "Admitted")["status"].Str() == "True"; }));
  CHECK(world.Condition("calm", "fits", "QuotaReserved")["reason"].Str() == "QuotaReserved");
  CHECK(world.Condition("calm", "fits", "Admitted")["reason"].Str() == "Admitted");
  REQUIRE(world.AwaitEnd("calm"));
  REQUIRE(world.Await([&] { return world.Condition("calm", "fits", "Finished")["status"].Str() == "True"; }));
  CHECK(world.Condition("calm", "fits", "Finished")["reason"].Str() == "Succeeded");
  world.CheckRecount("calm");

  CHECK(world.watched().Starts("calm", "fits") == 1);
  const std::map<std::string, int> writes = world.Writes("calm");
  INFO(Print(writes));
  CHECK(writes.at("patch jobs fits") == 1);
  CHECK(Sum(writes, "create workloads") == 1);
  CHECK(Sum(writes, "patch workloads/status") == 2);
  CHECK(Sum(writes, "") - Sum(writes, "patch localqueues/status") == 4);
}

TEST_CASE("With room for one Job the second waits, is told why, and starts when the first has ended") {
  World& world = Shared();
  const Run run;
  world.MakeQueue("pair", 4);
  world.Submit("pair", {.name = "first", .pods = 3, .run_seconds = "8"});
  REQUIRE(world.Await([&] { return world.Running("pair", "first"); }));
  world.Submit("pair", {.name = "second", .pods = 2});
  REQUIRE(world.Await([&] { return !world.Condition("pair", "second", "QuotaReserved").IsNull(); }));
  const Json waits = world.Condition("pair", "second", "QuotaReserved");
  CHECK(waits["status"].Str() == "False");
  CHECK(waits["reason"].Str() == "WaitingForQuota");
  // 4 - 3 = 1 is free, 2 are needed: one more is missing.
  CHECK_THAT(waits["message"].Str(), Catch::Contains("insufficient unused quota for nvidia.com/gpu in flavor h100, "
                                                     "1 more needed"));
  CHECK(world.Waiting("pair", "second"));
  REQUIRE(world.AwaitEnd("pair"));
  CHECK(world.watched().Starts("pair", "first") == 1);
  CHECK(world.watched().Starts("pair", "second") == 1);
  CHECK(world.watched().MostGpus("pair") == 3);
  world.CheckRecount("pair");
}

TEST_CASE("While Jobs wait and nothing happens, only the lease is written") {
  World& world = Shared();
  const Run run;
  world.MakeQueue("quiet", 1);
  for (int i = 0; i < 20; ++i) world.Submit("quiet", {.name = Cat("big-", i), .pods = 2});
  world.CheckRecount("quiet");
  for (int i = 0; i < 20; ++i) {
    REQUIRE(world.Await(
        [&] { return world.Condition("quiet", Cat("big-", i), "QuotaReserved")["status"].Str() == "False"; }));
  }
  cluster::AuditLog audit = world.cluster().Audit();
  const auto writes = [&] {
    std::map<std::string, int> found;
    for (const AuditEvent& event : audit.Next()) {
      if (event.user == kMusterUser && event.IsWrite()) ++found[WriteKey(event)];
    }
    return found;
  };
  // Events and the status of queues come a little later: the last of them is awaited.
  std::map<std::string, int> last = writes();
  REQUIRE(world.Await(
      [&] {
        std::this_thread::sleep_for(seconds(3));
        last = writes();
        UNSCOPED_INFO(Print(last));
        return Sum(last, "") == Sum(last, "update leases");
      },
      seconds(40)));
  writes();
  std::this_thread::sleep_for(seconds(15));
  const std::map<std::string, int> late = writes();
  INFO(Print(late));
  CHECK(Sum(late, "update leases") > 0);
  CHECK(Sum(late, "") == Sum(late, "update leases"));
}

}  // namespace
}  // namespace muster::campaign
