// SPDX-License-Identifier: Apache-2.0
// The RDMA devices of this host and their ports (InfiniBand, RoCE), from /sys/class/infiniband.
// They are read without libibverbs, so `rondo doctor` shows them even if the library is missing.
//
// Guarantees: sorted by device name and port number. An unreadable GID entry is left out; any other
// unreadable value is unknown. Cost: one file per value, some milliseconds per port; once, at init.
//
//   for (const Port& port : read_ports())
//     if (const std::string why = unusable(port); !why.empty()) complain(port.name(), why);
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "topology/graph/nearness.h"
#include "transport/verbs/endpoint.h"

namespace rondo::verbs {

// One entry of a port's GID table (its addresses).
struct Gid {
  int index = 0;  // in the port's table; can change with the interface's addresses
  std::array<std::uint8_t, 16> bytes{};  // in the order of an IPv6 address
  bool roce_v2 = false;                  // over UDP, routable; false: InfiniBand or RoCE v1

  bool is_ipv4() const;        // ::ffff:a.b.c.d
  bool is_link_local() const;  // fe80::/10, 169.254.0.0/16
  std::string text() const;    // in the usual notation of addresses
};

// "lid 7", or the GID as an address; for messages.
std::string address_text(const Endpoint& endpoint);

struct Port {
  std::string device{};  // "mlx5_0"
  int number = 1;        // on the device, from 1
  bool active = false;   // can carry data
  std::string state{};   // "ACTIVE", "DOWN", "INIT", ...
  bool ethernet = true;  // RoCE; false: InfiniBand
  int lid = 0;           // InfiniBand: from the subnet manager; 0: none yet
  double gigabits = 0;   // per second; 0: unknown
  std::vector<Gid> gids{};
  bool software = false;  // soft-RoCE: by the kernel, over any network interface
  int rail = 0;           // set by choose_ports()

  std::string name() const;  // "mlx5_0:1", as in NCCL_IB_HCA
};

// `root`: path before /sys (tests). Empty if there is no RDMA device.
std::vector<Port> read_ports(const std::string& root = "");

// Why a port cannot carry data, and the remedy; empty if it can.
struct Unusable {
  std::string why;
  std::string remedy;
};
Unusable unusable(const Port& port);

// "mlx5_0:1 (InfiniBand, ACTIVE, 100 Gb/s), rxe0:1 (RoCE, DOWN)"; for messages.
std::string list_ports(const std::vector<Port>& ports);

// Chooses the RDMA ports of a rank and the address of each: pure functions of the result of
// read_ports() and the variables NCCL_IB_*.
//
//   RONDO_TRY(const Options options, Options::from_environment());
//   RONDO_TRY(const auto ports, choose_ports(read_ports(), options.hca));
//   const auto mine = nearest_ports(ports, near_nics(graph, locations, local_rank));
//   RONDO_TRY(const Gid gid, choose_gid(mine.front(), options.gid_index));
struct Ibverbs;

struct Options {
  std::string hca;        // NCCL_IB_HCA
  int gid_index = -1;     // NCCL_IB_GID_INDEX; -1: chosen
  int traffic_class = 0;  // NCCL_IB_TC: traffic class of RoCE packets, 0..255
  int service_level = 0;  // NCCL_IB_SL, 0..15
  int timeout = 20;       // NCCL_IB_TIMEOUT: a lost packet is sent again after 4.096 us * 2^timeout
  int retries = 7;        // NCCL_IB_RETRY_CNT: retransmissions, 0..7; then the peer counts as dead
  int queue_pairs = 1;    // NCCL_IB_QPS_PER_CONNECTION: per link and port, 1..kMaxQueuePairs
  bool relaxed_ordering = true;        // NCCL_IB_PCI_RELAXED_ORDERING: writes can pass each other
  const Ibverbs* functions = nullptr;  // replace the library's (tests)
  std::string root = {};               // path before /sys (tests)

  // An out-of-range number is an error that names the variable, its range and the usual value.
  static Result<Options> from_environment();
};
inline constexpr int kMaxQueuePairs = static_cast<int>(kMaxPairs);

// The ports of `all` that can carry data and that `hca` admits (NCCL_IB_HCA's grammar:
// topology/graph/nearness.h). It is an error, which lists the present ports, if an admitted name
// fits no port or if no port is left. Each port gets a rail number: its index among the ports that
// `hca` admits, usable or not. So equal numbers are on one network on all hosts, even while one of
// the ports is down.
Result<std::vector<Port>> choose_ports(const std::vector<Port>& all, std::string_view hca);

// The ports to use if the user did not ask for RDMA: without soft-RoCE, which carries less than TCP
// over the same interface. It is an error if none is left, or if the process can lock so little
// memory (`lockable` bytes) that registering buffers would fail later.
Result<std::vector<Port>> worth_it(const std::vector<Port>& ports, std::uint64_t lockable);
inline constexpr std::uint64_t kLeastLocked = 64u << 20;  // enough for some tens of links

// The port's address for peers: entry `wanted_index` if that is not negative. Otherwise, on
// InfiniBand the first; on RoCE, RoCE v2 before v1, IPv4 before routable IPv6, and a link-local
// address only if there is no other.
Result<Gid> choose_gid(const Port& port, int wanted_index);

// The ports of the nearest tier that has any, in an order that begins at the rank's turn; at most
// kMaxRails. `ports` must not be empty.
std::vector<Port> nearest_ports(const std::vector<Port>& ports, const topology::NearNics& near);

// Pairs of ports, of the peer and of this rank, that form rails. Ports with equal rail numbers
// match, because each rail can be a separate network; if there are none, ports match by position.
// Only ports of the same kind match. In the peer's order.
struct RailMatch {
  std::size_t theirs;  // index into LinkEnd::rails
  std::size_t own;     // index into the ports
};
std::vector<RailMatch> match_rails(const LinkEnd& theirs, const std::vector<Port>& own);

}  // namespace rondo::verbs
