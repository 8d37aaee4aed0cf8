// Config: what machine the emulated GPUs pretend to be, from the environment or from a test.
//
//   RONDO_SIMT_DEVICES=8   devices
//   RONDO_SIMT_SEED=1      of everything that is left to chance
//   RONDO_SIMT=a=b,...     the rest:
//     mode=seed|weak|parallel   how kernels run: one thread at a time; with weak memory besides; or
//                               on OS threads, fast and not repeatable
//     queues=N          hardware queues a device (0: 1 to 8, by the seed); streams share them
//     p2p=all|none|pairs        which devices reach each other (pairs: 0-1, 2-3, ...)
//     topology=FILE     devices have the bus ids of the GPUs of NCCL's topology file, in its order;
//                       NCCL_TOPO_FILE tells Rondo the same machine
//     multiprocessors=N, memory=MiB       a device
//     lines=torn|whole          whether lines of 128 bytes reach a device's memory whole
//     multicast=0|1     whether devices can be joined by multicast objects
//     dmabuf=0|1        whether device memory can be had as dmabuf files
//     flushes=0|1       whether the driver flushes what adapters have written
//     ordering=owner|none       whether a device sees what adapters write without a flush
//     commands=N        that a hardware queue holds (1000; 0: any number). Where one is full, calls
//                       that put commands on any stream of its device wait
//     cooperative=N     cooperative kernels that run on a device at once (0: any number)
//     slices=N          time slices that a kernel may spend spinning while another process waits
//                       for its device
//     frees=wait|chance whether cudaFree, cudaFreeHost, cudaHostUnregister and
//     cudaIpcCloseMemHandle
//                       always wait until the device is idle, as drivers do, also for what comes
//                       while they free, and allocating never does; or both do so by chance, which
//                       is all that CUDA says
//     pace=N            microseconds from when a kernel could begin until it does
//     standstill=N      seconds after which a call that waits prints what the queues hold, if
//                       nothing has ended meanwhile (20; 0: never)
//     out_of_memory=N   the Nth device allocation fails, and every later one
//     lost=N            the Nth kernel launch of the process loses its device
//   CUDA_MODULE_LOADING=EAGER       kernels need not be loaded before they are launched
//   CUDA_LAUNCH_BLOCKING=1          a launch returns when its kernel is over
//   CUDA_DEVICE_MAX_CONNECTIONS=N   hardware queues a device, unless RONDO_SIMT says queues
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/simt/machine/gang.h"

namespace rondo::simt {

struct Config {
  enum class PeerAccess : std::uint8_t { kAll, kNone, kPairs };

  int devices = 8;
  std::uint64_t seed = 1;
  bool weak = false;
  bool whole_lines = false;
  int threads = 0;  // OS threads for kernels; 0: seed mode
  int queues = 0;
  PeerAccess p2p = PeerAccess::kAll;
  std::string topology{};              // the file, for reproducer()
  std::vector<std::string> bus_ids{};  // by device; those that are missing are made up
  int multiprocessors = 132;
  std::uint64_t memory_mib = 4096;
  std::uint64_t commands = 1000;
  int cooperative = 0;
  int slices = 8;
  std::uint64_t pace = 0;
  double standstill_seconds = 20;
  bool multicast = true;
  bool dmabuf = true;
  bool flushes = true;         // of what adapters have written, by the driver
  bool ordered_writes = true;  // of adapters
  bool frees_wait = false;
  std::uint64_t out_of_memory = 0;  // 0: never
  std::uint64_t lost = 0;           // 0: never
  bool blocking_launches = false;
  bool lazy_loading = true;
  bool own_thread = true;  // false: the device moves only while a call waits for it

  static Config from_environment();  // ends the process with a sentence on nonsense
  std::string reproducer() const;    // the environment that repeats it
};

}  // namespace rondo::simt
