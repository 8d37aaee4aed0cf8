// SPDX-License-Identifier: Apache-2.0
// Processes that share one GPU without MPS: time to pass work from one to another, how the device
// divides its time among them, and the effect on the L2.
#include <unistd.h>

#include "asks.h"
#include "bounded.h"
#include "kernels/cuda/copy_rows.h"
#include "processes.h"

namespace probe {
namespace {

constexpr std::size_t kPage = 4096;

struct Shared {
  alignas(kPage) std::uint32_t flag[kPage / 4];  // a separate cache line per rank
  alignas(kPage) Meeting meeting;
  double seconds;
  std::uint32_t rounds;
  std::uint32_t over;
  cudaIpcMemHandle_t handle;
};
Shared& new_shared() { return *static_cast<Shared*>(share_memory(sizeof(Shared))); }
std::uint32_t* register_flags(Shared& shared) {
  PROBE(cudaHostRegister(shared.flag, kPage, cudaHostRegisterMapped | cudaHostRegisterPortable));
  void* on_device = nullptr;
  PROBE(cudaHostGetDevicePointer(&on_device, shared.flag, 0));
  return static_cast<std::uint32_t*>(on_device);
}

// What runs beside the token: a kernel in rank 0, or in an unrelated process.
enum class Beside { kNothing, kKernelOfRank0, kKernelOfAnother };

// What a rank does with the token: a kernel, which needs the device's compute engine, or a copy,
// which a copy engine may do. A copy is asked for in several ways: by default, in a batch that
// prefers overlap with kernels, as between two devices, and of rows.
enum class Ask { kKernel, kCopy, kBatch, kPeer, kRows };
enum class Way { kWithin, kToHost, kFromHost };
struct Work {
  Ask ask = Ask::kKernel;
  Way way = Way::kWithin;
  std::size_t bytes = 64 << 10;
};

void copy_in_batch(void* to, const void* from, std::size_t bytes, cudaStream_t stream) {
  cudaMemcpyAttributes how{};
  how.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  how.flags = cudaMemcpyFlagPreferOverlapWithCompute;
  PROBE(cudaMemcpyBatchAsync(&to, &from, &bytes, 1, how, stream));
}

// A token circulates: rank r waits for its flag, does its work, and sets the next one's flag.
void pass_token(int rank, int n, Shared& shared, std::uint32_t* flags, Beside beside, int rounds,
                const Work& work = {}) {
  const auto wait = PROBE_ENTRY(cuStreamWaitValue32);
  const auto write = PROBE_ENTRY(cuStreamWriteValue32);
  const auto address = [&](int of) { return reinterpret_cast<CUdeviceptr>(flags + of * 16); };
  const cudaStream_t stream = new_stream(), holds = new_stream();
  auto* const scratch = new_device<std::uint32_t>(1);
  auto* const words = new_pinned<std::uint32_t>(128);
  constexpr std::size_t kMaxBytes = 64 << 10;
  auto* const from =
      work.way == Way::kFromHost ? new_pinned<char>(kMaxBytes) : new_device<char>(kMaxBytes);
  auto* const to =
      work.way == Way::kToHost ? new_pinned<char>(kMaxBytes) : new_device<char>(kMaxBytes);
  const std::size_t bytes = work.bytes;
  const rondo::cuda::RowCopies rows = rondo::cuda::rows_of(bytes);
  const auto copy_rows = [&](const rondo::cuda::RowCopy& copy) {
    if (copy.rows == 0) return;
    PROBE(cudaMemcpy2DAsync(to + copy.at, copy.width, from + copy.at, copy.width, copy.width,
                            copy.rows, cudaMemcpyDefault, stream));
  };
  const auto do_work = [&] {
    switch (work.ask) {
      case Ask::kKernel:
        add_one<<<1, 1, 0, stream>>>(scratch);
        return;
      case Ask::kCopy:
        PROBE(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream));
        return;
      case Ask::kBatch:
        return copy_in_batch(to, from, bytes, stream);
      case Ask::kPeer:
        PROBE(cudaMemcpyPeerAsync(to, 0, from, 0, bytes, stream));
        return;
      case Ask::kRows:
        copy_rows(rows.first);
        return copy_rows(rows.second);
    }
  };
  do_work();
  hold<<<1, 1, 0, holds>>>(words, words + 64, 0);
  PROBE(cudaDeviceSynchronize());
  if (beside == Beside::kKernelOfRank0 && rank == 0)
    hold<<<1, 1, 0, holds>>>(words, words + 64, 3000 * kMillisecond);
  shared.meeting.meet(beside == Beside::kKernelOfAnother ? n + 1 : n);
  const double begin = now_seconds();
  for (int round = 1; round <= rounds; ++round) {
    const auto number = static_cast<std::uint32_t>(round);
    if (rank > 0 || round > 1)
      PROBE(wait(stream, address(rank), rank == 0 ? number - 1 : number, CU_STREAM_WAIT_VALUE_GEQ));
    do_work();
    PROBE(write(stream, address((rank + 1) % n), number, CU_STREAM_WRITE_VALUE_DEFAULT));
  }
  PROBE(cudaStreamSynchronize(stream));
  if (rank == n - 1) {
    shared.seconds = now_seconds() - begin;
    poke(&shared.over, 1u);
  }
  poke(words + 64, 1u);
  shared.meeting.meet(n);
}

// A process that only runs a kernel, until the token has finished.
void run_beside(int n, Shared& shared) {
  auto* const words = new_pinned<std::uint32_t>(128);
  hold<<<1, 1>>>(words, words + 64, 0);
  PROBE(cudaDeviceSynchronize());
  hold<<<1, 1>>>(words, words + 64, 3000 * kMillisecond);
  shared.meeting.meet(n + 1);
  comes(&shared.over, 1, 5);
  poke(words + 64, 1u);
  PROBE(cudaDeviceSynchronize());
}

double handoff_us(int n, Beside beside, int rounds, const Work& work = {}) {
  Shared& shared = new_shared();
  in_processes(beside == Beside::kKernelOfAnother ? n + 1 : n, [&](int rank) {
    PROBE(cudaSetDevice(0));
    if (rank == n) return run_beside(n, shared);
    pass_token(rank, n, shared, register_flags(shared), beside, rounds, work);
  });
  return shared.seconds / rounds / n * 1e6;
}

}  // namespace

