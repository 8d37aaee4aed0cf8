// SPDX-License-Identifier: Apache-2.0
// Speed of the host's reduction and copy kernels, in cache and in memory.
//
//   build/release/bin/micro_reduce --benchmark_filter='sum/float32'
//
// Names are sum/<type>/<sources>/<bytes per buffer>; bytes_per_second counts each byte read and
// each byte written once. Buffers of 32 KiB stay in the second-level cache up to 8 sources; 64 MiB
// does not fit any cache. memcpy and plain_add (a plain loop, compiled for the same instruction
// set) are the reference.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "kernels/host/simd/reduce_kernels.h"
#include "kernels/host/simd/simd_target.h"

namespace {

using rondo::DataType;
using rondo::RedOp;

constexpr std::size_t kInCache = 32u << 10;
constexpr std::size_t kInMemory = 64u << 20;

struct Free {
  void operator()(void* p) const { std::free(p); }
};
using Buffer = std::unique_ptr<void, Free>;

// Each buffer starts a few cache lines further into its page than the previous one: with equal page
// offsets, loads wait for unrelated stores.
class Buffers {
 public:
  void* make(std::size_t bytes) {
    const std::size_t offset = 256 * (made_.size() % 8);
    const std::size_t whole = (bytes + offset + 4095) / 4096 * 4096;
    made_.emplace_back(std::aligned_alloc(4096, whole));
    std::memset(made_.back().get(), 0x3a, whole);  // a normal number in every float type
    return static_cast<char*>(made_.back().get()) + offset;
  }

 private:
  std::vector<Buffer> made_;
};

void reduce(benchmark::State& state, DataType type, RedOp op, int n, std::size_t bytes,
            int target_count, bool stream) {
  Buffers buffers;
  std::vector<const void*> sources;
  std::vector<void*> targets;
  for (int s = 0; s < n; ++s) sources.push_back(buffers.make(bytes));
  for (int t = 0; t < target_count; ++t) targets.push_back(buffers.make(bytes));
  const auto function = rondo::host::reduce_function(type, op);
  const rondo::host::ReduceArgs args{sources.data(),        n, targets.data(), target_count,
                                     bytes / size_of(type), n, true,           stream};
  for (auto _ : state) {
    function(args);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes) *
                          (n + target_count));
}

void copy(benchmark::State& state, std::size_t bytes, bool stream) {
  Buffers buffers;
  const void* from = buffers.make(bytes);
  void* to = buffers.make(bytes);
  for (auto _ : state) {
    rondo::host::copy_bytes(to, from, bytes, stream);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes) * 2);
}

void add_loop(float* __restrict out, const float* a, const float* b, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) out[i] = a[i] + b[i];
}
#if defined(__x86_64__)
#define RONDO_LOOP_FOR(name, isa)                                                               \
  __attribute__((target(isa), optimize("O3"))) void name(float* __restrict out, const float* a, \
                                                         const float* b, std::size_t count) {   \
    for (std::size_t i = 0; i < count; ++i) out[i] = a[i] + b[i];                               \
  }
RONDO_LOOP_FOR(add_loop_avx2, "avx2")
RONDO_LOOP_FOR(add_loop_avx512, "avx512f,prefer-vector-width=512")
#endif

void plain_add(benchmark::State& state, std::size_t bytes) {
  Buffers buffers;
  const auto* a = static_cast<float*>(buffers.make(bytes));
  const auto* b = static_cast<float*>(buffers.make(bytes));
  auto* out = static_cast<float*>(buffers.make(bytes));
  auto* loop = add_loop;
#if defined(__x86_64__)
  const auto target = rondo::host::current_simd_target();
  if (target == rondo::host::SimdTarget::kAvx2) loop = add_loop_avx2;
  if (target == rondo::host::SimdTarget::kAvx3) loop = add_loop_avx512;
#endif
  for (auto _ : state) {
    loop(out, a, b, bytes / sizeof(float));
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes) * 3);
}

template <class... Args>
void add(const std::string& name, Args... args) {
  benchmark::RegisterBenchmark(name.c_str(), args...)->Unit(benchmark::kMicrosecond);
}

void add_reduce(DataType type, RedOp op, int n, std::size_t bytes, int targets = 1,
                bool stream = false) {
  std::string text = std::string(name(op)) + "/" + name(type) + "/" + std::to_string(n) + "/" +
                     std::to_string(bytes);
  if (targets > 1) text += "/targets:" + std::to_string(targets);
  if (stream) text += "/stream";
  add(text, [=](benchmark::State& s) { reduce(s, type, op, n, bytes, targets, stream); });
}

void add_all() {
  for (const std::size_t bytes : {kInCache, kInMemory}) {
    for (const bool stream : {false, true}) {
      const std::string kind = stream ? "copy/stream/" : "copy/memcpy/";
      add(kind + std::to_string(bytes), [=](benchmark::State& s) { copy(s, bytes, stream); });
    }
    add("plain_add/" + std::to_string(bytes), [=](benchmark::State& s) { plain_add(s, bytes); });
    for (const DataType type : {DataType::kFloat32, DataType::kInt32, DataType::kBfloat16,
                                DataType::kFloat16, DataType::kFloat8e4m3, DataType::kFloat8e5m2}) {
      for (const int n : {2, 3, 4, 5, 8, 16}) add_reduce(type, RedOp::kSum, n, bytes);
    }
    add_reduce(DataType::kFloat32, RedOp::kSum, 2, bytes, 2);
    add_reduce(DataType::kFloat32, RedOp::kAvg, 2, bytes);
    add_reduce(DataType::kFloat32, RedOp::kMax, 2, bytes);
    add_reduce(DataType::kInt32, RedOp::kAvg, 2, bytes);
    add_reduce(DataType::kFloat32, RedOp::kSum, 2, bytes, 1, true);
    add_reduce(DataType::kFloat32, RedOp::kSum, 8, bytes, 1, true);
  }
  for (const std::size_t bytes : {4, 64, 100, 1024}) {
    add_reduce(DataType::kFloat32, RedOp::kSum, 2, bytes);
    add_reduce(DataType::kFloat32, RedOp::kSum, 8, bytes);
  }
}

}  // namespace

int main(int argc, char** argv) {
  add_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::AddCustomContext("simd", rondo::host::simd_target());
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
