// SPDX-License-Identifier: Apache-2.0
// Ranks with communicators of nccl.h, each on a device with its own stream, or on host memory.
//
//   with_ranks(3, [](ncclComm_t comm, int rank) { ... });   // threads of this process, host memory
//   run_job(as_processes(4, Gpus::kOne), [](NcclRank& seat) {
//     NCCL_OK(ncclAllReduce(..., seat.comm, seat.stream));
//   });
// Devices are real (preset cuda) or emulated (preset simt).
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "api/nccl.h"
#include "base/gpu.h"
#include "tests/support/processes.h"

namespace rondo::test {

#define GPU_OK(call)                                                                  \
  do {                                                                                \
    const GpuError gpu_ok = (call);                                                   \
    ASSERT_EQ(gpu_ok, kGpuSuccess) << #call << ": " << gpu_api()->error_text(gpu_ok); \
  } while (0)
#define NCCL_OK(call) ASSERT_EQ(call, ncclSuccess) << #call << ": " << ncclGetLastError(nullptr)

struct NcclRank : RankSeat {
  using RankSeat::RankSeat;
  ncclComm_t comm = nullptr;
  GpuStream stream = nullptr;

  ncclUniqueId id() const;
  bool on_gpu() const { return device != kHostMemory; }
  // Sets this thread's device and creates the stream.
  void prepare();
  // Creates comm, blocking or nonblocking.
  void join(const ncclConfig_t* config = nullptr);
  // Waits for the stream and destroys comm. Fails if the device has a pending error.
  void leave();

  bool begin(const Job& job);
  void end(const Job& job);
};
using NcclBody = std::function<void(NcclRank&)>;

// The ranks of a job in this process, driven by this thread. n: number of ranks, all on device 0.
class DeviceRanks : public Ranks<NcclRank> {
 public:
  explicit DeviceRanks(int n) : DeviceRanks(std::vector<int>(static_cast<std::size_t>(n), 0)) {}
  explicit DeviceRanks(const std::vector<int>& devices);
  ~DeviceRanks();
  DeviceRanks(const DeviceRanks&) = delete;
  DeviceRanks& operator=(const DeviceRanks&) = delete;

  std::vector<ncclComm_t> comms() const;
  std::vector<GpuStream> streams() const;
  void use_device_of(int rank) const;
  void synchronize();
};

// Runs body(comm, rank) on host memory, each rank on its own thread; destroys the communicators.
void with_ranks(int ranks, const std::function<void(ncclComm_t, int)>& body,
                const ncclConfig_t* config = nullptr);

// Number of GPUs under these variables. A child process counts them, so this process does not touch
// a device.
int gpus_there(const Environment& environment = {});

}  // namespace rondo::test