void ask_handoff() {
  const double alone = handoff_us(2, Beside::kNothing, 200);
  put("between_2", alone, "us");
  const double own = handoff_us(2, Beside::kKernelOfRank0, 100);
  put("between_2_beside_a_kernel_of_one", own, "us");
  const double other = handoff_us(2, Beside::kKernelOfAnother, 50);
  put("between_2_beside_a_kernel_of_a_third", other, "us");
  put("between_4", handoff_us(4, Beside::kNothing, 100), "us");
  put("between_8", handoff_us(8, Beside::kNothing, 50), "us");
  check("goes_on", other < 20000, print("%.0f us beside a kernel of a third process", other));
  answer(print("%.0f us from one process's stream to another's, %.0f beside a kernel", alone, own));
}

void ask_handoff_copies() {
  const auto us = [](int n, Ask ask, Way way, std::size_t bytes = 64 << 10) {
    return handoff_us(n, Beside::kNothing, n == 2 ? 100 : 50, {ask, way, bytes});
  };
  const double within = us(2, Ask::kCopy, Way::kWithin);
  put("between_2_within_the_device", within, "us");
  put("between_2_within_in_a_batch", us(2, Ask::kBatch, Way::kWithin), "us");
  put("between_2_within_as_between_devices", us(2, Ask::kPeer, Way::kWithin), "us");
  put("between_2_within_of_rows", us(2, Ask::kRows, Way::kWithin), "us");
  const double to_host = us(2, Ask::kCopy, Way::kToHost);
  put("between_2_to_the_host", to_host, "us");
  for (const std::size_t bytes : {4u, 43u, 1021u, 1024u, 2048u}) {  // 43 rows; two copies
    const std::string size = "_of_" + std::to_string(bytes) + "_bytes";
    put("between_2_to_the_host" + size, us(2, Ask::kCopy, Way::kToHost, bytes), "us");
    put("between_2_from_the_host" + size, us(2, Ask::kCopy, Way::kFromHost, bytes), "us");
    put("between_2_from_the_host_of_rows" + size, us(2, Ask::kRows, Way::kFromHost, bytes), "us");
  }
  put("between_8_within_the_device", us(8, Ask::kCopy, Way::kWithin), "us");
  put("between_8_to_the_host", us(8, Ask::kCopy, Way::kToHost), "us");
  answer(print("%.0f us with a copy of 64 KiB within the device, %.0f with one to the host", within,
               to_host));
}

