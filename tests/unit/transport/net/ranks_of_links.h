// SPDX-License-Identifier: Apache-2.0
// RemoteLinks of several connected ranks in one process: control messages over TCP, data over any
// network.
#pragma once

#include <cstdlib>

#include "tests/support/loop/loop_network.h"
#include "tests/support/plugin/plugins.h"
#include "tests/support/ucx_networks.h"
#include "tests/unit/transport/net/turns.h"
#include "transport/net/remote_links.h"
#include "transport/networks/open_network.h"

namespace rondo::test {

struct RanksKind {
  const char* name;                                                 // the network of the data lanes
  std::unique_ptr<net::Network> (*open)(net::PortOptions options);  // null: TCP, as for control
};
inline void PrintTo(const RanksKind& kind, std::ostream* out) { *out << kind.name; }
inline constexpr RanksKind kOverSockets{"Socket", nullptr};
inline constexpr RanksKind kOverLoop{"Loop",
                                     [](net::PortOptions options) -> std::unique_ptr<net::Network> {
                                       return LoopNetwork::open(std::move(options)).value();
                                     }};
inline constexpr RanksKind kOverPlugin{
    "Plugin", [](net::PortOptions options) { return open_plugin(std::move(options)); }};
inline std::vector<RanksKind> ranks_kinds() {
  std::vector<RanksKind> kinds = {kOverSockets, kOverLoop, kOverPlugin};
#ifdef RONDO_UCX
  kinds.push_back(
      {"Ucx", [](net::PortOptions options) { return open_ucx(std::move(options), "tcp"); }});
#endif
  return kinds;
}

// The ranks listen at 127.0.0.1, or at ::1.
inline std::vector<std::unique_ptr<RemoteLinks>> open_ranks(const RanksKind& kind, int size,
                                                            net::SlotShape slots,
                                                            bool ip6 = false) {
  ::setenv("NCCL_SOCKET_IFNAME", "lo", 1);
  ::setenv("NCCL_SOCKET_FAMILY", ip6 ? "AF_INET6" : "AF_INET", 1);
  std::vector<std::unique_ptr<RemoteLinks>> ranks;
  std::vector<Bytes> blobs, data_blobs;
  for (int r = 0; r < size; ++r) {
    RemoteLinksOptions options{.rank = r, .size = size, .slots = slots};
    options.network = open_network(kControlNetwork, {r, secret_of(7)}).value();
    if (kind.open != nullptr) {
      auto of_data = net::PortOptions::from_environment(secret_of(7));
      of_data.rank = r;
      options.data = kind.open(std::move(of_data));
    }
    ranks.push_back(RemoteLinks::open(std::move(options)).value());
    blobs.push_back(ranks.back()->address_blob());
    data_blobs.push_back(ranks.back()->data_address_blob());
  }
  ::unsetenv("NCCL_SOCKET_IFNAME");
  ::unsetenv("NCCL_SOCKET_FAMILY");
  for (auto& rank : ranks) rank->set_peers(blobs, data_blobs);
  return ranks;
}

}  // namespace rondo::test
