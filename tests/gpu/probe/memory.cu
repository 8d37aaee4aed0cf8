// Memory: torn lines, the time of a hop between CTAs, copy bandwidth against CTAs and unrolling.
#include "probe.h"

namespace probe {
namespace {

__device__ void store16(uint4* at, unsigned v) {
  asm volatile("st.relaxed.sys.global.v4.u32 [%0], {%1, %1, %1, %1};" ::"l"(at), "r"(v) : "memory");
}
__device__ uint4 load16(const uint4* at) {
  uint4 v;
  asm volatile("ld.relaxed.sys.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(at)
               : "memory");
  return v;
}

// CTA 0 writes lines of 128 bytes (8 lanes, one instruction), the others read them. A line is torn
// if two of its 16-byte parts differ, a vector if its words do.
__global__ void tear(uint4* lines, unsigned long long tries, unsigned long long* torn) {
  const unsigned lane = threadIdx.x % 8, line = threadIdx.x / 8;
  uint4* at = lines + line * 8 + lane;
  unsigned long long vectors = 0, whole = 0;
  if (blockIdx.x == 0) {
    for (unsigned long long i = 0; i < tries; ++i) store16(at, static_cast<unsigned>(i));
    return;
  }
  for (unsigned long long i = 0; i < tries; ++i) {
    const uint4 v = load16(at);
    vectors += v.x != v.y || v.x != v.z || v.x != v.w;
    const unsigned first = __shfl_sync(~0u, v.x, threadIdx.x % 32 / 8 * 8);
    whole += v.x != first;
  }
  atomicAdd(torn, vectors);
  atomicAdd(torn + 1, whole);
}

__global__ void ping_pong(uint2* lines, unsigned rounds) {
  uint2* mine = lines + blockIdx.x * 64;
  uint2* other = lines + (1 - blockIdx.x) * 64;
  for (unsigned i = 1; i <= rounds; ++i) {
    if (blockIdx.x == 0)
      asm volatile("st.relaxed.sys.global.v2.u32 [%0], {%1, %1};" ::"l"(other), "r"(i) : "memory");
    uint2 v{};
    do {
      asm volatile("ld.relaxed.sys.global.v2.u32 {%0, %1}, [%2];"
                   : "=r"(v.x), "=r"(v.y)
                   : "l"(mine)
                   : "memory");
    } while (v.y != i);
    if (blockIdx.x == 1)
      asm volatile("st.relaxed.sys.global.v2.u32 [%0], {%1, %1};" ::"l"(other), "r"(i) : "memory");
  }
}

template <int unroll>
__global__ void copy(uint4* to, const uint4* from, std::size_t count) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i + (unroll - 1) * step < count; i += unroll * step) {
    uint4 v[unroll];
#pragma unroll
    for (int u = 0; u < unroll; ++u) v[u] = from[i + u * step];
#pragma unroll
    for (int u = 0; u < unroll; ++u) to[i + u * step] = v[u];
  }
}

// The same by bulk copies through shared memory (sm_90).
constexpr unsigned kBulk = 16 << 10;
__global__ void copy_bulk(char* to, const char* from, std::size_t bytes) {
#if __CUDA_ARCH__ >= 900
  __shared__ alignas(128) char stage[2][kBulk];
  __shared__ alignas(8) unsigned long long full[2];
  const auto address = [](const void* p) {
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
  };
  if (threadIdx.x != 0) return;
  for (auto& barrier : full)
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(address(&barrier)) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * kBulk;
  const auto fetch = [&](std::size_t at, int s) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(address(&full[s])),
                 "r"(kBulk)
                 : "memory");
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
            "r"(address(stage[s])),
        "l"(from + at), "r"(kBulk), "r"(address(&full[s]))
        : "memory");
  };
  std::size_t at = blockIdx.x * static_cast<std::size_t>(kBulk);
  unsigned turn = 0;
  if (at + kBulk <= bytes) fetch(at, 0);
  for (; at + kBulk <= bytes; at += step, ++turn) {
    const int s = turn % 2;
    if (at + step + kBulk <= bytes) {
      asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
      fetch(at + step, 1 - s);
    }
    unsigned done = 0;
    while (done == 0)
      asm volatile(
          "{.reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
          : "=r"(done)
          : "r"(address(&full[s])), "r"(turn / 2 % 2)
          : "memory");
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to + at),
                 "r"(address(stage[s])), "r"(kBulk)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
  }
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
#endif
}

