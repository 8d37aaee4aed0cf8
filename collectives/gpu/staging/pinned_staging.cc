// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/staging/pinned_staging.h"

#include <new>

#include "transport/cuda/device.h"
#include "transport/memory/pinned_file.h"

namespace rondo::gpu {

Status PinnedStaging::open() {
  RONDO_TRY(memory_, allocate_pinned(shape_.rank_bytes + sizeof(HostedWords),
                                     "cudaHostAlloc for calls through the host"));
  words_ = new (memory_.get() + shape_.rank_bytes) HostedWords{};
  RONDO_TRY(on_device_, address_on_device(memory_));
  return ok_status();
}

std::uint64_t PinnedStaging::piece_bytes(int ranks) const {
  constexpr std::uint64_t kRound = 64;
  return shape_.quarter() / static_cast<std::uint64_t>(ranks) / kRound * kRound;
}

Status PinnedStaging::write(GpuStream stream, std::uint32_t& word, std::uint32_t value) const {
  return check(gpu_api()->stream_write32(stream, on_device(word), value),
               "cuStreamWriteValue32 (calls through the host need stream memory operations)");
}

Status PinnedStaging::await(GpuStream stream, std::uint32_t& word, std::uint32_t at_least) const {
  return check(
      gpu_api()->stream_wait32(stream, on_device(word), at_least, GpuWait::kGreaterOrEqual),
      "cuStreamWaitValue32 (calls through the host need stream memory operations)");
}

}  // namespace rondo::gpu
