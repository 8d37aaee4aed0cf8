// StreamPort: where a rank listens for proven streams of its links, and opens such streams to
// others.
//
// What TCP's links and the side channels of all other networks have in common: addresses, the
// handshake, the sockets' poller. Guarantees: only sockets whose other end proved the secret come
// out, and the connecting side has checked the proof of the rank that it wants; nothing waits.
// Cost: two descriptors and a listening socket an address; poll() is one system call.
//
//   RONDO_TRY(auto port, StreamPort::open(std::move(options)));
//   RONDO_TRY(Bytes here, port->listen());                              // give these to peers
//   RONDO_TRY(auto connector, port->connect({.name = {0, 1, 0}}, address_of_1));
//   if (auto arrival = port->accept()) ...
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transport/streams/acceptor.h"
#include "transport/streams/connector.h"
#include "transport/streams/vigilance.h"

namespace rondo::net {

struct PortOptions {
  auth::Digest secret{};
  int rank = 0;                   // this one: connectors mean it by its number
  std::string network = "tcp";    // whose streams they are: others find nobody here
  std::string purpose = "links";  // of several networks with one secret
  Vigilance vigilance;
  // Of this host, for peers; empty: by NCCL_SOCKET_IFNAME. The port is filled in.
  std::vector<SocketAddress> addresses;

  static PortOptions from_environment(const auth::Digest& secret);  // RONDO_NET_TIMEOUT
};

class StreamPort {
 public:
  // sealed: of which lanes all bytes travel as records under the key of their handshake.
  static Result<std::unique_ptr<StreamPort>> open(PortOptions options, bool (*sealed)(int lane));

  const PortOptions& options() const { return options_; }
  // Starts to accept. The addresses, as peers get them; again: the same.
  Result<std::vector<std::byte>> listen();
  Result<std::unique_ptr<Connector>> connect(const LinkName& name, int sockets, ByteSpan address,
                                             Bytes greeting = {});
  // The next link that all sockets of have come; nothing: none now.
  std::optional<Arrival> accept();
  bool poll() { return poller_.wait(std::chrono::milliseconds(0)); }
  int poll_fd() const { return poller_.fd(); }

 private:
  StreamPort(PortOptions options, bool (*sealed)(int lane), Poller poller)
      : options_(std::move(options)), sealed_(sealed), poller_(std::move(poller)) {}

  PortOptions options_;
  bool (*const sealed_)(int lane);
  Poller poller_;
  std::unique_ptr<Acceptor> acceptor_;
};

}  // namespace rondo::net
