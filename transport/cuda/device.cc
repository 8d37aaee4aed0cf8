#include "transport/cuda/device.h"

#include <cstdlib>
#include <string>

#include "base/env.h"
#include "topology/graph/graph.h"

namespace rondo::gpu {

Done check(GpuError error, const char* what) {
  if (error == kGpuSuccess) return done();
  const GpuApi& api = *gpu_api();
  const char* remedy = error == kGpuOutOfMemory ? "; free device memory, or use fewer ranks" : "";
  return fail(Status::kUnhandledCudaError, "CUDA failure: {} ({}) in {}{}", api.error_text(error),
              api.error_name(error), what, remedy);
}

std::string bus_id_of(int device) {
  char text[32] = "";
  if (gpu_api()->pci_bus_id(text, sizeof(text), device) != kGpuSuccess) return "";
  return topology::normal_bus_id(text);
}

namespace {

// Of this thread, inside of a scope: which device is current, and whether nobody relies on it.
constexpr int kUnknown = -1;
struct Entered {
  int device = kUnknown;
  bool any = false;
};
thread_local Entered entered_here;
// A new thread has device 0, but no context before its first call of the runtime: calls of the
// driver would fail.
thread_local bool has_context = false;

}  // namespace

DeviceScope::DeviceScope()
    : outermost_(entered_here.device == kUnknown), in_any_(entered_here.any) {
  if (outermost_) entered_ = check(gpu_api()->get_device(&entered_here.device), "cudaGetDevice");
  before_ = entered_here.device;
  entered_here.any = true;
}

DeviceScope::DeviceScope(int device) : DeviceScope() {
  entered_here.any = false;
  if (!entered_.ok() || (has_context && before_ == device)) return;
  entered_ = check(gpu_api()->set_device(device), "cudaSetDevice");
  if (!entered_.ok()) return;
  entered_here.device = device;
  has_context = true;
}

DeviceScope::~DeviceScope() {
  entered_here.any = in_any_;
  if (in_any_ && !outermost_) return;
  if (entered_here.device != before_) gpu_api()->set_device(before_);
  entered_here.device = outermost_ ? kUnknown : before_;
}

bool blocking_launches() {
  static const bool blocking = [] {
    const char* const set = std::getenv("CUDA_LAUNCH_BLOCKING");
    return set != nullptr && std::atoi(set) != 0;
  }();
  return blocking;
}

Result<int> device_for_new_rank() {
  const std::string wanted = env::get_string("RONDO_DEVICE");
  if (wanted == "host") return kHostRank;
  if (!wanted.empty())
    return fail(Status::kInvalidUsage, "RONDO_DEVICE is '{}': use host, or leave it unset", wanted);
  const GpuApi* api = gpu_api();
  if (api == nullptr) return kHostRank;
  int device = kHostRank;
  RONDO_CHECK_OK(check(api->get_device(&device), "cudaGetDevice"));
  return device;
}

}  // namespace rondo::gpu
