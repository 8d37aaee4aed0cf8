// SPDX-License-Identifier: Apache-2.0
// A TcpNetwork on loopback, for tests that only TCP needs.
#pragma once

#include "tests/unit/transport/net/turns.h"
#include "transport/streams/stream_port.h"
#include "transport/tcp/tcp_network.h"

namespace rondo::test {

// The network of rank 1, to which other ranks can connect.
inline std::unique_ptr<tcp::TcpNetwork> open_network(int secret, int sockets,
                                                     const char* address = "127.0.0.1") {
  tcp::NetworkOptions options;
  options.rank = 1;
  options.secret = secret_of(secret);
  options.sockets = sockets;
  options.addresses = {loopback(address)};
  return tcp::TcpNetwork::open(options).value();
}

}  // namespace rondo::test