// GB/s, read and written, of the best of five.
template <class Launch>
double rate(std::size_t bytes, Launch launch) {
  cudaEvent_t begin, end;
  PROBE(cudaEventCreate(&begin));
  PROBE(cudaEventCreate(&end));
  float best = 1e9f;
  for (int i = 0; i < 6; ++i) {
    PROBE(cudaEventRecord(begin));
    launch();
    PROBE(cudaEventRecord(end));
    PROBE(cudaEventSynchronize(end));
    PROBE(cudaGetLastError());
    float ms = 0;
    PROBE(cudaEventElapsedTime(&ms, begin, end));
    if (i > 0 && ms < best) best = ms;
  }
  return 2.0 * bytes / best * 1e-6;
}

}  // namespace

void ask_torn(Answer& answer) {
  uint4* lines = nullptr;
  unsigned long long* torn = nullptr;
  PROBE(cudaMalloc(&lines, 1 << 16));
  PROBE(cudaMemset(lines, 0, 1 << 16));
  PROBE(cudaMallocManaged(&torn, 16));
  torn[0] = torn[1] = 0;
  constexpr unsigned long long kTries = 1'000'000;
  constexpr int kCtas = 5, kThreads = 256;
  tear<<<kCtas, kThreads>>>(lines, kTries, torn);
  PROBE(cudaDeviceSynchronize());
  answer.put("vector_reads", static_cast<double>(kTries * (kCtas - 1) * kThreads));
  answer.put("torn_16_bytes", static_cast<double>(torn[0]));
  answer.put("lanes_unlike_their_line_of_128", static_cast<double>(torn[1]));
}

void ask_hop(Answer& answer) {
  constexpr unsigned kRounds = 20000;
  for (const char* where : {"device", "host"}) {
    uint2* lines = nullptr;
    if (where[0] == 'd') {
      PROBE(cudaMalloc(&lines, 4096));
    } else {
      PROBE(cudaHostAlloc(&lines, 4096, cudaHostAllocMapped));
    }
    PROBE(cudaMemset(lines, 0, 4096));
    PROBE(cudaDeviceSynchronize());
    const double begin = now_seconds();
    ping_pong<<<2, 1>>>(lines, where[0] == 'd' ? kRounds : kRounds / 20);
    PROBE(cudaDeviceSynchronize());
    const unsigned hops = 2 * (where[0] == 'd' ? kRounds : kRounds / 20);
    answer.put(std::string("hop_ns_") + where, (now_seconds() - begin) / hops * 1e9);
  }
}

void ask_bandwidth(Answer& answer) {
  constexpr std::size_t kBytes = 512 << 20;
  char *from = nullptr, *to = nullptr;
  PROBE(cudaMalloc(&from, kBytes));
  PROBE(cudaMalloc(&to, kBytes));
  PROBE(cudaMemset(from, 1, kBytes));
  answer.put("memcpy_gbs",
             rate(kBytes, [&] { cudaMemcpyAsync(to, from, kBytes, cudaMemcpyDeviceToDevice); }));
  const auto source = reinterpret_cast<const uint4*>(from);
  const auto target = reinterpret_cast<uint4*>(to);
  int sm = 0;
  PROBE(cudaDeviceGetAttribute(&sm, cudaDevAttrComputeCapabilityMajor, 0));
  for (int ctas : {1, 4, 8, 16, 32, 64, 132, 264}) {
    const std::size_t bytes = ctas < 16 ? kBytes / 16 : kBytes;
    const std::size_t n = bytes / 16;
    const std::string at = "_" + std::to_string(ctas);
    answer.put("unroll2" + at, rate(bytes, [&] { copy<2><<<ctas, 512>>>(target, source, n); }));
    answer.put("unroll4" + at, rate(bytes, [&] { copy<4><<<ctas, 512>>>(target, source, n); }));
    answer.put("unroll8" + at, rate(bytes, [&] { copy<8><<<ctas, 512>>>(target, source, n); }));
    if (sm >= 9)
      answer.put("bulk" + at, rate(bytes, [&] { copy_bulk<<<ctas, 32>>>(to, from, bytes); }));
  }
}

}  // namespace probe
