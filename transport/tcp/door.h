// Door: the accepting side: a listening socket, visitors that have not proved themselves yet, and
// links of which not all sockets have come.
//
// Guarantees: only sockets that proved the secret come out; everybody else (garbage, port scans,
// silence) is dropped within 10 s and costs one descriptor of the 256 that may be unproven at a
// time: the oldest goes when there are more, or when descriptors run out. Cost: nothing while
// nobody knocks.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "transport/socket/address.h"
#include "transport/tcp/parley.h"

namespace rondo::tcp {

struct Arrival {
  net::LinkName name;
  net::SocketAddress from;
  std::vector<std::unique_ptr<Stream>> streams;
};

class Door {
 public:
  Door(Poller& poller, net::Socket listener, const Digest& secret)
      : poller_(poller), listener_(poller, std::move(listener)), secret_(secret) {}

  // The next link that is complete; nothing: none now.
  std::optional<Arrival> next();

 private:
  using Clock = std::chrono::steady_clock;
  struct Visitor {
    std::unique_ptr<Stream> stream;
    net::SocketAddress from;
    Parley parley;
    Clock::time_point deadline;
  };
  struct Assembly {
    Arrival arrival;
    std::uint64_t link_id;
    std::size_t missing;
    Clock::time_point deadline;
  };

  void accept_all();
  std::optional<Arrival> hear(Visitor& visitor, bool& gone);
  std::optional<Arrival> assemble(Visitor& visitor);

  Poller& poller_;
  Stream listener_;
  Digest secret_;
  std::vector<Visitor> visitors_;
  std::vector<Assembly> assemblies_;
  Clock::time_point accept_again_{};
};

}  // namespace rondo::tcp
