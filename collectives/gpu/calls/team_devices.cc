#include "collectives/gpu/calls/team_devices.h"

#include <algorithm>

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

TeamDevices::TeamDevices(std::vector<int> by_rank, std::shared_ptr<const topology::Graph> graph)
    : by_rank_(std::move(by_rank)), graph_(std::move(graph)) {
  for (int r = 0; r < ranks(); ++r) {
    if (!is_here(r)) continue;
    here_.push_back(r);
    if (place_of(r) == size()) devices_.emplace_back().device = by_rank_[r];
    devices_[place_of(r)].ranks.push_back(r);
  }
}

int TeamDevices::place_of(int rank) const {
  const int device = by_rank_[static_cast<std::size_t>(rank)];
  const auto found = std::find_if(devices_.begin(), devices_.end(),
                                  [&](const Device& one) { return one.device == device; });
  return static_cast<int>(found - devices_.begin());
}

std::vector<int> TeamDevices::numbers() const {
  std::vector<int> all;
  for (const Device& device : devices_) all.push_back(device.device);
  return all;
}

std::vector<int> TeamDevices::first_ranks() const {
  std::vector<int> all;
  for (const Device& device : devices_) all.push_back(device.ranks.front());
  return all;
}

Status TeamDevices::open() {
  for (Device& device : devices_) {
    const DeviceScope scope(device.device);
    RONDO_CHECK_OK(scope.entered());
    RONDO_CHECK_OK(open_peers(device));
    RONDO_CHECK_OK(load_all_kernels());
    int multiprocessors = 0;
    RONDO_CHECK_OK(
        check(gpu_api()->attribute(&multiprocessors, GpuAttribute::kMultiprocessors, device.device),
              "cuDeviceGetAttribute"));
    device.max_ctas = multiprocessors * cuda::kDirectCtas;
  }
  return ok_status();
}

Status TeamDevices::open_peers(const Device& device) {
  for (const Device& peer : devices_) {
    if (peer.device == device.device) continue;
    RONDO_TRY(const bool reaches, may_reach(device.device, peer.device, graph_.get()));
    if (!reaches) {
      all_reach_ = false;
      continue;
    }
    const GpuError enabled = gpu_api()->enable_peer_access(peer.device);
    if (enabled != kGpuPeerAlreadyEnabled)
      RONDO_CHECK_OK(check(enabled, "cudaDeviceEnablePeerAccess"));
  }
  return ok_status();
}

}  // namespace rondo::gpu
