// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/calls/team_device.h"

#include "collectives/gpu/launch/kernel_loading.h"
#include "kernels/cuda/kernels.h"
#include "transport/cuda/device.h"
#include "transport/cuda/peer_access.h"

namespace rondo::gpu {
namespace {

Status load_all_kernels() {
  std::vector<int> copies = {cuda::kCopyKernel, cuda::kConnectedCopyKernel, cuda::kLLPushCopyKernel,
                             cuda::kStagedCopyKernel};
  for (int row = 0; row < cuda::kMulticastKernels; ++row)
    copies.push_back(cuda::kFirstMulticastKernel + row);
  return load_kernels(*gpu_api(), copies,
                      {cuda::direct_kernel, cuda::connected_kernel, cuda::ll_push_kernel});
}

}  // namespace

TeamDevice::TeamDevice(std::vector<int> by_rank) : by_rank_(std::move(by_rank)) {
  for (int r = 0; r < ranks(); ++r)
    if (is_here(r)) here_.push_back(r);
}

Status TeamDevice::open(const std::vector<int>& beside, const topology::Graph* graph) {
  const DeviceScope scope(number());
  RONDO_CHECK_OK(scope.entered());
  for (const int peer : beside) {
    if (peer == number()) continue;
    RONDO_TRY(const bool reaches, may_reach(number(), peer, graph));
    if (!reaches) continue;
    const GpuError enabled = gpu_api()->enable_peer_access(peer);
    if (enabled != kGpuPeerAlreadyEnabled)
      RONDO_CHECK_OK(check(enabled, "cudaDeviceEnablePeerAccess"));
  }
  RONDO_CHECK_OK(load_all_kernels());
  int multiprocessors = 0;
  RONDO_CHECK_OK(
      check(gpu_api()->attribute(&multiprocessors, GpuAttribute::kMultiprocessors, number()),
            "cuDeviceGetAttribute"));
  max_ctas_ = multiprocessors * cuda::kDirectCtas;
  return ok_status();
}

}  // namespace rondo::gpu
