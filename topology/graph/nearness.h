// SPDX-License-Identifier: Apache-2.0
// Nearness: how far a rank is from other GPUs and from its host's network ports.
//
// A rank is at its GPU, or on the cores of a NUMA node. Ports with the same path class and rate are
// equally near and form a tier. Ranks with the same tier start at different ports of it, in turn.
// The distance to a device that is not in the graph is SYS, the largest within a host. Pure
// functions. Cost: one path search per rank and port.
//
//   if (class_between(graph, "0000:07:00.0", "0000:0b:00.0") <= PathClass::kPxb) ...  // P2P
//   const NearNics near = near_nics(graph, locations, local_rank);
//   if (class_of(near, {"mlx5_0", 1}) <= PathClass::kPxb) ...                         // GPUDirect
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "topology/graph/graph.h"
#include "topology/graph/paths.h"

namespace rondo::topology {

// NicFilter: the ports of RDMA NICs that a host's ranks may use, by NCCL_IB_HCA.
//
// The text is a list of prefixes of device names with commas, each with an optional ":PORT". A
// leading '^' excludes them, '=' means exact names, "^=" excludes exact names; empty: all ports.
// Text after a second colon (NCCL's rails and planes) is ignored. Cost: a comparison with each name
// per port.
//
//   RONDO_TRY(const NicFilter filter, NicFilter::parse("mlx5_0,mlx5_1:2"));
//   if (filter.admits("mlx5_1", 2)) ...
class NicFilter {
 public:
  struct Name {
    std::string device;
    int port = 0;  // 0: any port
  };

  // kInvalidUsage: an empty name, or a port that is not a number from 1 to 255.
  static Result<NicFilter> parse(std::string_view text);

  const std::vector<Name>& names() const { return names_; }
  bool excludes() const { return excludes_; }
  // port: 0 if it is unknown, which fits any port.
  bool fits(const Name& name, std::string_view device, int port) const;
  bool admits(std::string_view device, int port) const;

 private:
  std::vector<Name> names_;
  bool excludes_ = false, exact_ = false;
};

}  // namespace rondo::topology

namespace rondo::topology {

// The place of a rank.
struct DeviceLocation {
  std::string gpu{};  // bus id; empty: a host rank, or the GPU's bus id is unknown
  int numa = -1;      // NUMA node of its cores, the kernel's number; -1: unknown
  friend bool operator==(const DeviceLocation&, const DeviceLocation&) = default;
};

// The path class between two devices. Bus ids may be upper or lower case.
PathClass class_between(const Graph& graph, std::string_view bus_id, std::string_view other);

struct NicName {
  std::string device{};  // "mlx5_0"
  int port = 0;          // from 1 on; 0: unknown
  std::string bus_id{};  // empty: not a PCI device
  friend bool operator==(const NicName&, const NicName&) = default;
};

// True if the bus ids are equal, or names and ports are; an unknown port equals any port.
bool is_same(const NicName& a, const NicName& b);

// Ports that are equally near.
struct NicTier {
  PathClass kind = PathClass::kSys;
  std::vector<NicName> nics{};  // in the host's order
  int turn = 0;                 // number of earlier ranks of the host with the same tier
  friend bool operator==(const NicTier&, const NicTier&) = default;
};

// All ports of the host, from near to far, then from fast to slow.
struct NearNics {
  std::vector<NicTier> tiers{};
  int turn = 0;  // for ports in no tier: the rank's number on its host
};
// `locations`: of all ranks of the host. `mine`: this rank's index.
NearNics near_nics(const Graph& graph, std::span<const DeviceLocation> locations, int mine);
// The class of the tier with this port; SYS if no tier has it.
PathClass class_of(const NearNics& near, const NicName& nic);

// The items of `all` in the nearest tier that has any, rotated by this rank's turn; if no tier has
// one, all items. is_port(item, NicName): whether both are the same port.
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
