// SPDX-License-Identifier: Apache-2.0
// Config: the machine that the emulated GPUs pretend to be, from the environment or from a test.
//
//   RONDO_SIMT_DEVICES=8   number of devices of the machine
//   CUDA_VISIBLE_DEVICES   those that the process sees, as CUDA's programs number them: numbers or
//                          beginnings of UUIDs. What follows an entry that names none does not
//                          count; a list that names one twice shows none. Hidden devices stay
//                          usable through memory that other processes share
//   RONDO_SIMT_SEED=1      seed of all random choices
//   RONDO_SIMT=a=b,...     the rest:
//     mode=seed|weak|parallel   how kernels run: one thread at a time; the same with weak memory;
//     or
//                               on OS threads, which is fast and not repeatable
//     queues=N|own      hardware queues per device (0: 1 to 8, by the seed); streams share them.
//                       own: 32, and each stream has one of its own, as for kernels that wait for
//                       each other
//     p2p=all|none|pairs|lost|copies   which devices have peer access (pairs: 0-1, 2-3, ...);
//                               lost: all, but what a device writes into imported memory of another
//                               one is lost; copies: the same for kernels, while copies arrive
//     topology=FILE     devices get the bus ids of the GPUs of NCCL's topology file, in its order;
//                       set NCCL_TOPO_FILE to the same file for Rondo
//     multiprocessors=N, memory=MiB       per device
//     mig=N             every N devices are MIG instances of one GPU: they have its bus id, a UUID
//                       that begins with MIG-, and no peer access; a process sees only its first
//     kinds=equal|mixed mixed: devices with odd numbers are of another kind, an L40: compute
//                       capability 8.9, half of the multiprocessors, no multicast
//     lines=torn|whole          whether lines of 128 bytes reach a device's memory whole
//     multicast=0|1     whether devices support multicast objects
//     dmabuf=0|1        whether device memory can be exported as dmabuf files
//     fabric=N          the NVLink clique of the devices, whose memory processes with the same N
//                       on other emulated hosts can map (0: none)
//     imex=0|1          whether the process may use an IMEX channel, which fabric=N needs
//     flushes=0|1       whether the driver flushes what adapters have written
//     ordering=owner|none       whether a device sees what adapters write without a flush
//     commands=N        capacity of a hardware queue (1000; 0: no limit). If one is full,
//                       calls that put commands on any stream of its device wait
//     cooperative=N     cooperative kernels that run on a device at once (0: no limit)
//     slices=N          time slices that a kernel may spend spinning while another process waits
//                       for its device
//     frees=wait|chance wait: cudaFree, cudaFreeHost, cudaHostUnregister and cudaIpcCloseMemHandle
//                       always wait until the device is idle, as drivers do, also for commands that
//                       arrive while they wait, and allocation never waits; chance: both wait at
//                       random, which is all that CUDA promises
//     registers=wait|now        wait: cudaHostRegister waits until all that its device had to do
//                               when it was called has finished, as some drivers do
//     pace=N            delay of a kernel's start, in microseconds after it could begin
//     standstill=N      seconds without progress after which a waiting call prints what the queues
//                       hold (20; 0: never)
//     out_of_memory=N   the Nth device allocation and every later one fail
//     lost=N            the Nth kernel launch of the process loses its device
//   CUDA_MODULE_LOADING=EAGER       kernels do not have to be loaded before they are launched
//   CUDA_LAUNCH_BLOCKING=1          a launch returns when its kernel has finished
//   CUDA_DEVICE_MAX_CONNECTIONS=N   hardware queues per device, unless RONDO_SIMT has queues
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/simt/machine/gang.h"

namespace rondo::simt {

struct Config {
  enum class PeerAccess : std::uint8_t { kAll, kNone, kPairs, kLost, kCopies };

  int devices = 8;
  std::optional<std::string> visible{};  // CUDA_VISIBLE_DEVICES; nullopt: all
  std::uint64_t seed = 1;
  bool weak = false;
  bool whole_lines = false;
  int threads = 0;  // OS threads that run kernels; 0: seed mode
  int queues = 0;
  bool own_queues = false;
  PeerAccess p2p = PeerAccess::kAll;
  std::string topology{};              // the file name, for reproducer()
  std::vector<std::string> bus_ids{};  // by device; missing ones are generated
  int multiprocessors = 132;
  int mig = 0;  // instances per GPU; 0: no MIG
  bool mixed = false;
  std::uint64_t memory_mib = 4096;
  std::uint64_t commands = 1000;
  int cooperative = 0;
  int slices = 8;
  std::uint64_t pace = 0;
  double standstill_seconds = 20;
  bool multicast = true;
  bool dmabuf = true;
  int fabric = 0;
  bool imex = true;
  bool flushes = true;         // the driver flushes what adapters have written
  bool ordered_writes = true;  // adapters' writes are visible without a flush
  bool frees_wait = false;
  bool registers_wait = false;
  std::uint64_t out_of_memory = 0;  // 0: never
  std::uint64_t lost = 0;           // 0: never
  bool blocking_launches = false;
  bool lazy_loading = true;
  bool own_thread = true;  // false: the device runs only while a call waits for it

  static Config from_environment();          // on bad values, prints an error and ends the process
  std::string reproducer() const;            // environment variables that repeat the run
  std::vector<int> visible_devices() const;  // numbers on the machine, in the process's order
};

std::array<unsigned char, 16> uuid_of(int device);
// As CUDA_VISIBLE_DEVICES names it: "GPU-726f6e64-6f20-7369-6d74-206770752001".
std::string uuid_text(int device, bool mig);

}  // namespace rondo::simt
