// SPDX-License-Identifier: Apache-2.0
// tcp_traffic(): what the kernel counts for the TCP connections of this process: bytes, packets
// that were sent again, rate.
//
// It reads the sockets among the process's descriptors, so it needs no part of the code that owns
// them. Guarantees: changes nothing; a socket that another thread closes meanwhile is left out.
// Cost: two or three system calls for each descriptor of the process.
//
//   for (const TcpTraffic& one : tcp_traffic()) ...
#pragma once

#include <cstdint>
#include <vector>

#include "transport/socket/address.h"

namespace rondo::status {

// Since the connection was made.
struct TcpTraffic {
  net::SocketAddress own, peer;
  std::uint64_t sent_bytes = 0;  // that the peer's kernel has acknowledged
  std::uint64_t received_bytes = 0;
  std::uint64_t segments = 0;         // with data, sent
  std::uint64_t resent_segments = 0;  // of them, sent again
  double rtt_seconds = 0;
  double busy_seconds = 0;            // with data that was not acknowledged
  double reader_limited_seconds = 0;  // of them: the peer's program read too slowly
  double newest_per_second = 0;       // bytes, of the newest data that was acknowledged
  bool sends_seldom = false;          // so newest_per_second may be less than the network's rate
};

std::vector<TcpTraffic> tcp_traffic();

// The ends of a connection; no address: it has none.
net::SocketAddress own_address(int socket);
net::SocketAddress peer_address(int socket);

}  // namespace rondo::status
