// Ranks with communicators of nccl.h, each on a device with a stream of its own, or on host memory.
//
//   with_ranks(3, [](ncclComm_t comm, int rank) { ... });   // threads of this process, host memory
//   run_job(as_processes(4, Gpus::kOne), [](NcclRank& seat) {
//     NCCL_OK(ncclAllReduce(..., seat.comm, seat.stream));
//   });
// Devices are real ones (preset cuda) or emulated ones (preset simt).
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
  // Makes its device this thread's, and the stream.
  void prepare();
  // Makes comm, also one that does not block.
  void join(const ncclConfig_t* config = nullptr);
  // Waits for the stream, destroys comm; no error may have been left on the device.
  void leave();

  bool begin(const Job& job);
  void end(const Job& job);
};
using NcclBody = std::function<void(NcclRank&)>;

// The ranks of a job in this process, driven by this thread; n: all on device 0.
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

// Runs body(comm, rank) on host memory, each rank on its thread; destroys the communicators.
void with_ranks(int ranks, const std::function<void(ncclComm_t, int)>& body,
                const ncclConfig_t* config = nullptr);

// Counted by a process of its own.
int gpus_there();

}  // namespace rondo::test