void ask_handoff_ipc() {
  constexpr int n = 2, kRounds = 200;
  Shared& shared = new_shared();
  in_processes(n, [&](int rank) {
    PROBE(cudaSetDevice(0));
    void* flags = nullptr;
    if (rank == 0) {
      flags = new_device<char>(kPage);
      PROBE(cudaIpcGetMemHandle(&shared.handle, flags));
    }
    shared.meeting.meet(n);
    if (rank != 0)
      PROBE(cudaIpcOpenMemHandle(&flags, shared.handle, cudaIpcMemLazyEnablePeerAccess));
    pass_token(rank, n, shared, static_cast<std::uint32_t*>(flags), Beside::kNothing, kRounds);
  });
  put("between_2", shared.seconds / kRounds / n * 1e6, "us");
  answer("the same by flags in device memory that is opened by CUDA IPC");
}

namespace {

// Ranks 0 and 1, a kernel each: waits for its word, then sets the other's. Without MPS, kernels of
// two processes never run at once, so a hop costs a time slice.
__global__ void ping_pong(std::uint32_t* mine, std::uint32_t* other, int rank, std::uint32_t rounds,
                          std::uint32_t* reached, std::uint64_t ns) {
  const std::uint64_t end = gpu::timer_ns() + ns;
  for (std::uint32_t i = 1; i <= rounds; ++i) {
    if (rank == 0) gpu::store_relaxed<Scope::kSystem>(other, i);
    if (!wait_for(mine, i, end)) return;
    if (rank == 1) gpu::store_relaxed<Scope::kSystem>(other, i);
    gpu::store_relaxed<Scope::kSystem>(reached, i);
  }
}

// Longest pause in a kernel's own time, and number of pauses: it was switched out.
__global__ void note_pauses(std::uint64_t ns, std::uint64_t* out) {
  const std::uint64_t begin = gpu::timer_ns();
  std::uint64_t last = begin, longest = 0, pauses = 0, paused = 0;
  while (last - begin < ns) {
    const std::uint64_t now = gpu::timer_ns(), pause = now - last;
    if (pause > 50'000) {
      ++pauses;
      paused += pause;
      if (pause > longest) longest = pause;
    }
    last = now;
  }
  out[0] = pauses;
  out[1] = longest;
  out[2] = paused;
}

}  // namespace

