#include "collectives/gpu/staging/pinned_staging.h"

#include <new>

#include "transport/cuda/device.h"

namespace rondo::gpu {

Done PinnedStaging::open() {
  const GpuApi& api = *gpu_api();
  void* made = nullptr;
  RONDO_CHECK_OK(check(api.allocate_host(&made, shape_.rank_bytes + sizeof(HostedWords),
                                         kHostPortable | kHostMapped),
                       "cudaHostAlloc for calls through the host"));
  memory_ = static_cast<std::byte*>(made);
  words_ = new (memory_ + shape_.rank_bytes) HostedWords{};
  void* at = nullptr;
  RONDO_CHECK_OK(check(api.host_device_pointer(&at, made), "cudaHostGetDevicePointer"));
  on_device_ = static_cast<std::byte*>(at);
  return done();
}

PinnedStaging::~PinnedStaging() {
  if (memory_ != nullptr) gpu_api()->free_host(memory_);
}

std::uint64_t PinnedStaging::piece_bytes(int ranks) const {
  constexpr std::uint64_t kRound = 64;
  return shape_.quarter() / static_cast<std::uint64_t>(ranks) / kRound * kRound;
}

Done PinnedStaging::write(GpuStream stream, std::uint32_t& word, std::uint32_t value) const {
  return check(gpu_api()->stream_write32(stream, on_device(word), value),
               "cuStreamWriteValue32 (calls through the host need stream memory operations)");
}

Done PinnedStaging::await(GpuStream stream, std::uint32_t& word, std::uint32_t at_least) const {
  return check(
      gpu_api()->stream_wait32(stream, on_device(word), at_least, GpuWait::kGreaterOrEqual),
      "cuStreamWaitValue32 (calls through the host need stream memory operations)");
}

}  // namespace rondo::gpu
