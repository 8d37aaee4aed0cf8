// SPDX-License-Identifier: Apache-2.0
// Writer: a kernel that writes much on all but some multiprocessors, beside what a probe measures.
//
//   Writer writer;      // before anything runs: allocations may wait for kernels
//   writer.begin(8);    // from here on it writes, for at most 3 s
//   ...
//   writer.end();       // gives up if it has not written all along
#pragma once

#include "bounded.h"

namespace probe {

// Writes all of `at` repeatedly until *release, for at most `ns`.
[[maybe_unused]] static __global__ void write_much(gpu::Vector* at, std::size_t count,
                                                   const std::uint32_t* release,
                                                   std::uint32_t* running, std::uint64_t ns) {
  const std::uint64_t end = gpu::timer_ns() + ns;
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  if (blockIdx.x == 0 && threadIdx.x == 0) gpu::add_relaxed<Scope::kSystem>(running, 1u);
  for (std::uint32_t turn = 0;; ++turn) {
    const bool over = threadIdx.x == 0 &&
                      (gpu::load_relaxed<Scope::kSystem>(release) != 0 || gpu::timer_ns() > end);
    if (__syncthreads_or(over) != 0) return;
    for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
         i += step)
      gpu::store(at + i, gpu::Vector{{turn, turn, turn, turn}});
  }
}

class Writer {
 public:
  Writer() {  // the first launch of a kernel may wait for another one
    write_much<<<1, 32>>>(data_, 32, words_ + 64, words_, 0);
    PROBE(cudaDeviceSynchronize());
  }
  void begin(unsigned free_multiprocessors) {
    poke(words_, 0u);
    poke(words_ + 64, 0u);
    write_much<<<multiprocessors() - free_multiprocessors, 1024, 0, stream_>>>(
        data_, kVectors, words_ + 64, words_, 3000 * kMillisecond);
    if (!comes(words_, 1, 1)) give_up("the writing kernel did not begin within 1 s");
  }
  void end() {
    const bool wrote_all_along = cudaStreamQuery(stream_) == cudaErrorNotReady;
    poke(words_ + 64, 1u);
    PROBE(cudaStreamSynchronize(stream_));
    if (!wrote_all_along) give_up("the writing kernel ended before what it ran beside");
  }

 private:
  static constexpr std::size_t kVectors = (256 << 20) / sizeof(gpu::Vector);

  cudaStream_t stream_ = new_stream();
  gpu::Vector* data_ = new_device<gpu::Vector>(kVectors);
  std::uint32_t* words_ = new_pinned<std::uint32_t>(128);  // it runs; it is to end
};

}  // namespace probe
