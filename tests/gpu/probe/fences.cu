// SPDX-License-Identifier: Apache-2.0
// Cost of a fence at system scope, alone and while another kernel writes much; and whether the
// remote memory-sync domain keeps that kernel's writes out of the fence.
#include "asks.h"
#include "writer.h"

namespace probe {
namespace {

enum class Fence { kNone, kDevice, kSystem };

// One CTA: every thread writes `vectors` vectors, then thread 0 fences and stores a flag, as a rank
// does that gives a slot to its peer. out: cycles spent in fence and store, and turns.
__global__ void fence_often(Fence kind, gpu::Vector* at, unsigned vectors, std::uint32_t* flag,
                            std::uint32_t turns, std::uint64_t* out, std::uint64_t ns) {
  const std::uint64_t end = gpu::timer_ns() + ns;
  std::uint64_t cycles = 0, longest = 0;
  std::uint32_t turn = 0;
  __shared__ bool over;
  if (threadIdx.x == 0) over = false;
  const std::uint64_t begin_ns = gpu::timer_ns(), begin_cycles = clock_cycles();
  for (;;) {
    for (unsigned v = 0; v < vectors; ++v)
      gpu::store(at + v * blockDim.x + threadIdx.x, gpu::Vector{{turn, turn, turn, turn}});
    __syncthreads();
    if (threadIdx.x == 0) {
      const std::uint64_t begin = clock_cycles();
      if (kind == Fence::kDevice) gpu::fence<Scope::kDevice>();
      if (kind == Fence::kSystem) gpu::fence<Scope::kSystem>();
      gpu::store_relaxed<Scope::kSystem>(flag, turn);
      const std::uint64_t spent = clock_cycles() - begin;
      cycles += spent;
      if (spent > longest) longest = spent;
      over = ++turn == turns || gpu::timer_ns() > end;
    }
    __syncthreads();
    if (over) break;
  }
  if (threadIdx.x != 0) return;
  out[0] = cycles;
  out[1] = longest;
  out[2] = turn;
  out[3] = gpu::timer_ns() - begin_ns;
  out[4] = clock_cycles() - begin_cycles;
}

struct Place {
  const char* name;
  std::uint32_t* flag;
  unsigned vectors;
};

// Made before the kernel that writes much runs: allocations may wait for it.
struct Means {
  cudaStream_t stream = new_stream();
  gpu::Vector* data = new_device<gpu::Vector>(512 * 16);
  std::uint64_t* out = new_pinned<std::uint64_t>(5);
};

// Nanoseconds per fence.
double time_fence(const std::string& name, Fence kind, const Place& place, bool remote,
                  const Means& means) {
  const Launch how{1, 512, 0, means.stream, false, remote};
  std::uint64_t* const out = means.out;
  PROBE(launch(how, fence_often, kind, means.data, place.vectors, place.flag, 2000u, out,
               60 * kMillisecond));
  PROBE(cudaStreamSynchronize(how.stream));
  const double ns_a_cycle = static_cast<double>(out[3]) / static_cast<double>(out[4]);
  const double ns = static_cast<double>(out[0]) / static_cast<double>(out[2]) * ns_a_cycle;
  put(name, ns, "ns");
  put(name + "_longest", static_cast<double>(out[1]) * ns_a_cycle, "ns");
  return ns;
}

}  // namespace

void ask_fences() {
  const Means means;
  Writer writer;
  const Place places[] = {{"flag_on_device", new_device<std::uint32_t>(64), 0},
                          {"flag_in_host", new_pinned<std::uint32_t>(64), 0},
                          {"after_64KiB", new_device<std::uint32_t>(64), 8}};
  const bool domains = attribute(CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT) > 1;
  PROBE(launch({1, 512, 0, nullptr}, fence_often, Fence::kSystem, means.data, 0u, places[0].flag,
               1u, means.out, kMillisecond));
  PROBE(cudaDeviceSynchronize());

  // quiet, beside a writer; default domain, remote domain
  double system[2][2] = {};
  for (const bool beside : {false, true}) {
    if (beside) writer.begin(8);
    const std::string when = beside ? "_beside_writes" : "";
    for (const Place& place : places) {
      const std::string name = place.name + when;
      time_fence("none_" + name, Fence::kNone, place, false, means);
      time_fence("gpu_" + name, Fence::kDevice, place, false, means);
      const double plain = time_fence("sys_" + name, Fence::kSystem, place, false, means);
      double remote = 0;
      if (domains) remote = time_fence("sys_remote_" + name, Fence::kSystem, place, true, means);
      if (&place != places) continue;
      system[beside][0] = plain;
      system[beside][1] = remote;
    }
    if (beside) writer.end();
  }
  PROBE(cudaGetLastError());
  if (domains)
    check("remote_domain_helps", system[1][1] < 0.7 * system[1][0],
          print("fence.sys beside writes: %.0f ns, in the remote domain %.0f", system[1][0],
                system[1][1]));
  answer(print("fence.sys takes %.0f ns alone, %.0f beside writes, %.0f there in the remote domain",
               system[0][0], system[1][0], system[1][1]));
}

}  // namespace probe
