// SPDX-License-Identifier: Apache-2.0
// Whether lines stay whole, as Rondo's LL and LL128 assume. Writers overwrite lines of 128 bytes by
// store_line(), as fast as they can, while readers load them as the movers do.
#include "asks.h"
#include "bounded.h"
#include "processes.h"

namespace probe {
namespace {

// A half of 8 bytes holds its number twice, so that tearing within it also shows.
__host__ __device__ std::uint64_t twice(std::uint32_t number) {
  return static_cast<std::uint64_t>(number) << 32 | number;
}
__host__ __device__ bool is_torn(std::uint64_t half) {
  return static_cast<std::uint32_t>(half) != static_cast<std::uint32_t>(half >> 32);
}
__host__ __device__ std::uint32_t number_of(std::uint64_t half) {
  return static_cast<std::uint32_t>(half);
}

enum Count { kLooks, kFresh, kTorn8, kTorn16, kUnlike, kStale, kCounts };

enum class Role { kBoth, kWrites, kReads };

struct Field {
  gpu::Pair* lines;  // `depth` sets of four lines for each warp of each pair of CTAs
  unsigned depth;
  unsigned pairs;        // CTAs 2p and 2p + 1 write and read the same lines; with one role: CTA p
  gpu::Vector* flooded;  // written by all further CTAs, so that lines leave the L2
  std::size_t vectors;
  std::uint64_t* counts;
  std::uint64_t ns;
  std::uint32_t zero = 0;  // unknown to the compiler
};
constexpr std::uint32_t kLooksAtOnce = 64;
constexpr unsigned kThreads = 256, kLanes = 8, kSet = gpu::kWarp;  // pairs of a set
std::size_t pairs_of(unsigned ctas, unsigned depth) {
  return static_cast<std::size_t>(ctas) * (kThreads / gpu::kWarp) * depth * kSet;
}

// The same for all lanes.
__device__ bool is_late(std::uint64_t end) {
  return gpu::shuffle(gpu::timer_ns() > end ? 1 : 0, 0) != 0;
}

__device__ void write_lines(gpu::Pair* sets, unsigned depth, std::uint64_t end) {
  const unsigned lane = gpu::lane_index();
  for (std::uint32_t i = 1;; ++i) {
    gpu::Pair* const at = sets + i % depth * kSet + lane;
    const bool used = i % 7 != 0 || lane / kLanes != i / 7 % 4;  // sometimes not all four lines
    gpu::store_line(used ? at : nullptr, gpu::Pair{{twice(i), twice(i)}});
    if (i % 64 == 0 && is_late(end)) return;
  }
}

__device__ void read_lines(const gpu::Pair* sets, const Field& field, std::uint64_t end) {
  const unsigned lane = gpu::lane_index();
  std::uint64_t count[kCounts] = {};
  std::uint32_t last = 0;
  for (std::uint32_t i = 0;; ++i) {  // polls one set for a while
    const gpu::Pair* const at = sets + i / kLooksAtOnce % field.depth * kSet + lane;
    const gpu::Pair first = gpu::load_pair(at);
    const std::uint32_t flag = gpu::shuffle(number_of(first.half[1]), lane | (kLanes - 1));
    // LL128 loads the data beside a flag again after the flag; this load must not run earlier.
    const gpu::Pair second = gpu::load_pair(at + (flag & field.zero));
    count[kLooks] += 1;
    count[kFresh] += i % kLooksAtOnce != 0 && flag != last;
    count[kTorn8] += is_torn(first.half[0]) + is_torn(first.half[1]);
    count[kTorn16] += first.half[0] != first.half[1];
    count[kUnlike] += number_of(first.half[0]) != flag;
    count[kStale] += number_of(second.half[0]) < flag || number_of(second.half[1]) < flag;
    last = flag;
    if (i % kLooksAtOnce == 0 && is_late(end)) break;
  }
  for (int c = 0; c < kCounts; ++c) gpu::add_relaxed<Scope::kSystem>(field.counts + c, count[c]);
}

__device__ void flood(gpu::Vector* at, std::size_t vectors, unsigned cta, unsigned ctas,
                      std::uint64_t end) {
  for (std::uint32_t turn = 0;; ++turn) {
    for (std::size_t i = static_cast<std::size_t>(cta) * kThreads + threadIdx.x; i < vectors;
         i += static_cast<std::size_t>(ctas) * kThreads)
      gpu::store(at + i, gpu::Vector{{turn, turn, turn, turn}});
    if (gpu::timer_ns() > end) return;
  }
}

__global__ void __launch_bounds__(kThreads) use_lines(Field field, Role role) {
  const std::uint64_t end = gpu::timer_ns() + field.ns;
  const unsigned using_lines = role == Role::kBoth ? 2 * field.pairs : field.pairs;
  if (blockIdx.x >= using_lines) {
    flood(field.flooded, field.vectors, blockIdx.x - using_lines, gridDim.x - using_lines, end);
    return;
  }
  const unsigned pair = role == Role::kBoth ? blockIdx.x / 2 : blockIdx.x;
  const bool writes = role == Role::kBoth ? blockIdx.x % 2 == 0 : role == Role::kWrites;
  const std::size_t warp =
      static_cast<std::size_t>(pair) * (kThreads / gpu::kWarp) + gpu::warp_index();
  gpu::Pair* const sets = field.lines + warp * field.depth * kSet;
  if (writes) {
    write_lines(sets, field.depth, end);
  } else {
    read_lines(sets, field, end);
  }
}

// Puts the counts under a name, and judges each of the two protocols.
void conclude(const std::string& name, const std::uint64_t* counts) {
  const auto reported = [&](const char* what, Count count) {
    put(name + what, static_cast<double>(counts[count]));
  };
  reported("_looks", kLooks);
  reported("_changes_seen", kFresh);
  reported("_torn_8_bytes", kTorn8);
  reported("_torn_16_bytes", kTorn16);
  reported("_unlike_their_flag", kUnlike);
  reported("_older_than_their_flag", kStale);
  if (counts[kFresh] < 1000) give_up(name + ": readers saw hardly any change, so nothing is known");
}
void report_lines(const char* ll, const char* ll128, const std::string& name,
                  const std::uint64_t* counts) {
  const auto seen = [&](Count count) {
    return print("%s: %.0f of %.3g looks", name.c_str(), static_cast<double>(counts[count]),
                 static_cast<double>(counts[kLooks]));
  };
  check(ll, counts[kTorn8] == 0, seen(kTorn8));
  check(ll128, counts[kStale] == 0, seen(kStale));
}

struct Buffers {
  std::uint64_t* counts = new_pinned<std::uint64_t>(kCounts);
  std::size_t vectors = (64 << 20) / sizeof(gpu::Vector);
  gpu::Vector* flooded = new_device<gpu::Vector>(vectors);

