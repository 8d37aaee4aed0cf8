// SPDX-License-Identifier: Apache-2.0
#include "transport/cuda/peer_access.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <string>

#include "base/env.h"
#include "base/log.h"
#include "transport/cuda/device.h"

namespace rondo::gpu {

using topology::PathClass;

Result<PathClass> parse_peer_level(const std::string& text, const char* variable) {
  if (text.empty()) return PathClass::kSys;
  const auto named = topology::parse_path_class(text);
  if (named && *named <= PathClass::kSys) return *named;
  if (text == "PXN" || text == "pxn") return PathClass::kP2c;  // through a GPU: not in Rondo
  // Old numeric levels: 0 never, 1 one switch, ... 4 and above always.
  constexpr std::array kNumbers = {PathClass::kLoc, PathClass::kPix, PathClass::kPxb,
                                   PathClass::kPhb, PathClass::kSys};
  if (std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c); }))
    return kNumbers[static_cast<std::size_t>(
        std::min(std::atoi(text.c_str()), static_cast<int>(kNumbers.size()) - 1))];
  return fail(StatusCode::kInvalidUsage,
              "{} is '{}': use LOC, NVL, PIX, PXB, PHB, SYS or a number from 0", variable, text);
}

Result<bool> may_try(int device, const std::string& peer, const topology::Graph* graph) {
  if (env::get_bool("NCCL_P2P_DISABLE")) return false;
  RONDO_TRY(const PathClass farthest, parse_peer_level(env::get_string("NCCL_P2P_LEVEL")));
  if (farthest == PathClass::kSys) return true;
  const std::string own = bus_id_of(device);
  const PathClass path =
      graph == nullptr ? PathClass::kSys : topology::class_between(*graph, own, peer);
  if (path > farthest)
    RONDO_INFO(kInit, "GPUs {} and {} are {} apart: NCCL_P2P_LEVEL={} keeps them from P2P", own,
               peer, topology::name(path), topology::name(farthest));
  return path <= farthest;
}

Result<bool> may_reach(int device, int peer, const topology::Graph* graph) {
  if (device == peer) return true;
  int can = 0;
  RONDO_CHECK_OK(check(gpu_api()->can_access_peer(&can, device, peer), "cudaDeviceCanAccessPeer"));
  if (can == 0) return false;
  return may_try(device, bus_id_of(peer), graph);
}

Status enable_peers(int device, std::span<const int> peers, const topology::Graph* graph) {
  for (const int peer : peers) {
    if (peer == device) continue;
    RONDO_TRY(const bool reaches, may_reach(device, peer, graph));
    if (!reaches) continue;
    const GpuError enabled = gpu_api()->enable_peer_access(peer);
    if (enabled != kGpuPeerAlreadyEnabled)
      RONDO_CHECK_OK(check(enabled, "cudaDeviceEnablePeerAccess"));
  }
  return ok_status();
}

}  // namespace rondo::gpu
