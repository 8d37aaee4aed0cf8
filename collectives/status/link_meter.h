// SPDX-License-Identifier: Apache-2.0
// LinkMeter: rates and losses of this process's TCP connections with other hosts, by what its
// kernel counts (transport/status/tcp_traffic.h).
//
// A reading compares with one that is at least 3 s older, so that it shows the network of now: of
// the last seconds if someone asks every second, else since the question before, and at the first
// question since the connections were made. One thread at a time. Cost: that of tcp_traffic().
//
//   for (const LinkView& link : meter.read({{"10.0.0.2", "node2"}})) ...
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "collectives/status/job_view.h"
#include "transport/status/tcp_traffic.h"

namespace rondo {

class LinkMeter {
 public:
  // hosts: their names, by IP address.
  std::vector<LinkView> read(const std::map<std::string, std::string>& hosts);

 private:
  using Ends = std::pair<std::string, std::string>;  // addresses with ports
  struct Sample {
    std::int64_t at_ns = 0;
    std::map<Ends, status::TcpTraffic> traffic;
  };
  Sample newer_, earlier_;  // at least kMinAge apart
};

std::string ip_text(const net::SocketAddress& address);  // "10.0.0.1", "::1"

}  // namespace rondo
