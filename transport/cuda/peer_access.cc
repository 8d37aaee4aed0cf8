#include "transport/cuda/peer_access.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/env.h"
#include "transport/cuda/device.h"

namespace rondo::gpu {
namespace {

struct Level {
  const char* name;
  PeerLevel means;
};
// Which devices NVLink joins, the driver does not tell: NVL leaves what P2P it offers.
constexpr Level kLevels[] = {
    {"LOC", {true, PciDistance::kSystem}},      {"NVL", {false, PciDistance::kSystem}},
    {"PIX", {false, PciDistance::kOneSwitch}},  {"PXB", {false, PciDistance::kSeveralSwitches}},
    {"PHB", {false, PciDistance::kHostBridge}}, {"SYS", {false, PciDistance::kSystem}},
};

std::vector<std::string> parts_of(const std::string& path) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    if (end > at) parts.push_back(path.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

std::string path_of(int device) {
  char text[32] = "";
  if (gpu_api()->pci_bus_id(text, sizeof(text), device) != kGpuSuccess) return "";
  std::string link = "/sys/bus/pci/devices/" + std::string(text);
  std::transform(link.begin(), link.end(), link.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  char* const real = realpath(link.c_str(), nullptr);
  std::string path = real == nullptr ? "" : real;
  std::free(real);
  return path;
}

}  // namespace

// /sys/devices/pci0000:00/<bridge>/<switch>/.../<device>
PciDistance pci_distance(const std::string& path, const std::string& other) {
  const auto a = parts_of(path), b = parts_of(other);
  std::size_t common = 0;
  while (common < a.size() && common < b.size() && a[common] == b[common]) ++common;
  constexpr std::size_t kHostBridge = 3, kPorts = 2;
  if (common < kHostBridge) return PciDistance::kSystem;
  if (common == kHostBridge) return PciDistance::kHostBridge;
  // One switch: an upstream port in common, and a downstream port of each.
  const std::size_t farthest = std::max(a.size(), b.size()) - common;
  return farthest <= kPorts ? PciDistance::kOneSwitch : PciDistance::kSeveralSwitches;
}

Result<PeerLevel> parse_peer_level(const std::string& text) {
  if (text.empty()) return PeerLevel{};
  std::string upper = text;
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  for (const Level& level : kLevels)
    if (upper == level.name) return level.means;
  // The old numbers: 0 never, 1 one switch, ... 4 and up always.
  constexpr std::array kNumbers = {"LOC", "PIX", "PXB", "PHB", "SYS"};
  if (std::all_of(upper.begin(), upper.end(), [](unsigned char c) { return std::isdigit(c); }))
    return parse_peer_level(kNumbers[static_cast<std::size_t>(
        std::min(std::atoi(upper.c_str()), static_cast<int>(kNumbers.size()) - 1))]);
  return fail(Status::kInvalidUsage,
              "NCCL_P2P_LEVEL is '{}': use LOC, NVL, PIX, PXB, PHB, SYS or a number from 0", text);
}

Result<bool> may_reach(int device, int peer) {
  if (device == peer) return true;
  if (env::get_bool("NCCL_P2P_DISABLE")) return false;
  int can = 0;
  RONDO_CHECK_OK(check(gpu_api()->can_access_peer(&can, device, peer), "cudaDeviceCanAccessPeer"));
  RONDO_TRY(const PeerLevel level, parse_peer_level(env::get_string("NCCL_P2P_LEVEL")));
  if (can == 0 || level.none) return false;
  return level.farthest == PciDistance::kSystem ||
         pci_distance(path_of(device), path_of(peer)) <= level.farthest;
}

}  // namespace rondo::gpu
