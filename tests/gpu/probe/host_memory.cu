// SPDX-License-Identifier: Apache-2.0
// Pinned host memory as kernels see it: latency of loads, stores and atomics, and the order in
// which the host sees them.
#include "asks.h"
#include "bounded.h"

namespace probe {
namespace {

constexpr unsigned kLine = 32;  // words in a line of 128 bytes

// Each thread follows `chains` chains of indices at once; out: ns of thread 0, and a sum that keeps
// the loads.
template <int chains>
__global__ void chase(const std::uint32_t* at, std::uint32_t lines, std::uint32_t hops,
                      std::uint64_t* out) {
  const std::uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x;
  std::uint32_t index[chains];
#pragma unroll
  for (int c = 0; c < chains; ++c) index[c] = (thread * chains + c) * 61 % lines;
  __syncthreads();
  const std::uint64_t begin = gpu::timer_ns();
  for (std::uint32_t hop = 0; hop < hops; ++hop) {
#pragma unroll
    for (int c = 0; c < chains; ++c)
      index[c] = gpu::load_relaxed<Scope::kSystem>(at + index[c] * kLine);
  }
  std::uint32_t sum = 0;
#pragma unroll
  for (int c = 0; c < chains; ++c) sum += index[c];
  const std::uint64_t spent = gpu::timer_ns() - begin;
  if (thread == 0) out[0] = spent;
  if (sum == ~0u) out[1] = sum;
}

template <int chains>
void time_chase(const std::string& name, const std::uint32_t* at, std::uint32_t lines,
                unsigned threads, std::uint64_t* out) {
  constexpr std::uint32_t kHops = 300;
  chase<chains><<<1, threads>>>(at, lines, 4, out);
  chase<chains><<<1, threads>>>(at, lines, kHops, out);
  PROBE(cudaDeviceSynchronize());
  const double ns = static_cast<double>(out[0]) / kHops;
  put(name, ns, "ns");
  if (chains * threads > 1) put(name + "_rate", chains * threads / ns * 1e3, "million loads/s");
}

void ask_loads() {
  constexpr std::uint32_t kLines = 1 << 15;  // 4 MiB
  auto* const host = new_pinned<std::uint32_t>(kLines * kLine);
  auto* const device = new_device<std::uint32_t>(kLines * kLine);
  auto* const out = new_pinned<std::uint64_t>(2);
  for (std::uint32_t i = 0; i < kLines; ++i) host[i * kLine] = (i + 7919) % kLines;
  PROBE(cudaMemcpy(device, host, kLines * kLine * 4, cudaMemcpyDefault));
  time_chase<1>("load_device_1", device, kLines, 1, out);
  time_chase<8>("load_device_8", device, kLines, 1, out);
  time_chase<1>("load_host_1", host, kLines, 1, out);
  time_chase<2>("load_host_2", host, kLines, 1, out);
  time_chase<4>("load_host_4", host, kLines, 1, out);
  time_chase<8>("load_host_8", host, kLines, 1, out);
  time_chase<1>("load_host_warp", host, kLines, 32, out);
  time_chase<1>("load_host_512_threads", host, kLines, 512, out);
}

// A thread's accesses to its own word, `times` times; total ns. zero: 0, unknown to the compiler,
// so that each atomic waits for the one before.
enum class Touch { kAdd, kExchange, kStore, kStoreFenced };
__global__ void touch_often(Touch kind, std::uint32_t* at, std::uint32_t times, std::uint32_t zero,
                            std::uint64_t* out) {
  const std::uint64_t begin = gpu::timer_ns();
  std::uint32_t last = 0;
  for (std::uint32_t i = 1; i <= times; ++i) {
    if (kind == Touch::kAdd) {
      last = gpu::add_relaxed<Scope::kSystem>(at, 1 + (last & zero));
    } else if (kind == Touch::kExchange) {
      last = gpu::exchange_relaxed<Scope::kSystem>(at, i + (last & zero));
    } else {
      gpu::store_relaxed<Scope::kSystem>(at, i);
      if (kind == Touch::kStoreFenced) gpu::fence<Scope::kSystem>();
    }
  }
  gpu::fence<Scope::kSystem>();
  if (last == ~0u) out[1] = last;
  out[0] = gpu::timer_ns() - begin;
}

void ask_touches() {
  auto* const host = new_pinned<std::uint32_t>(64);
  auto* const device = new_device<std::uint32_t>(64);
  auto* const out = new_pinned<std::uint64_t>(2);
  const auto time = [&](const char* name, Touch kind, std::uint32_t* at) {
    constexpr std::uint32_t kTimes = 500;
    touch_often<<<1, 1>>>(kind, at, kTimes, 0, out);
    touch_often<<<1, 1>>>(kind, at, kTimes, 0, out);
    PROBE(cudaDeviceSynchronize());
    put(name, static_cast<double>(out[0]) / kTimes, "ns");
  };
  time("atomic_device", Touch::kAdd, device);
  time("atomic_add_host", Touch::kAdd, host);
  time("atomic_exchange_host", Touch::kExchange, host);
  time("store_host", Touch::kStore, host);
  time("store_fence_host", Touch::kStoreFenced, host);
}

__global__ void add_often(std::uint32_t* at, std::uint32_t times) {
  for (std::uint32_t i = 0; i < times; ++i) gpu::add_relaxed<Scope::kSystem>(at, 1u);
}

void ask_atomics() {
  auto* const word = new_pinned<std::uint32_t>(64);
  constexpr std::uint32_t kCtas = 64, kTimes = 100;
  add_often<<<kCtas, 1>>>(word, kTimes);
  PROBE(cudaDeviceSynchronize());
  check("device_atomics_in_host_memory", peek(word) == kCtas * kTimes,
        print("%u of %u additions by %u CTAs", peek(word), kCtas * kTimes, kCtas));
  // The host's own atomics at the same time: PCIe has no common atomic operations.
  constexpr std::uint32_t kOfDevice = 4000;
  poke(word, 0u);
  add_often<<<1, 1>>>(word, kOfDevice);
  std::uint32_t of_host = 0;
  for (; cudaStreamQuery(nullptr) == cudaErrorNotReady; ++of_host)
    __atomic_fetch_add(word, 1u, __ATOMIC_SEQ_CST);
  PROBE(cudaDeviceSynchronize());
  put("additions_lost_between_host_and_device",
      static_cast<double>(kOfDevice) + of_host - peek(word),
      print("of %u", kOfDevice + of_host).c_str());
}

// Waits for *asked = i, then answers with i: until `rounds` rounds or the timeout.
__global__ void echo(const std::uint32_t* asked, std::uint32_t* answered, std::uint32_t rounds,
                     std::uint64_t ns) {
  const std::uint64_t end = gpu::timer_ns() + ns;
  for (std::uint32_t i = 1; i <= rounds; ++i) {
    if (!wait_for(asked, i, end)) return;
    gpu::store_relaxed<Scope::kSystem>(answered, i);
  }
}

// One CTA to another through device or host memory, and back.
__global__ void hop(std::uint32_t* words, std::uint32_t rounds, std::uint64_t ns,
                    std::uint64_t* out) {
  const std::uint64_t begin = gpu::timer_ns(), end = begin + ns;
  std::uint32_t* const mine = words + blockIdx.x * 64;
  std::uint32_t* const other = words + (1 - blockIdx.x) * 64;
  std::uint32_t round = 1;
  for (; round <= rounds; ++round) {
    if (blockIdx.x == 0) gpu::store_relaxed<Scope::kSystem>(other, round);
    if (!wait_for(mine, round, end)) break;
    if (blockIdx.x == 1) gpu::store_relaxed<Scope::kSystem>(other, round);
  }
  if (blockIdx.x != 0) return;
  out[0] = gpu::timer_ns() - begin;
  out[1] = round - 1;
}

void ask_hops() {
  auto* const host = new_pinned<std::uint32_t>(256);
  constexpr std::uint32_t kRounds = 2000;
  echo<<<1, 1>>>(host, host + 64, kRounds, 2000 * kMillisecond);
  poke(host, 1u);
  if (!comes(host + 64, 1, 1)) give_up("a kernel did not answer the host within 1 s");
  const double begin = now_seconds();
  for (std::uint32_t i = 2; i <= kRounds; ++i) {
    poke(host, i);
    if (!comes(host + 64, i, 1)) give_up("a kernel did not answer the host within 1 s");
  }
  put("host_to_kernel_and_back", since_us(begin) / (kRounds - 1), "us");
  PROBE(cudaDeviceSynchronize());
  auto* const out = new_pinned<std::uint64_t>(2);
  auto* const device = new_device<std::uint32_t>(128);
  const auto time = [&](const char* name, std::uint32_t* at) {
    hop<<<2, 1>>>(at, kRounds, 500 * kMillisecond, out);
    PROBE(cudaDeviceSynchronize());
    put(name, static_cast<double>(out[0]) / 2 / static_cast<double>(out[1]), "ns");
  };
  time("hop_between_ctas_device", device);
  time("hop_between_ctas_host", host + 128);
}

// Message passing to the host: data in three lines, [a fence,] then a flag in a fourth. The host
// answers before the next message.
__global__ void send_messages(std::uint64_t* data, std::uint32_t* flag, const std::uint32_t* taken,
                              std::uint32_t rounds, bool fenced, std::uint64_t ns) {
  const std::uint64_t end = gpu::timer_ns() + ns;
  for (std::uint32_t i = 1; i <= rounds; ++i) {
    for (unsigned line = 0; line < 3; ++line)
      gpu::store_relaxed<Scope::kSystem>(data + line * 64, static_cast<std::uint64_t>(i));
    if (fenced) gpu::fence<Scope::kSystem>();
    gpu::store_relaxed<Scope::kSystem>(flag, i);
    if (!wait_for(taken, i, end)) return;
  }
}
// The other direction: the host writes data, then the flag; the kernel fences after the flag.
__global__ void take_messages(const std::uint64_t* data, const std::uint32_t* flag,
                              std::uint32_t* taken, std::uint32_t rounds, std::uint32_t* stale,
                              std::uint64_t ns) {
  const std::uint64_t end = gpu::timer_ns() + ns;
  for (std::uint32_t i = 1; i <= rounds; ++i) {
    if (!wait_for(flag, i, end)) return;
    gpu::fence<Scope::kSystem>();
    for (unsigned line = 0; line < 3; ++line)
      if (gpu::load_relaxed<Scope::kSystem>(data + line * 64) != i)
        gpu::add_relaxed<Scope::kSystem>(stale, 1u);
    gpu::store_relaxed<Scope::kSystem>(taken, i);
  }
}

struct Words {
  std::uint64_t* data = new_pinned<std::uint64_t>(256);
  std::uint32_t* flag = new_pinned<std::uint32_t>(256);
  std::uint32_t* taken = flag + 64;
  std::uint32_t* stale = flag + 128;
};

constexpr std::uint32_t kMessages = 20000;

std::uint32_t stale_for_host(bool fenced) {
  const Words at;
  send_messages<<<1, 1>>>(at.data, at.flag, at.taken, kMessages, fenced, 1500 * kMillisecond);
  std::uint32_t stale = 0;
  for (std::uint32_t i = 1; i <= kMessages; ++i) {
    if (!comes(at.flag, i, 0.5)) give_up("a kernel's message did not come within 0.5 s");
    for (int line = 2; line >= 0; --line) stale += peek(at.data + line * 64) < i;
    poke(at.taken, i);
  }
  PROBE(cudaDeviceSynchronize());
  return stale;
}

std::uint32_t stale_for_kernel() {
  const Words at;
  take_messages<<<1, 1>>>(at.data, at.flag, at.taken, kMessages, at.stale, 1500 * kMillisecond);
  for (std::uint32_t i = 1; i <= kMessages; ++i) {
    for (unsigned line = 0; line < 3; ++line)
      __atomic_store_n(at.data + line * 64, static_cast<std::uint64_t>(i), __ATOMIC_RELAXED);
    __atomic_store_n(at.flag, i, __ATOMIC_RELEASE);
    if (!comes(at.taken, i, 0.5)) give_up("a kernel took no message within 0.5 s");
  }
  PROBE(cudaDeviceSynchronize());
  return peek(at.stale);
}

}  // namespace

void ask_host_memory() {
  PROBE(cudaFree(nullptr));
  ask_loads();
  ask_touches();
  ask_hops();
  PROBE(cudaGetLastError());
  answer("latencies of pinned host memory from a kernel");
}

void ask_host_order() {
  PROBE(cudaFree(nullptr));
  ask_atomics();
  const std::uint32_t fenced = stale_for_host(true), unfenced = stale_for_host(false);
  const std::uint32_t kernel = stale_for_kernel();
  put("stale_for_host_after_fence", fenced, print("of %u", 3 * kMessages).c_str());
  put("stale_for_host_without_fence", unfenced, print("of %u", 3 * kMessages).c_str());
  put("stale_for_kernel_after_fence", kernel, print("of %u", 3 * kMessages).c_str());
  check("fence_orders_for_host", fenced == 0, print("%u stale words", fenced));
  check("fence_orders_for_kernel", kernel == 0, print("%u stale words", kernel));
  PROBE(cudaGetLastError());
  answer("what the host and a kernel see of each other's stores");
}

}  // namespace probe
