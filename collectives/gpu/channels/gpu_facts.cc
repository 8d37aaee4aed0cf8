#include "collectives/gpu/channels/gpu_facts.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "base/env.h"
#include "kernels/cuda/kernels.h"
#include "transport/cuda/device.h"
#include "transport/cuda/peer_access.h"

namespace rondo::gpu {
namespace {

constexpr std::int64_t kLeastMessageBytes = 64 << 10;

std::uint64_t bytes_from_env(const char* name, std::int64_t minimum = 0) {
  return static_cast<std::uint64_t>(std::max(env::get_int(name), minimum));
}

// CTAs of any connected kernel that the current device holds at once.
Result<int> resident_connected_ctas(const GpuApi& api, int device) {
  int multiprocessors = 0, maximum = 0;
  RONDO_CHECK_OK(check(api.attribute(&multiprocessors, GpuAttribute::kMultiprocessors, device),
                       "cuDeviceGetAttribute"));
  RONDO_CHECK_OK(check(api.resident_ctas(&maximum, cuda::kConnectedCopyKernel,
                                         cuda::kConnectedThreads, cuda::kConnectedShared),
                       "cudaOccupancyMaxActiveBlocksPerMultiprocessor"));
  return multiprocessors * maximum;
}

}  // namespace

Result<GpuFacts> facts_of_device(int device, int min_ctas, int max_ctas) {
  const DeviceScope scope(device);
  RONDO_CHECK_OK(scope.entered());
  const GpuApi& api = *gpu_api();
  GpuFacts facts;
  RONDO_CHECK_OK(check(api.device_uuid(facts.uuid.data(), device), "cuDeviceGetUuid"));
  RONDO_TRY(facts.resident_ctas, resident_connected_ctas(api, device));
  facts.min_ctas = min_ctas;
  facts.max_ctas = max_ctas;
  int major = 0, minor = 0;
  RONDO_CHECK_OK(
      check(api.attribute(&major, GpuAttribute::kMajor, device), "cuDeviceGetAttribute"));
  RONDO_CHECK_OK(
      check(api.attribute(&minor, GpuAttribute::kMinor, device), "cuDeviceGetAttribute"));
  const int capability = 10 * major + minor;
  // LL128 is a default only if every path is known to keep lines whole.
  const auto usual = [&](bool whole) {
    return static_cast<std::uint8_t>(kUsualProtocols |
                                     (whole ? bit_of(cuda::Protocol::kLL128) : 0));
  };
  const bool within = lines_stay_whole(capability, LinePath::kWithinDevice);
  const bool between = within && lines_stay_whole(capability, LinePath::kBetweenDevices);
  const std::string protocols = env::get_string("NCCL_PROTO");
  RONDO_TRY(facts.protocols_within, parse_gpu_protocols(protocols, usual(within)));
  RONDO_TRY(facts.protocols_between, parse_gpu_protocols(protocols, usual(between)));
  facts.buffer_bytes = bytes_from_env("NCCL_BUFFSIZE");
  facts.from_bytes = bytes_from_env("RONDO_GPU_RELAY");
  facts.message_bytes = bytes_from_env("RONDO_GPU_STAGING", kLeastMessageBytes);
  const char* const blocking = std::getenv("CUDA_LAUNCH_BLOCKING");
  facts.blocking = blocking != nullptr && std::atoi(blocking) != 0 ? 1 : 0;
  return facts;
}

Result<std::vector<std::byte>> reach_of_device(int device, std::span<const GpuFacts> of_host,
                                               const topology::Graph* graph) {
  const GpuApi& api = *gpu_api();
  int devices = 0;
  RONDO_CHECK_OK(check(api.device_count(&devices), "cudaGetDeviceCount"));
  std::vector<std::byte> row(of_host.size());
  for (int peer = 0; peer < devices; ++peer) {
    GpuFacts there;
    RONDO_CHECK_OK(check(api.device_uuid(there.uuid.data(), peer), "cuDeviceGetUuid"));
    RONDO_TRY(const bool reaches, may_reach(device, peer, graph));
    for (std::size_t r = 0; r < of_host.size(); ++r)
      if (of_host[r].uuid == there.uuid) row[r] = static_cast<std::byte>(reaches ? 1 : 0);
  }
  return row;
}

}  // namespace rondo::gpu
