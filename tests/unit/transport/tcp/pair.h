// Two TcpNetworks of one thread, and RemoteLinks of several: what the tests of transport/tcp and
// transport/net stand on. Everything is on loopback and every wait is bounded.
#pragma once

#include <thread>

#include "tests/unit/transport/net/turns.h"
#include "transport/net/remote_links.h"
#include "transport/open_network.h"
#include "transport/streams/address_blob.h"
#include "transport/tcp/tcp_network.h"

namespace rondo::test {

// Rank 1's, where it is one that others connect to.
inline std::unique_ptr<tcp::TcpNetwork> open_network(int secret, int sockets,
                                                     const char* address = "127.0.0.1") {
  tcp::NetworkOptions options;
  options.rank = 1;
  options.secret = secret_of(secret);
  options.sockets = sockets;
  options.addresses = {loopback(address)};
  return tcp::TcpNetwork::open(options).value();
}

// Rank 0 connected to rank 1, in one thread.
struct Pair {
  explicit Pair(int sockets, const char* address = "127.0.0.1", int lane = net::kCollectiveLane) {
    near_network = open_network(1, sockets, address);
    far_network = open_network(1, sockets, address);
    far_address = far_network->listen().value();
    near = near_network->connect({0, 1, lane}, far_address).value();
    connected =
        drive([&] { turn(); }, [&] { return far && near->state() == net::LinkState::kOpen; });
  }
  void turn() {
    near->progress();
    near_network->poll();
    if (far_network->poll(); far) far->progress();
    if (!far) far = far_network->accept();
  }

  std::unique_ptr<tcp::TcpNetwork> near_network, far_network;
  Bytes far_address;
  std::unique_ptr<net::Link> near, far;
  bool connected = false;
};

// RemoteLinks of `size` ranks that know each other. They listen at 127.0.0.1, or at ::1.
inline std::vector<std::unique_ptr<RemoteLinks>> open_ranks(int size, net::SlotShape slots,
                                                            bool ip6 = false) {
  ::setenv("NCCL_SOCKET_IFNAME", "lo", 1);
  ::setenv("NCCL_SOCKET_FAMILY", ip6 ? "AF_INET6" : "AF_INET", 1);
  std::vector<std::unique_ptr<RemoteLinks>> ranks;
  std::vector<Bytes> blobs;
  for (int r = 0; r < size; ++r) {
    ranks.push_back(RemoteLinks::open(
                        {.rank = r,
                         .size = size,
                         .network = rondo::open_network(kControlNetwork, {r, secret_of(7)}).value(),
                         .slots = slots})
                        .value());
    blobs.push_back(ranks.back()->address_blob());
  }
  ::unsetenv("NCCL_SOCKET_IFNAME");
  ::unsetenv("NCCL_SOCKET_FAMILY");
  for (auto& rank : ranks) rank->set_peers(blobs);
  return ranks;
}

}  // namespace rondo::test
