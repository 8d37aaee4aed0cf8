// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/processes/multicast_check.h"

#include <algorithm>

#include "base/log.h"
#include "base/poll_until.h"
#include "collectives/gpu/launch/strategies.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/multicast_args.h"
#include "transport/cuda/device.h"
#include "transport/memory/own_memory.h"
#include "transport/memory/pinned_file.h"

namespace rondo::gpu {
namespace {

constexpr std::size_t kElements = 4096, kPeriod = 61;
constexpr int kCtas = 2;
constexpr std::uint64_t kPerRound = 512;  // of a CTA: more rounds than it has slots
constexpr std::uint32_t kGrain = 16;      // elements of 64 bytes
constexpr std::chrono::seconds kEnd{2};   // of a kernel that is stopped

// Small integers, so sums are exact in any order.
float value_of(int rank, std::size_t i) {
  return static_cast<float>((rank + 1) * static_cast<int>(i % kPeriod + 1));
}
float sum_of(int ranks, std::size_t i) {
  const int sum_of_factors = ranks * (ranks + 1) / 2;
  return static_cast<float>(sum_of_factors * static_cast<int>(i % kPeriod + 1));
}

// This rank's part. Others wait for its kernel, so all agree after each step.
class OwnCheck {
 public:
  OwnCheck(DeviceConnections& connections, const MulticastMemory& multicast, int rank)
      : connections_(connections), multicast_(multicast), rank_(rank) {}
  ~OwnCheck() { stop(); }
  OwnCheck(const OwnCheck&) = delete;
  OwnCheck& operator=(const OwnCheck&) = delete;

  Status prepare() {
    RONDO_TRY(memory_, allocate_pinned(2 * kElements * sizeof(float),
                                       "cudaHostAlloc for a check of multicast memory"));
    for (std::size_t i = 0; i < kElements; ++i) values()[i] = value_of(rank_, i);
    std::fill_n(values() + kElements, kElements, 0.0F);
    RONDO_CHECK_OK(check(api_.load_kernel(cuda::multicast_kernel(DataType::kFloat32)),
                         "loading the kernel of multicast memory"));
    return check(api_.create_stream(&stream_, 0), "cudaStreamCreate");
  }
  Status launch() {
    Status launched = launch_sum();
    if (launched.ok()) state_ = kGpuNotReady;
    return launched;
  }
  Status sum() {
    if (!ends_within(kSwitchPatience))
      return fail(StatusCode::kTimeout, "its kernel did not end within {} s",
                  kSwitchPatience.count());
    RONDO_CHECK_OK(check(state_, "the kernel of a check of multicast memory"));
    const float* const sums = values() + kElements;
    for (std::size_t i = 0; i < kElements; ++i) {
      const float expected = sum_of(connections_.layout().ranks(), i);
      if (sums[i] != expected)
        return fail(StatusCode::kSystemError, "the switch sums {} to {} (element {} of {})",
                    expected, sums[i], i, kElements);
    }
    return ok_status();
  }

  // The states of a rank after a failure, the worst last.
  enum State { kAsBefore, kWasStopped, kRuns };
  State stop() {
    State found = kAsBefore;
    if (state_ == kGpuNotReady) {
      connections_.stop_kernels();
      ends_within(kEnd);
      found = kWasStopped;
    }
    if (state_ != kGpuSuccess) found = kRuns;
    if (stream_ != nullptr) api_.destroy_stream(stream_);
    stream_ = nullptr;
    return found;
  }

 private:
  float* values() const { return reinterpret_cast<float*>(memory_.get()); }
  bool ends_within(std::chrono::seconds time) {
    return poll_until([&] { return (state_ = api_.query_stream(stream_)) != kGpuNotReady; },
                      std::chrono::steady_clock::now() + time);
  }
  Status launch_sum() const {
    RONDO_TRY(std::byte* const input, address_on_device(memory_));
    JointCall call;
    call.plan.strategy = Strategy::kMulticast;
    call.plan.algorithm = Algorithm::kNvls;
    call.plan.channels = kCtas;
    call.plan.threads = cuda::kMulticastThreads;
    call.plan.grain = kGrain;
    call.plan.per_round = kPerRound;
    call.record.collective = Collective::kAllReduce;
    call.record.type = DataType::kFloat32;
    call.record.op = RedOp::kSum;
    call.record.count = kElements;
    Buffers& own = call.buffers.emplace_back();
    own.send = input;
    own.receive = input + kElements * sizeof(float);
    const JointCall* const calls[] = {&call};
    DeviceLaunch part{connections_, calls, {&rank_, 1}};
    part.stream = stream_;
    part.multicast = &multicast_;
    part.counts = false;
    return launch_multicast(part);
  }

  const GpuApi& api_ = *gpu_api();
  DeviceConnections& connections_;
  const MulticastMemory& multicast_;
  const int rank_;
  OwnMemory memory_;  // input, then output
  GpuStream stream_ = nullptr;
  GpuError state_ = kGpuSuccess;  // of the kernel; kGpuNotReady: it runs
};

}  // namespace

Result<SwitchAnswer> check_switch(const ProcessPeers& peers, DeviceConnections& connections,
                                  const MulticastMemory& multicast) {
  OwnCheck own(connections, multicast, peers.first_rank());
  for (Status (OwnCheck::*step)() : {&OwnCheck::prepare, &OwnCheck::launch, &OwnCheck::sum}) {
    RONDO_TRY(const auto refusal, refusal_of_any(peers, (own.*step)()));
    if (!refusal) continue;
    RONDO_TRY(const int worst, highest_of_all(peers, own.stop()));
    if (worst == OwnCheck::kRuns)
      return fail(StatusCode::kSystemError,
                  "multicast memory (NVLS) does not work on the GPU of rank {}: {}; set "
                  "NCCL_NVLS_ENABLE=0",
                  refusal->rank, refusal->why.text);
    RONDO_WARN("calls run without multicast memory (NVLS), since a check by rank {} failed: {}",
               refusal->rank, refusal->why.text);
    return worst == OwnCheck::kWasStopped ? SwitchAnswer::kStopped : SwitchAnswer::kFails;
  }
  return SwitchAnswer::kSums;
}

}  // namespace rondo::gpu
