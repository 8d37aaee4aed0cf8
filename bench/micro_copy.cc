// SPDX-License-Identifier: Apache-2.0
// Copies as the executors make them: through the caches, and past them (stream).
//
//   build/release/bin/micro_copy
// `stream` is faster once source and target together are larger than the cache.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <vector>

#include "kernels/host/simd/reduce_kernels.h"

namespace {

void copy(benchmark::State& state, bool stream) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const auto shift =
      static_cast<std::size_t>(state.range(1));  // bytes from a cache line, of both buffers
  std::vector<std::byte> from(bytes + 128, std::byte{1}), to(bytes + 128);
  const auto aligned = [&](std::vector<std::byte>& buffer) {
    const auto at = reinterpret_cast<std::uintptr_t>(buffer.data());
    return buffer.data() + (64 - at % 64) % 64 + shift;
  };
  for (auto _ : state) {
    rondo::host::copy_bytes(aligned(to), aligned(from), bytes, stream);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes));
}
BENCHMARK_CAPTURE(copy, cached, false)
    ->ArgsProduct({{1 << 10, 64 << 10, 1 << 20, 64 << 20}, {0, 16}});
BENCHMARK_CAPTURE(copy, stream, true)
    ->ArgsProduct({{1 << 10, 64 << 10, 1 << 20, 64 << 20}, {0, 16}});

}  // namespace

BENCHMARK_MAIN();
