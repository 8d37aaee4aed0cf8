// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/launch/strategies.h"

#include <algorithm>
#include <cassert>
#include <iterator>

#include "collectives/planner/leaf_layout.h"
#include "kernels/cuda/connected_args.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/ll_push_args.h"
#include "kernels/cuda/multicast_args.h"
#include "kernels/reduce.h"
#include "transport/cuda/device.h"

namespace rondo::gpu {
namespace {

int connected_kernel(const JointCall& call) {
  return call.copies() ? cuda::kConnectedCopyKernel
                       : cuda::connected_kernel(call.record.type, call.record.op);
}
int ll_push_kernel(const JointCall& call) {
  return call.copies() ? cuda::kLLPushCopyKernel
                       : cuda::ll_push_kernel(call.record.type, call.record.op);
}
int multicast_kernel(const JointCall& call) {
  return call.copies() ? cuda::kFirstMulticastKernel : cuda::multicast_kernel(call.record.type);
}
int direct_kernel(const JointCall& call) {
  return call.copies() ? cuda::kCopyKernel : cuda::direct_kernel(call.record.type, call.record.op);
}

// The kernel takes a list of up to `maximum` calls.
bool takes_one_more(JointCalls calls, const JointCall& next, std::size_t maximum) {
  return next.kernel() == calls.front()->kernel() && calls.size() < maximum;
}
Fusion fuses_connected(JointCalls calls, const JointCall& next, int stations) {
  if (next.kernel() != calls.front()->kernel() || next.plan.groups != calls.front()->plan.groups ||
      !cuda::ConnectedArgs::has_room(static_cast<std::size_t>(stations), calls.size() + 1))
    return Fusion::kNone;
  return stations > 1 ? Fusion::kApartFromAll : Fusion::kApart;
}
Fusion fuses_ll_push(JointCalls calls, const JointCall& next, int) {
  return takes_one_more(calls, next, cuda::kMaxLLPushCalls) ? Fusion::kApart : Fusion::kNone;
}
Fusion fuses_multicast(JointCalls calls, const JointCall& next, int) {
  if (!takes_one_more(calls, next, cuda::kMaxMulticastCalls)) return Fusion::kNone;
  const bool in_windows = next.record.in_windows() || calls.front()->record.in_windows();
  return in_windows ? Fusion::kApartFromAll : Fusion::kApart;
}
Fusion fuses_staged(JointCalls, const JointCall&, int) { return Fusion::kApart; }
Fusion fuses_in_windows(JointCalls, const JointCall&, int) { return Fusion::kApartFromAll; }
Fusion fuses_direct(JointCalls, const JointCall&, int) { return Fusion::kApartFromAll; }

constexpr LaunchRow elsewhere(Strategy strategy) { return {strategy, nullptr, nullptr, nullptr}; }

constexpr LaunchRow kRows[] = {
    elsewhere(Strategy::kAlone),  // ranks on the host
    elsewhere(Strategy::kParts),
    elsewhere(Strategy::kMessages),
    elsewhere(Strategy::kOwners),
    {Strategy::kDirect, direct_kernel, fuses_direct, nullptr},  // team_launches.cc
    {Strategy::kConnected, connected_kernel, fuses_connected, launch_connected},
    elsewhere(Strategy::kHierarchical),  // ranks on the host
    elsewhere(Strategy::kLeader),
    {Strategy::kCopyEngines, nullptr, nullptr, launch_engines},  // one device: team_launches.cc
    {Strategy::kShared, direct_kernel, fuses_staged, launch_shared},
    {Strategy::kWindows, direct_kernel, fuses_in_windows, launch_windows},
    {Strategy::kLLPush, ll_push_kernel, fuses_ll_push, launch_ll_push},
    {Strategy::kMulticast, multicast_kernel, fuses_multicast, launch_multicast},
};

constexpr bool are_in_order() {
  for (std::size_t i = 0; i < kStrategyCount; ++i)
    if (kRows[i].strategy != static_cast<Strategy>(i)) return false;
  return true;
}
static_assert(std::size(kRows) == kStrategyCount && are_in_order());

}  // namespace

const LaunchRow& launch_row(Strategy strategy) { return kRows[static_cast<std::size_t>(strategy)]; }

int max_ctas_of(const Call& call) {
  return call.limits.max_ctas > 0 ? call.limits.max_ctas : kNoCtaLimit;
}

bool by_engines(std::span<const PostedCall> posted) {
  return std::any_of(posted.begin(), posted.end(), [](const PostedCall& one) {
    return one.call.limits.mover == CallLimits::Mover::kCopyEngines;
  });
}

int JointCall::max_ctas() const {
  int maximum = kNoCtaLimit;
  for (const PostedCall& one : posted) maximum = std::min(maximum, max_ctas_of(one.call));
  return maximum;
}

void JointCall::plan_as(const DevicePlan& chosen) {
  assert(!posted.empty());
  plan = chosen;
  record = plain_call(posted.front().call.record);
  buffers.clear();
  for (const PostedCall& one : posted) buffers.push_back(buffers_of(one.call));
}

int JointCall::kernel() const {
  const LaunchRow& row = launch_row(plan.strategy);
  return row.kernel == nullptr ? kNoKernel : row.kernel(*this);
}

int DeviceLaunch::barrier_ctas() const { return connections.layout().shared_ctas(); }

cuda::DeviceBarrier DeviceLaunch::barrier() const {
  cuda::DeviceBarrier barrier{};
  barrier.devices = connections.layout().ranks();
  barrier.place = rank();
  barrier.barriers = connections.barriers(rank());
  barrier.control = connections.control(rank());
  barrier.launches = counts ? connections.launches(rank()) : nullptr;
  barrier.call = first().record;
  barrier.peers = connections.peers(rank());
  for (int r = 0; r < barrier.devices && barrier.devices <= cuda::kArgumentDevices; ++r)
    barrier.arrivals[r] = connections.arrivals(r);
  return barrier;
}

Status DeviceLaunch::launch(int kernel, int ctas, unsigned threads, std::size_t shared_bytes,
                            const void* args, std::size_t bytes) const {
  GpuLaunch made;
  made.kernel = kernel;
  made.grid = static_cast<unsigned>(ctas);
  made.block = threads;
  made.shared_bytes = shared_bytes;
  made.arguments = args;
  made.argument_bytes = bytes;
  // If CTAs of one launch wait for each other, all of them must be resident. Otherwise they wait
  // only for other devices, and the launch is not cooperative: a driver may run one cooperative
  // kernel at a time, and kernels of two communicators in different orders on two devices would
  // deadlock.
  made.cooperative = here.size() > 1;
  made.remote_domain = static_cast<int>(here.size()) < ranks();
  return check(gpu_api()->launch(made, stream), "a kernel launch");
}

Status launch_strategy(const DeviceLaunch& call) {
  const LaunchRow& row = launch_row(call.first().plan.strategy);
  if (row.launch != nullptr) return row.launch(call);
  return fail(StatusCode::kInternalError, "no launch on every device is planned for {}",
              name(call.first().record.collective));
}

Status load_kernels(std::vector<int> kernels,
                    std::initializer_list<int (*)(DataType, RedOp)> reductions) {
  for (int type = 0; type < kDataTypes; ++type)
    for (int op = 0; op < kRedOps; ++op) {
      const auto t = static_cast<DataType>(type);
      const auto o = static_cast<RedOp>(op);
      if (!supported(t, o)) continue;
      for (const auto reduction : reductions) kernels.push_back(reduction(t, o));
    }
  // Types of equal width share kernels.
  std::sort(kernels.begin(), kernels.end());
  kernels.erase(std::unique(kernels.begin(), kernels.end()), kernels.end());
  for (const int kernel : kernels)
    RONDO_CHECK_OK(check(gpu_api()->load_kernel(kernel), "loading kernels"));
  return ok_status();
}

}  // namespace rondo::gpu
