#include "transport/cuda/peer_access.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <string>

#include "base/env.h"
#include "transport/cuda/device.h"

namespace rondo::gpu {

using topology::PciDistance;

namespace {

struct Level {
  const char* name;
  PeerLevel means;
};
// Which devices NVLink joins, the driver does not tell: NVL leaves what P2P it offers.
constexpr Level kLevels[] = {
    {"LOC", {true, PciDistance::kSystem}},
    {"NVL", {false, PciDistance::kSystem}},
    {"PIX", {false, PciDistance::kOneSwitch}},
    {"PXB", {false, PciDistance::kSeveralSwitches}},
    // By a CPU's own link to a GPU, by another GPU: paths to adapters that Rondo does not take.
    {"P2C", {false, PciDistance::kSeveralSwitches}},
    {"PXN", {false, PciDistance::kSeveralSwitches}},
    {"PHB", {false, PciDistance::kHostBridge}},
    {"SYS", {false, PciDistance::kSystem}},
};

std::string path_of(int device) {
  char text[32] = "";
  if (gpu_api()->pci_bus_id(text, sizeof(text), device) != kGpuSuccess) return "";
  return topology::pci_path(text);
}

}  // namespace

Result<PeerLevel> parse_peer_level(const std::string& text, const char* variable) {
  if (text.empty()) return PeerLevel{};
  std::string upper = text;
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  for (const Level& level : kLevels)
    if (upper == level.name) return level.means;
  // The old numbers: 0 never, 1 one switch, ... 4 and up always.
  constexpr std::array kNumbers = {"LOC", "PIX", "PXB", "PHB", "SYS"};
  if (std::all_of(upper.begin(), upper.end(), [](unsigned char c) { return std::isdigit(c); }))
    return parse_peer_level(kNumbers[static_cast<std::size_t>(std::min(
                                std::atoi(upper.c_str()), static_cast<int>(kNumbers.size()) - 1))],
                            variable);
  return fail(Status::kInvalidUsage,
              "{} is '{}': use LOC, NVL, PIX, PXB, PHB, SYS or a number from 0", variable, text);
}

Result<bool> may_reach(int device, int peer) {
  if (device == peer) return true;
  if (env::get_bool("NCCL_P2P_DISABLE")) return false;
  int can = 0;
  RONDO_CHECK_OK(check(gpu_api()->can_access_peer(&can, device, peer), "cudaDeviceCanAccessPeer"));
  RONDO_TRY(const PeerLevel level, parse_peer_level(env::get_string("NCCL_P2P_LEVEL")));
  if (can == 0 || level.none) return false;
  return level.farthest == PciDistance::kSystem ||
         topology::pci_distance(path_of(device), path_of(peer)) <= level.farthest;
}

}  // namespace rondo::gpu
