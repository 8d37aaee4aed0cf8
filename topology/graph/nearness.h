// Nearness: how far what a rank uses is from it: other GPUs, and the network ports of its host.
//
// A rank is at its GPU, or on the cores of a NUMA node. Ports of one class and rate are equally
// near and make a tier; ranks with the same tier begin at its ports in turn. What the graph does
// not have is as far as can be within a host (SYS). Pure functions. Cost: a path for each rank and
// port.
//
//   if (class_between(graph, "0000:07:00.0", "0000:0b:00.0") <= PathClass::kPxb) ...  // P2P
//   const NearNics near = near_nics(graph, spots_of_host, local_rank);
//   if (class_of(near, {"mlx5_0", 1}) <= PathClass::kPxb) ...                         // GPUDirect
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "topology/graph/graph.h"
#include "topology/graph/paths.h"

namespace rondo::topology {

// Where a rank is.
struct DeviceLocation {
  std::string gpu{};  // bus id; empty: it lives on the host, or its GPU's is not known
  int numa = -1;      // of its cores, as the kernel numbers it; -1: not known
  friend bool operator==(const DeviceLocation&, const DeviceLocation&) = default;
};

// Between two devices by bus id, in any case of letters.
PathClass class_between(const Graph& graph, std::string_view bus_id, std::string_view other);

struct NicName {
  std::string device{};  // "mlx5_0"
  int port = 0;          // from 1 on; 0: not known
  std::string bus_id{};  // empty: of no PCI device
  friend bool operator==(const NicName&, const NicName&) = default;
};

// By bus id, or by name; ports of which one is not known are the same.
bool is_same(const NicName& a, const NicName& b);

// Equally near ports.
struct NicTier {
  PathClass kind = PathClass::kSys;
  std::vector<NicName> nics{};  // in the order of the host's
  int turn = 0;                 // ranks of the host before this one whose tier has the same ports
  friend bool operator==(const NicTier&, const NicTier&) = default;
};

// All of the host's, from near to far, then from fast to slow.
struct NearNics {
  std::vector<NicTier> tiers{};
  int turn = 0;  // for ports that no tier has: the rank's number on its host
};
// `locations`: of the host's ranks; `mine` indexes them.
NearNics near_nics(const Graph& graph, std::span<const DeviceLocation> locations, int mine);
// Of the tier that has this port; SYS where none has it.
PathClass class_of(const NearNics& near, const NicName& nic);

// Of `all`, those of the nearest tier that has any, beginning at this rank's turn; where no tier
// has one, all. is_port(item, NicName): whether they are the same.
template <class Item, class IsPort>
std::vector<Item> nearest_of(const std::vector<Item>& all, const NearNics& near, IsPort is_port);

}  // namespace rondo::topology

template <class Item, class IsPort>
std::vector<Item> rondo::topology::nearest_of(const std::vector<Item>& all, const NearNics& near,
                                              IsPort is_port) {
  std::vector<Item> found;
  int turn = near.turn;
  for (const NicTier& tier : near.tiers) {
    for (const Item& item : all)
      for (const NicName& nic : tier.nics)
        if (is_port(item, nic)) {
          found.push_back(item);
          break;
        }
    if (found.empty()) continue;
    turn = tier.turn;
    break;
  }
  if (found.empty()) found = all;
  std::vector<Item> rotated;
  for (std::size_t i = 0; i < found.size(); ++i)
    rotated.push_back(found[(i + static_cast<std::size_t>(turn)) % found.size()]);
  return rotated;
}
