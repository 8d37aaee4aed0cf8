// Which port and which of its addresses a rank uses: pure functions over what read_ports() found
// and what the variables NCCL_IB_* ask for.
//
//   RONDO_TRY(const Options options, Options::from_environment());
//   RONDO_TRY(const auto ports, choose_ports(read_ports(), options.hca));
//   const auto mine = nearest_ports(ports, near_nics(graph, locations, local_rank));
//   RONDO_TRY(const Gid gid, choose_gid(mine.front(), options.gid_index));
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "topology/graph/nearness.h"
#include "transport/verbs/devices.h"
#include "transport/verbs/endpoint.h"

namespace rondo::verbs {

struct Ibverbs;

struct Options {
  std::string hca;        // NCCL_IB_HCA
  int gid_index = -1;     // NCCL_IB_GID_INDEX; -1: chosen
  int traffic_class = 0;  // NCCL_IB_TC: what switches see of RoCE's packets, 0..255
  int service_level = 0;  // NCCL_IB_SL, 0..15
  int timeout = 20;       // NCCL_IB_TIMEOUT: a lost packet is sent again after 4.096 us * 2^timeout
  int retries = 7;        // NCCL_IB_RETRY_CNT: so often, 0..7; then the peer counts as dead
  int queue_pairs = 1;    // NCCL_IB_QPS_PER_CONNECTION: a link and port, 1..kMaxQueuePairs
  bool relaxed_ordering = true;        // NCCL_IB_PCI_RELAXED_ORDERING: writes may pass each other
  const Ibverbs* functions = nullptr;  // in place of the library's (tests)
  std::string root = {};               // before /sys (tests)

  // A number out of its range is an error that names it, its range and what is usual.
  static Result<Options> from_environment();
};
inline constexpr int kMaxQueuePairs = static_cast<int>(kMaxPairs);

// The ports of `all` that can carry data and that `hca` admits, with NCCL_IB_HCA's grammar
// (topology/graph/nic_filter.h). A name that fits no device, and no port at all that is left, is an
// error that lists those there are. Ports get the number of their rail: their place among those
// that `hca` admits, usable or not, so that ports of equal numbers on all hosts are of one network
// also while one of them is down.
Result<std::vector<Port>> choose_ports(const std::vector<Port>& all, std::string_view hca);

// Those that a network is made of where nobody asks for it: without soft-RoCE, which carries less
// than TCP over the same interface. An error: none is left; or so little memory may be locked
// (bytes) that registering buffers would fail later.
Result<std::vector<Port>> worth_it(const std::vector<Port>& ports, std::uint64_t lockable);
inline constexpr std::uint64_t kLeastLocked = 64u << 20;  // buffers of some tens of links

// The address that peers get: on InfiniBand the first, on RoCE by order of preference: RoCE v2
// before v1, IPv4 before routable IPv6; link-local ones only where there is no other.
Result<Gid> choose_gid(const Port& port, int wanted_index);

// Those of the nearest tier that has any, from the rank's turn on; at most kMaxRails. `ports` must
// not be empty.
std::vector<Port> nearest_ports(const std::vector<Port>& ports, const topology::NearNics& near);

// Which ports of two ranks make a rail: of the peer's rails and these ports those of equal numbers,
// which are of one network where each rail is a network of its own; where there are none, one by
// one. Only ports of the same kind. In the peer's order.
struct RailMatch {
  std::size_t theirs;  // of LinkEnd::rails
  std::size_t own;     // of the ports
};
std::vector<RailMatch> match_rails(const LinkEnd& theirs, const std::vector<Port>& own);

}  // namespace rondo::verbs
