// SPDX-License-Identifier: Apache-2.0
// Cost of the barrier between devices (kernels/cuda/device_barrier.h) by what orders its flags,
// alone and while another kernel writes much. The CTAs of one kernel stand for the devices, so the
// time of the links is not in it.
#include "asks.h"
#include "writer.h"

namespace probe {
namespace {

enum class Order {
  kTwoFences,       // a thread for each peer: fence, store, wait, fence
  kOneFence,        // one thread fences and stores all flags; a thread for each peer acquires
  kReleaseAcquire,  // a thread for each peer: release, acquire
};

constexpr unsigned kMaxPeers = 8;

__device__ void meet(Order order, std::uint32_t* arrivals, std::uint32_t number,
                     std::uint64_t end) {
  const unsigned peers = gridDim.x, own = blockIdx.x, peer = threadIdx.x;
  std::uint32_t* const to_peer = arrivals + peer * kMaxPeers + own;
  const std::uint32_t* const from_peer = arrivals + own * kMaxPeers + peer;
  __syncthreads();
  if (order == Order::kOneFence && peer == 0) {
    gpu::fence<Scope::kSystem>();
    for (unsigned to = 0; to < peers; ++to)
      gpu::store_relaxed<Scope::kSystem>(arrivals + to * kMaxPeers + own, number);
  }
  if (peer < peers && peer != own) {
    if (order == Order::kTwoFences) {
      gpu::fence<Scope::kSystem>();
      gpu::store_relaxed<Scope::kSystem>(to_peer, number);
      wait_for(from_peer, number, end);
      gpu::fence<Scope::kSystem>();
    } else {
      if (order == Order::kReleaseAcquire) gpu::store_release<Scope::kSystem>(to_peer, number);
      wait_until([&] { return gpu::load_acquire<Scope::kSystem>(from_peer) >= number; }, end);
    }
  }
  __syncthreads();
}

// A CTA for each device: every thread writes a vector, then all meet. out: of CTA 0, nanoseconds.
__global__ void meet_often(Order order, gpu::Vector* data, std::uint32_t* arrivals,
                           std::uint32_t first, std::uint32_t turns, std::uint64_t* out,
                           std::uint64_t ns) {
  const std::uint64_t begin = gpu::timer_ns(), end = begin + ns;
  gpu::Vector* const mine = data + blockIdx.x * blockDim.x + threadIdx.x;
  for (std::uint32_t turn = 0; turn < turns; ++turn) {
    gpu::store(mine, gpu::Vector{{turn, turn, turn, turn}});
    meet(order, arrivals, first + turn, end);
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) out[0] = gpu::timer_ns() - begin;
}

// Made before the kernel that writes much runs: allocations may wait for it.
struct Means {
  cudaStream_t stream = new_stream();
  gpu::Vector* data = new_device<gpu::Vector>(kMaxPeers * 512);
  std::uint32_t* arrivals = new_device<std::uint32_t>(kMaxPeers * kMaxPeers);
  std::uint64_t* out = new_pinned<std::uint64_t>(1);
  std::uint32_t number = 1;  // flags only increase
};

constexpr std::uint64_t kLimit = 200 * kMillisecond;

// Nanoseconds per barrier.
double time_barrier(const std::string& name, Order order, unsigned peers, std::uint32_t turns,
                    Means& means) {
  PROBE(launch({peers, 512, 0, means.stream}, meet_often, order, means.data, means.arrivals,
               means.number, turns, means.out, kLimit));
  PROBE(cudaStreamSynchronize(means.stream));
  means.number += turns;
  if (*means.out >= kLimit) give_up(name + ": a barrier did not end within 200 ms");
  const double ns = static_cast<double>(*means.out) / turns;
  put(name, ns, "ns");
  return ns;
}

}  // namespace

void ask_barriers() {
  Means means;
  Writer writer;
  PROBE(launch({kMaxPeers, 512, 0, nullptr}, meet_often, Order::kTwoFences, means.data,
               means.arrivals, 0u, 0u, means.out, kLimit));
  PROBE(cudaDeviceSynchronize());

  double of_8[2][3] = {};  // quiet, beside a writer; by order
  for (const bool beside : {false, true}) {
    if (beside) writer.begin(kMaxPeers);
    for (const unsigned peers : {2u, kMaxPeers}) {
      const std::string name = "_" + std::to_string(peers) + (beside ? "_beside_writes" : "");
      double* const took = of_8[beside];
      took[0] = time_barrier("two_fences" + name, Order::kTwoFences, peers, 2000, means);
      took[1] = time_barrier("one_fence" + name, Order::kOneFence, peers, 2000, means);
      took[2] = time_barrier("release_acquire" + name, Order::kReleaseAcquire, peers, 2000, means);
    }
    if (beside) writer.end();
  }
  PROBE(cudaGetLastError());
  answer(
      print("of 8, beside writes: %.0f ns by two fences, %.0f by one, %.0f by release and "
            "acquire; alone %.0f, %.0f, %.0f",
            of_8[1][0], of_8[1][1], of_8[1][2], of_8[0][0], of_8[0][1], of_8[0][2]));
}

}  // namespace probe
