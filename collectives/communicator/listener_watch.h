// SPDX-License-Identifier: Apache-2.0
// ListenerWatch: finds out whether a rank's process on another host has ended, while nothing else
// connects this rank with it.
//
// Every process with a communicator listens as long as it lives (bootstrap::Listener). The watch
// holds a connection to each of its addresses, and connects again if one closes. Guarantees:
// has_ended() never waits, and is true only if all addresses have refused connections for one
// second: an address that belongs to another machine here may refuse, too. A host that no longer
// answers is never reported. Cost: one connection per address; two system calls per question.
//
//   ListenerWatch watch(3, facts.address);
//   if (watch.has_ended()) ...   // again and again
#pragma once

#include <vector>

#include "transport/bootstrap/unique_id.h"
#include "transport/socket/address.h"
#include "transport/socket/socket.h"

namespace rondo {

class ListenerWatch {
 public:
  ListenerWatch(int rank, const bootstrap::UniqueId& address);

  int rank() const { return rank_; }
  bool has_ended();

 private:
  struct Visit {
    net::SocketAddress to;
    net::Socket socket{};
    bool connected = false;
    bool refused = false;  // by the last try
    net::Clock::time_point next{};
  };
  static void step(Visit& visit, net::Clock::time_point now);

  int rank_;
  std::vector<Visit> visits_;
  net::Clock::time_point refused_since_ = net::Clock::time_point::max();
};

}  // namespace rondo