void ask_time_slices() {
  // Two kernels in one process, and two in two, that only count their own pauses.
  struct Pauses {
    Meeting meeting;
    std::uint64_t seen[2][3];
  };
  for (const int processes : {1, 2}) {
    auto& pauses = *static_cast<Pauses*>(share_memory(sizeof(Pauses)));
    in_processes(processes, [&](int rank) {
      auto* const out = new_pinned<std::uint64_t>(3);
      note_pauses<<<1, 1>>>(0, out);
      PROBE(cudaDeviceSynchronize());
      pauses.meeting.meet(processes);
      note_pauses<<<1, 1>>>(400 * kMillisecond, out);
      PROBE(cudaDeviceSynchronize());
      for (int i = 0; i < 3; ++i) pauses.seen[rank][i] = out[i];
      pauses.meeting.meet(processes);
    });
    const auto& seen = pauses.seen[0];
    put(print("pauses_of_%d", processes), static_cast<double>(seen[0]), "in 400 ms");
    put(print("longest_pause_of_%d", processes), static_cast<double>(seen[1]) * 1e-3, "us");
    if (processes == 2 && seen[0] > 0)
      put("mean_pause_of_2", static_cast<double>(seen[2]) / static_cast<double>(seen[0]) * 1e-3,
          "us");
  }
  constexpr std::uint32_t kRounds = 1000;
  Shared& shared = new_shared();
  in_processes(2, [&](int rank) {
    std::uint32_t* const flags = register_flags(shared);
    auto* const reached = new_pinned<std::uint32_t>(1);
    ping_pong<<<1, 1>>>(flags + 512, flags + 640, rank, 0, reached, 0);
    PROBE(cudaDeviceSynchronize());
    shared.meeting.meet(2);
    const double begin = now_seconds();
    ping_pong<<<1, 1>>>(flags + rank * 64, flags + (1 - rank) * 64, rank, kRounds, reached,
                        1500 * kMillisecond);
    PROBE(cudaDeviceSynchronize());
    if (rank == 0) {
      shared.seconds = now_seconds() - begin;
      shared.rounds = peek(reached);
    }
    shared.meeting.meet(2);
  });
  put("rounds_of_kernels_that_wait", shared.rounds, print("of %u", kRounds).c_str());
  const double hop = shared.rounds == 0 ? -1 : shared.seconds / shared.rounds / 2 * 1e6;
  put("hop_between_kernels_of_two_processes", hop, "us");
  check("kernels_must_not_wait", hop < 0 || hop > 100,
        hop < 0 ? "not one round in 1.5 s" : print("a hop took %.0f us", hop));
  answer(hop < 0 ? "kernels of two processes that wait for each other do not get on"
                 : print("%.0f us a hop between kernels of two processes", hop));
}

namespace {

__global__ void read_all(const float4* from, std::size_t count, float4* sink) {
  float4 sum{};
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += static_cast<std::size_t>(gridDim.x) * blockDim.x) {
    const float4 v = from[i];
    sum.x += v.x + v.y + v.z + v.w;
  }
  if (sum.x == 12345.f) *sink = sum;
}

double read_rate(int processes, std::size_t bytes) {
  Shared& shared = new_shared();
  in_processes(processes, [&](int rank) {
    auto* const at = new_device<float4>(bytes / sizeof(float4));
    read_all<<<264, 512>>>(at, bytes / sizeof(float4), at);
    PROBE(cudaDeviceSynchronize());
    shared.meeting.meet(processes);
    const double begin = now_seconds();
    int repeats = 0;
    for (; now_seconds() - begin < 0.4; repeats += 10) {
      for (int i = 0; i < 10; ++i) read_all<<<264, 512>>>(at, bytes / sizeof(float4), at);
      PROBE(cudaDeviceSynchronize());
    }
    if (rank == 0) shared.seconds = (now_seconds() - begin) / repeats;
    shared.meeting.meet(processes);
  });
  return static_cast<double>(bytes) / shared.seconds * 1e-9;
}

}  // namespace

void ask_l2() {
  const double alone = read_rate(1, 16 << 20), shared = read_rate(2, 16 << 20);
  put("read_16MiB_alone", alone, "GB/s");
  put("read_16MiB_of_2_processes", shared, "GB/s each");
  answer(print("16 MiB in the L2 are read at %.0f GB/s, by one of two processes at %.0f", alone,
               shared));
}

}  // namespace probe
