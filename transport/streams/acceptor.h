// SPDX-License-Identifier: Apache-2.0
// Acceptor: the accepting side of links: listening sockets, and links that still miss sockets.
//
// Guarantees: returns only sockets that proved the secret; auth::Acceptor handles all others. A
// link waits for its last socket without limit, until its connector gives up. Cost: nothing while
// no peer connects.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "transport/auth/acceptor.h"
#include "transport/streams/connector.h"
#include "transport/streams/stream.h"

namespace rondo::net {

struct Arrival {
  LinkName name;
  SocketAddress from;
  std::vector<std::unique_ptr<Stream>> streams;
};

class Acceptor {
 public:
  // sealed: true for lanes whose bytes all travel as records under the key of the handshake.
  static Result<std::unique_ptr<Acceptor>> open(Poller& poller, std::vector<Socket> listeners,
                                                const auth::Digest& secret, std::string endpoint,
                                                bool (*sealed)(int lane));

  // The next complete link; nullopt: none now.
  std::optional<Arrival> next();
  Status standing() const { return proving_->standing(); }

 private:
  struct Assembly {
    Arrival arrival;
    std::uint64_t link_id;
    std::size_t missing;
  };

  Acceptor(Poller& poller, const auth::Digest& secret, std::unique_ptr<auth::Acceptor> proving,
           bool (*sealed)(int lane));
  void assemble(auth::Arrival proven);

  Poller& poller_;
  const auth::Digest secret_;
  const auth::Tag tag_;
  bool (*const sealed_)(int lane);
  std::unique_ptr<auth::Acceptor> proving_;
  Watch events_;  // watches proving_
  std::vector<Assembly> assemblies_;
  std::vector<Arrival> complete_;
};

}  // namespace rondo::net
