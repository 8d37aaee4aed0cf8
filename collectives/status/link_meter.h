// SPDX-License-Identifier: Apache-2.0
// LinkMeter: rates and losses of this process's TCP connections with other hosts, by what its
// kernel counts (transport/status/tcp_traffic.h), and rates of its RDMA ports, by what the links of
// its ranks count (RailCounters).
//
// A reading compares with one that is at least 3 s older, so that it shows the network of now: of
// the last seconds if someone asks every second, else since the question before, and at the first
// question since the connections were made. One thread at a time. Cost: that of tcp_traffic().
//
//   for (const LinkView& link : meter.read({{"10.0.0.2", "node2"}}, {})) ...
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
  using Ends = std::pair<std::string, std::string>;  // addresses with ports; or port and host
  // Of ports that count the time in which data was under way. Since the links were made.
  struct RailTraffic {
    std::uint64_t sent_bytes = 0, received_bytes = 0, busy_ns = 0;
  };
  using Rails = std::map<Ends, RailTraffic>;

  // hosts: their names, by IP address. rails: of all ranks of this process.
  std::vector<LinkView> read(const std::map<std::string, std::string>& hosts, Rails rails);

 private:
  struct Sample {
    std::int64_t at_ns = 0;
    std::map<Ends, status::TcpTraffic> traffic;
    Rails rails;
  };
  Sample newer_, earlier_;  // at least kMinAge apart
};

std::string ip_text(const net::SocketAddress& address);  // "10.0.0.1", "::1"

}  // namespace rondo