  Field field(gpu::Pair* lines, unsigned depth, unsigned pairs, std::uint64_t ms) const {
    for (int c = 0; c < kCounts; ++c) poke(counts + c, std::uint64_t{0});
    return {lines, depth, pairs, flooded, vectors, counts, ms * kMillisecond};
  }
};

}  // namespace

void ask_lines() {
  const unsigned sms = multiprocessors();
  const Buffers buffers;
  const unsigned pairs = sms / 2;
  auto* const lines = new_device<gpu::Pair>(pairs_of(pairs, 64));
  for (const unsigned depth : {1u, 4u, 64u}) {
    for (const bool flooded : {false, true}) {
      const std::string name = print("depth_%u%s", depth, flooded ? "_flooded" : "");
      use_lines<<<2 * pairs + (flooded ? sms : 0), kThreads>>>(
          buffers.field(lines, depth, pairs, 300), Role::kBoth);
      PROBE(cudaDeviceSynchronize());
      PROBE(cudaMemset(lines, 0, pairs_of(pairs, 64) * sizeof(gpu::Pair)));
      conclude(name, buffers.counts);
      report_lines("ll_on_device", "ll128_on_device", name, buffers.counts);
    }
  }
  answer("lines of 128 bytes between CTAs through device memory");
}

void ask_lines_host() {
  const Buffers buffers;
  constexpr unsigned kPairs = 4, kDepth = 4;
  const std::size_t count = pairs_of(kPairs, kDepth);
  auto* const lines = new_pinned<gpu::Pair>(count);
  // Another CTA reads.
  use_lines<<<2 * kPairs, kThreads>>>(buffers.field(lines, kDepth, kPairs, 600), Role::kBoth);
  PROBE(cudaDeviceSynchronize());
  conclude("host_memory", buffers.counts);
  report_lines("ll_in_host", "ll128_in_host", "CTA to CTA", buffers.counts);
  // The host reads the flag, then all data before it.
  for (std::size_t i = 0; i < count; ++i) lines[i] = gpu::Pair{};
  use_lines<<<kPairs, kThreads>>>(buffers.field(lines, kDepth, kPairs, 700), Role::kWrites);
  std::uint64_t counts[kCounts] = {};
  std::uint32_t last = 0;
  const double end = now_seconds() + 0.6;
  for (std::size_t line = 0; now_seconds() < end; line = (line + kLanes) % count) {
    for (int look = 0; look < 8; ++look) {
      const std::uint32_t flag = number_of(peek(&lines[line + kLanes - 1].half[1]));
      counts[kLooks] += 1;
      counts[kFresh] += look > 0 && flag != last;
      last = flag;
      for (unsigned part = 0; part < 2 * kLanes; ++part) {
        const std::uint64_t half = peek(&lines[line + part / 2].half[part % 2]);
        counts[kTorn8] += is_torn(half);
        counts[kStale] += number_of(half) < flag;
      }
    }
  }
  PROBE(cudaDeviceSynchronize());
  conclude("read_by_host", counts);
  check("ll_for_host", counts[kTorn8] == 0,
        print("%.0f torn halves", static_cast<double>(counts[kTorn8])));
  answer("lines of 128 bytes through pinned host memory, read by CTAs and by the host");
}

void ask_lines_processes() {
  constexpr unsigned kPairs = 16, kDepth = 4;
  struct Shared {
    Meeting meeting;
    cudaIpcMemHandle_t handle;
    std::uint64_t counts[kCounts];
  };
  auto& shared = *static_cast<Shared*>(share_memory(sizeof(Shared)));
  in_processes(2, [&](int rank) {
    const Buffers buffers;
    void* lines = nullptr;
    if (rank == 0) {
      lines = new_device<gpu::Pair>(pairs_of(kPairs, kDepth));
      PROBE(cudaIpcGetMemHandle(&shared.handle, lines));
    }
    shared.meeting.meet(2);
    if (rank == 1)
      PROBE(cudaIpcOpenMemHandle(&lines, shared.handle, cudaIpcMemLazyEnablePeerAccess));
    auto* const at = static_cast<gpu::Pair*>(lines);
    shared.meeting.meet(2);
    use_lines<<<kPairs, kThreads>>>(buffers.field(at, kDepth, kPairs, 900),
                                    rank == 0 ? Role::kWrites : Role::kReads);
    PROBE(cudaDeviceSynchronize());
    if (rank == 1)
      for (int c = 0; c < kCounts; ++c) shared.counts[c] = buffers.counts[c];
    shared.meeting.meet(2);
  });
  for (int c = 0; c < kCounts; ++c) {
    static const char* const names[] = {"looks",         "changes_seen",      "torn_8_bytes",
                                        "torn_16_bytes", "unlike_their_flag", "older_than_flag"};
    put(names[c], static_cast<double>(shared.counts[c]));
  }
  if (shared.counts[kFresh] == 0) give_up("the reader saw no change, so nothing is known");
  check(
      "ll128_between_processes", shared.counts[kStale] == 0 && shared.counts[kTorn8] == 0,
      print("%.0f older, %.0f torn, %.0f changes seen", static_cast<double>(shared.counts[kStale]),
            static_cast<double>(shared.counts[kTorn8]),
            static_cast<double>(shared.counts[kFresh])));
  answer("lines written by one process and read by another, in turns of the device");
}

void ask_lines_peer() {
  int reaches[2] = {};
  if (device_count() < 2) unsupported("there is one device");
  PROBE(cudaDeviceCanAccessPeer(&reaches[0], 0, 1));
  PROBE(cudaDeviceCanAccessPeer(&reaches[1], 1, 0));
  if (reaches[0] == 0 || reaches[1] == 0) unsupported("devices 0 and 1 do not reach each other");
  constexpr unsigned kPairs = 32, kDepth = 4;
  PROBE(cudaSetDevice(1));
  PROBE(cudaDeviceEnablePeerAccess(0, 0));
  const cudaStream_t there = new_stream();
  use_lines<<<1, kThreads, 0, there>>>(Field{nullptr, 1, 0, nullptr, 0, nullptr, 0}, Role::kBoth);
  PROBE(cudaStreamSynchronize(there));
  PROBE(cudaSetDevice(0));
  PROBE(cudaDeviceEnablePeerAccess(1, 0));
  const cudaStream_t here = new_stream();
  const Buffers buffers;
  auto* const lines = new_device<gpu::Pair>(pairs_of(kPairs, kDepth));
  for (const bool pushed : {true, false}) {
    PROBE(cudaMemset(lines, 0, pairs_of(kPairs, kDepth) * sizeof(gpu::Pair)));
    PROBE(cudaDeviceSynchronize());
    const Field field = buffers.field(lines, kDepth, kPairs, 700);
    PROBE(cudaSetDevice(1));
    use_lines<<<kPairs, kThreads, 0, there>>>(field, pushed ? Role::kWrites : Role::kReads);
    PROBE(cudaSetDevice(0));
    use_lines<<<kPairs, kThreads, 0, here>>>(field, pushed ? Role::kReads : Role::kWrites);
    PROBE(cudaStreamSynchronize(here));
    PROBE(cudaStreamSynchronize(there));
    const char* const name = pushed ? "pushed" : "pulled";
    conclude(name, buffers.counts);
    report_lines("ll_to_peer", "ll128_to_peer", name, buffers.counts);
  }
  PROBE(cudaGetLastError());
  answer("lines of 128 bytes between two devices");
}

}  // namespace probe
