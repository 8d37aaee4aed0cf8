// SPDX-License-Identifier: Apache-2.0
// Worker: runs the threads of resident CTAs, one at a time, on the thread that calls turn().
//
// A GPU thread runs until it waits for others, synchronises or spins; then the seed picks the next
// thread. One worker for all CTAs makes a process's kernels repeatable; several workers, each on
// its own thread, run them in parallel (with the host's own memory order). Cost: 60 ns a switch.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "tests/simt/machine/grid.h"
#include "tests/simt/machine/random.h"
#include "tests/simt/machine/violation.h"

namespace rondo::simt {

inline constexpr int kMaxDevices = 20;

class Worker {
 public:
  struct Options {
    std::uint64_t seed = 1;
    bool weak_memory = false;  // one worker only
    bool whole_lines = false;  // lines of 128 bytes reach the devices' memory whole
    bool jumpy = true;         // plain accesses also yield now and then
  };
  enum class Turn { kIdle, kSpun, kMoved };

  Worker(AddressSpace& memory, const Options& options);
  ~Worker();

  void add(std::unique_ptr<Cta> cta);  // on the thread that calls turn()
  // Runs one GPU thread of the devices in `allowed` (bit d). kSpun: the thread only polls, and has
  // seen no change for a while.
  Turn turn(std::uint32_t allowed);
  // Drops all running threads of a grid, wherever they are.
  void drop(Grid& grid);
  void drop_device(int device);
  // CTAs that have ended since the last call; their room can be reused.
  std::vector<std::unique_ptr<Cta>> take_ended() { return std::move(ended_); }
  bool has_work(int device) const { return !devices_[device].ready.empty(); }

  // For the hooks, on the GPU thread that runs.
  static Thread* running();
  AddressSpace& memory() { return memory_; }
  bool keeps_lines_whole(std::uint64_t address) const;  // false for host memory
  WeakMemory* weak() { return options_.weak_memory ? &weak_ : nullptr; }
  StoreBuffer& device_stores(int device) { return devices_[device].stores; }
  void give_way();                  // another thread may run first
  void looks();                     // yields before reading what other threads write
  void look_again();                // the same for a thread that saw no change
  void plain_access();              // may yield
  void block(const char* in_what);  // until wake()
  void wake(Thread& thread);
  [[noreturn]] void give_up();  // ends this thread's grid
  Random& random() { return random_; }

 private:
  struct DevicePart {
    std::vector<Thread*> ready;
    std::size_t spinning = 0;
    StoreBuffer stores;
  };

  DevicePart& part(const Thread& thread) { return devices_[thread.cta.grid->device]; }
  void make_ready(Thread& thread);
  void make_unready(Thread& thread);
  void set_spinning(Thread& thread, bool spinning);
  void after(Thread& thread);
  void check_stuck(Cta& cta);
  void retire(Cta& cta);

  AddressSpace& memory_;
  const Options options_;
  Random random_;
  WeakMemory weak_;
  std::array<DevicePart, kMaxDevices> devices_;
  std::vector<std::unique_ptr<Cta>> resident_, ended_;
  std::uint64_t spins_ = 0;  // consecutive turns without progress
  unsigned until_jump_ = 1;
};

// Reports a violation by the running thread; its kernel ends.
[[noreturn]] void refuse(Violation kind, const std::string& what);
// Called by hooks with weak memory: on a weak load, and before a store.
void note_read(Thread& thread, const std::byte* at, unsigned bytes);
void check_reads(Thread& thread, const std::byte* at, unsigned bytes);
// Checks the proxy by which a thread accesses `at` (machine/proxies.h).
void check_way(Thread& thread, const std::byte* at, Proxy way, bool writes);
// Before a store to a device address: checks that the launch declared stores that leave the device.
void check_domain(Thread& thread, std::uint64_t address);

}  // namespace rondo::simt
