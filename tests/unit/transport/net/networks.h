// SPDX-License-Identifier: Apache-2.0
// The networks under conformance test, and pairs of linked networks in one thread.
//
// To add a network, add a row here, or call push_back() before main() if it needs a request
// (devices). To run all suites: --gtest_filter='*Network*'.
#pragma once

#include <functional>
#include <memory>

#include "tests/support/loop/loop_network.h"
#include "tests/support/plugin/plugins.h"
#include "tests/support/ucx_networks.h"
#include "tests/unit/transport/net/turns.h"
#include "transport/tcp/tcp_network.h"

namespace rondo::test {

struct NetworkKind {
  const char* name;
  const char* door;  // PortOptions::network of the peers that it accepts
  std::function<std::unique_ptr<net::Network>(net::PortOptions)> open;
  bool both_move = false;  // a message moves only while both of its ranks make progress
  bool puts = false;

  // The network of `rank`. Rank 1 is the side to which others connect.
  std::unique_ptr<net::Network> at(int rank = 1, int secret = 1,
                                   const char* address = "127.0.0.1") const {
    net::PortOptions options;
    options.rank = rank;
    options.secret = secret_of(secret);
    options.addresses = {loopback(address)};
    return open(std::move(options));
  }
};
inline void PrintTo(const NetworkKind& kind, std::ostream* out) { *out << kind.name; }

inline std::unique_ptr<net::Network> open_sockets(net::PortOptions options, int sockets) {
  tcp::NetworkOptions of_tcp{std::move(options)};
  of_tcp.sockets = sockets;
  return tcp::TcpNetwork::open(std::move(of_tcp)).value();
}

inline std::vector<NetworkKind>& network_kinds() {
  static std::vector<NetworkKind> kinds = {
      {"Socket", "tcp", [](auto options) { return open_sockets(std::move(options), 1); }},
      {"TwoSockets", "tcp", [](auto options) { return open_sockets(std::move(options), 2); }},
      {"FourSockets", "tcp", [](auto options) { return open_sockets(std::move(options), 4); }},
      {"Loop", "Loop",
       [](auto options) -> std::unique_ptr<net::Network> {
         return LoopNetwork::open(std::move(options)).value();
       },
       false, true},
      {"Plugin", "RondoTest", [](auto options) { return open_plugin(std::move(options)); }},
#ifdef RONDO_UCX
      {"Ucx", "UCX", [](auto options) { return open_ucx(std::move(options), "tcp"); }, true},
      {"UcxOfOneHost", "UCX", [](auto options) { return open_ucx(std::move(options), nullptr); },
       true},
#endif
  };
  return kinds;
}
inline std::vector<NetworkKind> kinds_with_puts() {
  std::vector<NetworkKind> kinds = network_kinds();
  std::erase_if(kinds, [](const NetworkKind& kind) { return !kind.puts; });
  return kinds;
}
constexpr auto kNameOfKind = [](const auto& info) { return std::string(info.param.name); };

// Memory of message bodies, registered with a network for its lifetime.
class Registered {
 public:
  Registered(net::Network& network, Bytes content, net::Memory::Kind kind = {})
      : bytes(std::move(content)),
        network_(network),
        key(network.register_memory({bytes, kind}).value()) {}
  ~Registered() { network_.deregister_memory(key); }
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;

  std::span<std::byte> first(std::size_t count) { return std::span(bytes).first(count); }

  Bytes bytes;

 private:
  net::Network& network_;

 public:
  const net::MemoryKey key;
};

// Rank 0 connected to rank 1, in one thread.
struct LinkPair {
  explicit LinkPair(const NetworkKind& kind, const char* address = "127.0.0.1",
                    int lane = net::kCollectiveLane)
      : near_network(kind.at(0, 1, address)), far_network(kind.at(1, 1, address)) {
    far_address = far_network->listen().value();
    near = near_network->connect({0, 1, lane}, far_address).value();
    connected =
        drive([&] { turn(); }, [&] { return far && near->state() == net::LinkState::kOpen; });
  }
  void turn() {
    near->progress();
    near_network->poll();
    turn_far();
  }
  void turn_far() {
    if (far_network->poll(); far) far->progress();
    if (!far) far = far_network->accept();
  }
  bool until(const std::function<bool()>& holds) {
    return drive([&] { turn(); }, holds);
  }

  std::unique_ptr<net::Network> near_network, far_network;
  Bytes far_address;
  std::unique_ptr<net::Link> near, far;
  bool connected = false;
};

class NetworkSuite : public testing::TestWithParam<NetworkKind> {};

}  // namespace rondo::test
