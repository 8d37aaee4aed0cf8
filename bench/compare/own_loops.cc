// SPDX-License-Identifier: Apache-2.0
// All-reduce loops without a library: the speed that the machine itself allows. The ranks are
// forked processes with shared memory. The loops have no checks and no other features.
//
//   own_loops FOLDER RANKS LOOP, where LOOP is
//   line          each rank writes a cache line and waits for those of the others (for any size)
//   two_copy      copy in, reduce own slice of all inputs into shared memory, copy the result out
//   one_copy      copy in, reduce everything from own input and the others' copies
//   direct        the buffers are shared memory: reduce own slice, write it to all outputs
//   ..._nt        the same with non-temporal stores to the caller's buffers
// two_copy and one_copy are pipelined in chunks that stay in the cache, two alternating.
#define HWY_COMPILE_ONLY_STATIC
#include <hwy/cache_control.h>
#include <hwy/highway.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "base/atomics.h"
#include "bench/compare/loop.h"

namespace {

namespace hn = hwy::HWY_NAMESPACE;
using compare::Task;
constexpr int kMaxRanks = 64;
constexpr std::size_t kChunk = 32 << 10;                 // elements
constexpr std::size_t kShared = std::size_t{160} << 20;  // bytes of shared buffers per rank

struct alignas(64) Line {
  std::atomic<std::uint64_t> step;
};

struct Shared {
  Line lines[kMaxRanks];
  float* buffers;  // kShared bytes per rank
  float* staging;  // two chunks per rank
  float* results;  // two chunks
};

// out[i] = sum over sources of source[i] for i in [0, count); out may be several.
template <bool kStream>
void add(float* const* outs, int out_count, const float* const* sources, int n, std::size_t count) {
  const hn::ScalableTag<float> tag;
  const std::size_t lanes = hn::Lanes(tag);
  bool stream = kStream;
  for (int o = 0; o < out_count; ++o)
    stream = stream && reinterpret_cast<std::uintptr_t>(outs[o]) % (lanes * sizeof(float)) == 0;
  std::size_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    auto a = hn::LoadU(tag, sources[0] + i), b = hn::LoadU(tag, sources[0] + i + lanes);
    for (int s = 1; s < n; ++s) {
      a = hn::Add(a, hn::LoadU(tag, sources[s] + i));
      b = hn::Add(b, hn::LoadU(tag, sources[s] + i + lanes));
    }
    for (int o = 0; o < out_count; ++o) {
      if (stream) {
        hn::Stream(a, tag, outs[o] + i);
        hn::Stream(b, tag, outs[o] + i + lanes);
      } else {
        hn::StoreU(a, tag, outs[o] + i);
        hn::StoreU(b, tag, outs[o] + i + lanes);
      }
    }
  }
  for (; i < count; ++i) {
    float sum = sources[0][i];
    for (int s = 1; s < n; ++s) sum += sources[s][i];
    for (int o = 0; o < out_count; ++o) outs[o][i] = sum;
  }
}

struct Loops {
  Shared* shared;
  int rank, ranks;
  std::string loop;
  bool stream = false, crowded = false;
  std::uint64_t step = 0;
  std::size_t round = 0;  // over all calls: selects the half of the staging
  std::size_t taken = 0;  // allocated bytes of own shared buffers

  float* allocate(std::size_t bytes) {
    if (loop != "direct") return compare::allocate_plain(bytes);
    float* memory = area(rank) + taken / sizeof(float);
    taken += (bytes + 4095) / 4096 * 4096;
    if (taken > kShared) std::exit(4);
    return memory;
  }
  void release(float* memory) {
    if (loop != "direct") return std::free(memory);
    taken = 0;
  }
  float* area(int r) const { return shared->buffers + kShared / sizeof(float) * r; }
  // The same buffer of rank r: all ranks allocate in the same order.
  float* of(int r, float* mine) const { return area(r) + (mine - area(rank)); }

  void meet() {
    shared->lines[rank].step.store(++step, std::memory_order_release);
    for (int r = 0; r < ranks; ++r)
      for (int turn = 0; shared->lines[r].step.load(std::memory_order_acquire) < step; ++turn) {
        if (crowded && turn > 50) {
          sched_yield();
        } else {
          rondo::cpu_relax();
        }
      }
  }

