// SPDX-License-Identifier: Apache-2.0
// PinnedStaging: pinned memory by which a stream and the host pass a call's data and words
// (hosted_words.h), in two halves that steps use in turn.
//
// It outlives the streams' work that uses it (own_memory.h). Cost: one allocation; a stream memory
// operation per word.
#pragma once

#include <cstdint>
#include <new>

#include "base/gpu.h"
#include "base/result.h"
#include "collectives/gpu/staging/hosted_words.h"
#include "kernels/cuda/shared_args.h"
#include "transport/cuda/device.h"
#include "transport/memory/own_memory.h"
#include "transport/memory/pinned_file.h"

namespace rondo::gpu {

class PinnedStaging {
 public:
  explicit PinnedStaging(std::uint64_t bytes) : shape_{bytes} {}
  PinnedStaging(const PinnedStaging&) = delete;
  PinnedStaging& operator=(const PinnedStaging&) = delete;

  // On the current device.
  Status open() {
    RONDO_TRY(memory_, allocate_pinned(shape_.rank_bytes + sizeof(HostedWords),
                                       "cudaHostAlloc for calls through the host"));
    words_ = new (memory_.get() + shape_.rank_bytes) HostedWords{};
    RONDO_TRY(on_device_, address_on_device(memory_));
    return ok_status();
  }

  const cuda::StagingShape& shape() const { return shape_; }
  HostedWords& words() const { return *words_; }
  std::byte* input(std::uint64_t step) const { return memory_.get() + shape_.input(0, step); }
  std::byte* output(std::uint64_t step) const { return memory_.get() + shape_.output(0, step); }
  // Maximum bytes of a message in one step if each of `ranks` has a piece: whole elements of every
  // type.
  std::uint64_t piece_bytes(int ranks) const {
    constexpr std::uint64_t kRound = 64;
    return shape_.quarter() / static_cast<std::uint64_t>(ranks) / kRound * kRound;
  }

  // On a stream: write() stores a word; await() waits until a word is at least `at_least`.
  Status write(GpuStream stream, std::uint32_t& word, std::uint32_t value) const {
    return check(gpu_api()->stream_write32(stream, on_device(word), value),
                 "cuStreamWriteValue32 (calls through the host need stream memory operations)");
  }
  Status await(GpuStream stream, std::uint32_t& word, std::uint32_t at_least) const {
    return check(
        gpu_api()->stream_wait32(stream, on_device(word), at_least, GpuWait::kGreaterOrEqual),
        "cuStreamWaitValue32 (calls through the host need stream memory operations)");
  }

 private:
  std::byte* on_device(std::uint32_t& word) const {
    return on_device_ + (reinterpret_cast<std::byte*>(&word) - memory_.get());
  }

  const cuda::StagingShape shape_;
  OwnMemory memory_;
  std::byte* on_device_ = nullptr;  // address for streams
  HostedWords* words_ = nullptr;
};

}  // namespace rondo::gpu
