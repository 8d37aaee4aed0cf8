// SPDX-License-Identifier: Apache-2.0
// Grid, Cta, Thread: a running kernel of the emulated GPU and its parts.
//
// Plain data that Worker schedules and the hooks (hooks.cc) change. A grid belongs to one launch; a
// CTA and its threads exist while the CTA is resident and stay with one worker.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/simt/machine/fiber.h"
#include "tests/simt/machine/mbarrier.h"
#include "tests/simt/machine/weak_memory.h"

namespace rondo::simt {

class Worker;
class AddressSpace;
struct Cta;

inline constexpr unsigned kWarpLanes = 32;
inline constexpr unsigned kUsualRegisters = 96;  // if the kernel's count is unknown

// One launch. `body` runs once per thread with the arguments.
struct Grid {
  std::string name;
  void (*body)(const void* arguments) = nullptr;
  std::vector<std::byte> arguments;
  unsigned ctas = 1;
  unsigned threads = 1;                  // per CTA
  unsigned registers = kUsualRegisters;  // per thread
  std::size_t shared_bytes = 0;
  int device = 0;
  bool cooperative = false;
  bool remote_domain = true;  // its fences wait for stores that leave the device

  std::atomic<unsigned> ctas_left{0};    // CTAs that have not ended
  std::atomic<bool> spun{false};         // true if it has polled for another grid, host or process
  std::atomic<bool> given_up{false};     // after a violation, or when the device is lost
  std::vector<unsigned> waiting;         // CTAs that are not resident yet; used by the dispatcher
  std::function<void(Grid&)> when_over;  // called once, by the thread that ends the last CTA

  const void* argument() const { return arguments.data(); }
};

struct Thread {
  Thread(Cta& cta, unsigned index);

  Cta& cta;
  const unsigned index;
  Fiber fiber;
  ThreadMemory memory;
  std::size_t ready_at = 0;  // index in its worker's list + 1; 0: blocked or ended
  bool spinning = false;     // nothing has changed for it since its last poll
  const char* blocked_in = nullptr;
};

// A CTA-wide barrier: waits for all of its threads, then releases them.
struct Barrier {
  unsigned arrived = 0;
  BarrierViews views;  // of the threads that arrived
  std::vector<Thread*> waiting;
};

// Meeting of a warp for votes and shuffles: every lane contributes a value and reads the others'.
struct Warp {
  unsigned lanes = 0;
  unsigned arrived = 0;
  const char* what = nullptr;
  std::array<std::uint64_t, kWarpLanes> brought{};
  std::array<std::uint64_t, kWarpLanes> taken{};  // values of the newest complete meeting
  std::array<LinePart, kWarpLanes> parts;         // parts of lines that are being stored
  std::uint32_t ordered = 0;  // meetings and barriers so far that order its lanes' memory accesses
  BarrierViews views;
  std::vector<Thread*> waiting;
};

// Who wrote a word of shared memory last, and when: Warp::ordered of its warp.
struct SharedWriter {
  static constexpr std::uint32_t kNobody = ~0u;
  std::uint32_t thread = kNobody, ordered = 0;
};

struct Cta {
  Cta(std::shared_ptr<Grid> grid, unsigned index, StoreBuffer* device_stores);

  std::shared_ptr<Grid> grid;
  const unsigned index;
  int multiprocessor = 0;
  StoreBuffer stores;                 // visible to the whole CTA
  std::vector<std::uint64_t> shared;  // dynamic shared memory, filled with garbage at first
  std::vector<SharedWriter> writers;  // of each word, with weak memory only
  Barrier barrier;
  std::vector<Warp> warps;
  Mbarriers mbarriers;
  std::vector<std::unique_ptr<Thread>> threads;
  unsigned threads_left;       // threads that have not ended
  unsigned threads_ready = 0;  // threads that can run
  Worker* worker = nullptr;
};

// "kernel direct reduce, CTA 3, thread 17"
std::string describe(const Thread& thread);

}  // namespace rondo::simt