  std::size_t slice(std::size_t count, int r) const {
    return count * static_cast<std::size_t>(r) / static_cast<std::size_t>(ranks) / 16 * 16;
  }
  std::size_t slice_end(std::size_t count, int r) const {
    return r + 1 == ranks ? count : slice(count, r + 1);
  }

  void sum(float* const* outs, int out_count, const float* const* sources, std::size_t count) {
    if (stream) return add<true>(outs, out_count, sources, ranks, count);
    add<false>(outs, out_count, sources, ranks, count);
  }

  void two_copy(const Task& t) {
    for (std::size_t at = 0; at < t.count; at += kChunk) {
      const std::size_t count = std::min(kChunk, t.count - at), half = round++ % 2 * kChunk;
      std::memcpy(staged(rank) + half, t.send + at, count * sizeof(float));
      meet();
      const std::size_t begin = slice(count, rank), end = slice_end(count, rank);
      const float* sources[kMaxRanks];
      for (int r = 0; r < ranks; ++r) sources[r] = staged(r) + half + begin;
      float* result = shared->results + half;
      float* out = result + begin;
      add<false>(&out, 1, sources, ranks, end - begin);
      meet();
      const float* from = result;
      float* to = t.receive + at;
      if (stream) {
        add<true>(&to, 1, &from, 1, count);
      } else {
        std::memcpy(to, from, count * sizeof(float));
      }
    }
    hwy::FlushStream();
  }

  void one_copy(const Task& t) {
    for (std::size_t at = 0; at < t.count; at += kChunk) {
      const std::size_t count = std::min(kChunk, t.count - at), half = round++ % 2 * kChunk;
      std::memcpy(staged(rank) + half, t.send + at, count * sizeof(float));
      meet();
      const float* sources[kMaxRanks];
      for (int r = 0; r < ranks; ++r) sources[r] = r == rank ? t.send + at : staged(r) + half;
      float* to = t.receive + at;
      sum(&to, 1, sources, count);
    }
    hwy::FlushStream();
  }

  void direct(const Task& t) {
    meet();
    const std::size_t begin = slice(t.count, rank), end = slice_end(t.count, rank);
    const float* sources[kMaxRanks];
    float* outs[kMaxRanks];
    for (int r = 0; r < ranks; ++r) {
      sources[r] = of(r, t.send) + begin;
      outs[r] = of(r, t.receive) + begin;
    }
    sum(outs, ranks, sources, end - begin);
    hwy::FlushStream();
    meet();
  }

  float* staged(int r) const { return shared->staging + 2 * kChunk * static_cast<std::size_t>(r); }

  void calls(const Task& task, int count) {
    for (int i = 0; i < count; ++i) {
      if (loop == "line") {
        meet();
      } else if (loop == "two_copy") {
        two_copy(task);
      } else if (loop == "one_copy") {
        one_copy(task);
      } else {
        direct(task);
      }
    }
    if (loop == "line")
      for (std::size_t i = 0; i < task.count; ++i)
        task.receive[i] = 0.5F * static_cast<float>(ranks * (ranks + 1));
  }
};

void* map_shared(std::size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) std::exit(4);
  return memory;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const int ranks = std::min(std::atoi(argv[2]), kMaxRanks);
  auto* shared = static_cast<Shared*>(map_shared(sizeof(Shared)));
  shared->buffers = static_cast<float*>(map_shared(kShared * static_cast<std::size_t>(ranks)));
  shared->staging =
      static_cast<float*>(map_shared(2 * kChunk * sizeof(float) * static_cast<std::size_t>(ranks)));
  shared->results = static_cast<float*>(map_shared(2 * kChunk * sizeof(float)));
  Loops loops{shared, 0, ranks, argv[3]};
  if (const auto at = loops.loop.find("_nt"); at != std::string::npos) {
    loops.loop.resize(at);
    loops.stream = true;
  }
  cpu_set_t allowed;
  sched_getaffinity(0, sizeof allowed, &allowed);
  loops.crowded = ranks > CPU_COUNT(&allowed);
  for (int r = 0; r < ranks; ++r) {
    if (fork() != 0) continue;
    loops.rank = r;
    rondo::bench::bind_to_cpu(r);  // in every condition: no launcher starts them
    compare::serve(loops, argv[1], r, ranks);
    return 0;
  }
  while (wait(nullptr) > 0) {
  }
  return 0;
}
