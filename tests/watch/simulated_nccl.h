// SPDX-License-Identifier: Apache-2.0
// SimulatedRank: a rank of a library that simulates NCCL for a profiler plugin: it tells of its
// calls as NCCL does, on the caller's thread what is enqueued, on a second one what runs, and moves
// no data.
//
// A kernel begins when the one before it on its stream has ended. A collective ends once the
// kernels of all ranks are in the same call; ranks that made different calls wait without end, as
// on GPUs. Ranks are in several processes: make SimulatedComm before they are forked.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "collectives/profiler/abi.h"

namespace rondo::test {

inline constexpr int kSimulatedRanks = 8;

// What the GPUs of a communicator share. In memory of all processes.
struct SimulatedComm {
  std::atomic<std::uint64_t> begun[kSimulatedRanks];    // newest collective whose kernel has begun
  std::atomic<std::uint64_t> what[kSimulatedRanks][4];  // of call n at n % 4: function and count
  std::atomic<std::uint64_t> offered[kSimulatedRanks][kSimulatedRanks][2];  // sends, receives
  std::atomic<std::uint64_t> down_from;  // call from which no transfer moves; 0: none
};
std::shared_ptr<SimulatedComm> make_simulated_comm();

// The plugin's table of a version.
const profiler::abi::ProfilerTable& plugin_table(const std::string& file, int version);

class SimulatedRank {
 public:
  struct Options {
    std::string plugin{};
    int version = 6;
    std::uint64_t hash = 0x1234;
    std::string name = "world";
    int rank = 0, ranks = 1, hosts = 1;
    bool network = false;  // each collective has a transfer from the rank before
    unsigned channels = 2;
  };
  SimulatedRank(const Options& options, std::shared_ptr<SimulatedComm> comm);
  ~SimulatedRank();
  SimulatedRank(const SimulatedRank&) = delete;
  SimulatedRank& operator=(const SimulatedRank&) = delete;

  void collective(const char* function, std::size_t count, int root = -1);
  // has_event: as NCCL tells of it; a Broadcast of NCCL 2.30 has no event but its call's.
  void collective(const char* function, std::size_t count, int root, bool has_event);
  void message(bool is_send, int peer, std::size_t count);
  // A send to each of these ranks and a receive from it, as one kernel: none ends before all can.
  void exchange(const std::vector<int>& peers, std::size_t count);
  // Waits until at most `open` operations have not ended.
  void wait_for_gpu(std::size_t open = 0);
  void block_stream(bool blocked) { blocked_ = blocked; }
  void finish();  // ncclCommDestroy
  std::uint64_t ended() const { return ended_; }
  int mask() const { return mask_; }

 private:
  struct Work {
    std::string function;
    std::size_t count = 0;
    int peer = -1;
    void* event = nullptr;
    std::uint64_t number = 0;  // of collectives
    bool goes_on = false;      // the next one is of the same kernel
  };
  Work post(bool is_send, int peer, std::size_t count, void* in_group);
  void begin(Work& work, std::vector<void*>* events);
  void* start(profiler::abi::Descriptor5 event);
  void stop(void* event);
  void enqueue(const std::vector<Work>& works);
  void run_stream();
  bool may_end(const Work& work) const;

  const Options options_;
  const profiler::abi::ProfilerTable& table_;
  const std::shared_ptr<SimulatedComm> comm_;
  void* context_ = nullptr;
  int mask_ = 0;
  std::uint64_t calls_ = 0;
  std::atomic<std::uint64_t> enqueued_{0}, ended_{0};
  std::atomic<bool> blocked_{false}, over_{false};
  std::mutex mutex_;
  std::deque<Work> stream_;
  std::thread gpu_;
};

}  // namespace rondo::test
