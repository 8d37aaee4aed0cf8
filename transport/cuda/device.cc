#include "transport/cuda/device.h"

#include <cstdlib>
#include <string>

#include "base/env.h"

namespace rondo::gpu {

Done check(GpuError error, const char* what) {
  if (error == kGpuSuccess) return done();
  const GpuApi& api = *gpu_api();
  const char* remedy = error == kGpuOutOfMemory ? "; free device memory, or use fewer ranks" : "";
  return fail(Status::kUnhandledCudaError, "CUDA failure: {} ({}) in {}{}", api.error_text(error),
              api.error_name(error), what, remedy);
}

DeviceScope::DeviceScope(int device) {
  const GpuApi& api = *gpu_api();
  entered_ = check(api.get_device(&before_), "cudaGetDevice");
  if (!entered_.ok() || before_ == device) return;
  entered_ = check(api.set_device(device), "cudaSetDevice");
  changed_ = entered_.ok();
}

DeviceScope::~DeviceScope() {
  if (changed_) gpu_api()->set_device(before_);
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
