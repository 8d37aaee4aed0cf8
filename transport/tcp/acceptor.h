// Acceptor: the accepting side: listening sockets, and links of which not all sockets have come.
//
// Guarantees: only sockets that proved the secret come out; everybody else is auth::Acceptor's. A
// link waits for its last socket however slow the network is, until its connector gives it up.
// Cost: nothing while nobody comes.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "transport/auth/acceptor.h"
#include "transport/tcp/socket_of_link.h"
#include "transport/tcp/stream.h"

namespace rondo::tcp {

struct Arrival {
  net::LinkName name;
  net::SocketAddress from;
  std::vector<std::unique_ptr<Stream>> streams;
};

class Acceptor {
 public:
  static Result<std::unique_ptr<Acceptor>> open(Poller& poller, std::vector<net::Socket> listeners,
                                                const Digest& secret, std::string endpoint);

  // The next link that is complete; nothing: none now.
  std::optional<Arrival> next();

 private:
  struct Assembly {
    Arrival arrival;
    std::uint64_t link_id;
    std::size_t missing;
  };

  Acceptor(Poller& poller, const Digest& secret, std::unique_ptr<auth::Acceptor> proving);
  void assemble(auth::Arrival proven);

  Poller& poller_;
  const Digest secret_;
  const auth::Tag tag_;
  std::unique_ptr<auth::Acceptor> proving_;
  Watch events_;  // of proving_
  std::vector<Assembly> assemblies_;
  std::vector<Arrival> complete_;
};

}  // namespace rondo::tcp
