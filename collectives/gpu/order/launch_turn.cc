#include "collectives/gpu/order/launch_turn.h"

#include <map>

#include "base/env.h"
#include "transport/cuda/stream_event.h"

namespace rondo::gpu {
namespace {

struct Newest {
  StreamEvent event;
  const void* owner = nullptr;
};
struct Launches {
  std::mutex mutex;
  std::map<int, Newest> of_device;
};
Launches& launches_of_process() {
  static auto& all = *new Launches;  // never destroyed: the driver may have been unloaded by then
  return all;
}

}  // namespace

bool LaunchTurn::is_wanted() { return env::get_bool("NCCL_LAUNCH_ORDER_IMPLICIT"); }

LaunchTurn::LaunchTurn(const void* owner, bool taken) : owner_(owner) {
  if (taken) lock_ = std::unique_lock(launches_of_process().mutex);
}

Status LaunchTurn::begin(int device, GpuStream stream) {
  if (!lock_) return ok_status();
  Newest& newest = launches_of_process().of_device[device];
  if (newest.event.get() == nullptr) RONDO_CHECK_OK(newest.event.open());
  return newest.owner != owner_ ? newest.event.hold(stream) : ok_status();
}

Status LaunchTurn::end(int device, GpuStream stream) {
  if (!lock_) return ok_status();
  Newest& newest = launches_of_process().of_device[device];
  newest.owner = owner_;
  return newest.event.record(stream);
}

}  // namespace rondo::gpu
