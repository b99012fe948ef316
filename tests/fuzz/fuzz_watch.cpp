// Any bytes as a list and the watch that follows it. The first line is the list's answer; each other line goes
// to the watch that is open then. Nothing may crash, the cache must hold what its handler was told, and the
// informer must go on asking.
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "muster/k8s_client/informer.h"
#include "muster/k8s_client/resources.h"
#include "muster/sim/executor.h"
#include "scripted_transport.h"
#include "spdlog/spdlog.h"

namespace muster::k8s {
namespace {

struct Thing {
  ObjectMeta meta;
};

absl::StatusOr<Thing> Decode(std::string_view json) {
  JsonDocument document(json);
  Thing thing{DecodeMeta(document.root())};
  if (auto status = document.Finish("Thing"); !status.ok()) return status;
  return thing;
}

class World {
 public:
  World() {
    Informer<Thing>::Handler handler;
    handler.upserted = [this](const Informer<Thing>::Ptr& object, const Informer<Thing>::Ptr& previous) {
      MUSTER_CHECK(told_.contains(object->meta.key()) == (previous != nullptr));
      told_[object->meta.key()] = object;
    };
    handler.deleted = [this](const Informer<Thing>::Ptr& last) { MUSTER_CHECK(told_.erase(last->meta.key()) == 1); };
    handler.undecodable = [](const k8s::ObjectMeta&, const absl::Status& status) {
      MUSTER_CHECK(!status.message().empty());
    };
    informer_ = std::make_unique<Informer<Thing>>(executor_.env(), &client_, kJobs, InformerOptions{}, Decode, handler);
    informer_->Start();
  }

  void Feed(std::string_view line) {
    MUSTER_CHECK(executor_.RunUntil([this] { return transport_.pending() > 0 || transport_.watching(); },
                                    std::chrono::minutes(10)));
    if (transport_.pending() > 0) {
      transport_.Answer(200, std::string(line));
    } else if (!line.empty() && line.front() == '!') {
      informer_->Observe(line.substr(1));
    } else {
      transport_.Open();
      transport_.Line(std::string(line));
    }
    executor_.RunReady();
    MUSTER_CHECK(told_ == informer_->objects());
  }

 private:
  sim::SimExecutor executor_{1};
  ScriptedTransport transport_{&executor_};
  Client client_{executor_.env(), &transport_, {}};
  std::map<ObjectKey, Informer<Thing>::Ptr> told_;
  std::unique_ptr<Informer<Thing>> informer_;
};

}  // namespace
}  // namespace muster::k8s

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  spdlog::set_level(spdlog::level::off);
  std::string_view text(reinterpret_cast<const char*>(data), size);
  muster::k8s::World world;
  for (int lines = 0; !text.empty() && lines < 100; ++lines) {
    const size_t end = std::min(text.find('\n'), text.size());
    world.Feed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return 0;
}
