// SPDX-License-Identifier: Apache-2.0
// StreamPort: accepts proven streams of a rank's links, and opens such streams to other ranks.
//
// The common part of TCP links and of the side channels of all other networks: addresses,
// handshake, poller. Guarantees: returns only sockets whose other end proved the secret; the
// connecting side also checks that the intended rank answers. Nothing waits. Cost: two descriptors
// and one listening socket per address; poll() is one system call.
//
//   RONDO_TRY(auto port, StreamPort::open(std::move(options)));
//   RONDO_TRY(Bytes here, port->listen());                              // give these to peers
//   RONDO_TRY(auto connector, port->connect({.name = {0, 1, 0}}, address_of_1));
//   if (auto arrival = port->accept()) ...
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transport/socket/address.h"
#include "transport/streams/acceptor.h"
#include "transport/streams/connector.h"
#include "transport/streams/stream.h"

namespace rondo::net {

// Encodes the listening addresses of a rank for its peers: up to 16 addresses, the best first.
inline constexpr std::size_t kMaxAddresses = 16;

std::vector<std::byte> encode_addresses(std::span<const SocketAddress> addresses);
// Nullopt for bytes that encode_addresses() cannot have written. Never an empty list.
std::optional<std::vector<SocketAddress>> decode_addresses(std::span<const std::byte> bytes);

struct PortOptions {
  auth::Digest secret{};
  int rank = 0;                   // of this process; connectors address it by this number
  std::string network = "tcp";    // network name; streams of other networks are refused
  std::string purpose = "links";  // distinguishes networks with the same secret
  Vigilance vigilance;
  // Addresses of this host for peers; empty: chosen by NCCL_SOCKET_IFNAME. listen() sets the port.
  std::vector<SocketAddress> addresses;

  static PortOptions from_environment(const auth::Digest& secret);  // RONDO_NET_TIMEOUT
};

class StreamPort {
 public:
  // sealed: as for Acceptor::open().
  static Result<std::unique_ptr<StreamPort>> open(PortOptions options, bool (*sealed)(int lane));

  const PortOptions& options() const { return options_; }
  // Starts to accept. Returns the addresses for peers; a second call returns the same.
  Result<std::vector<std::byte>> listen();
  Result<std::unique_ptr<Connector>> connect(const LinkName& name, int sockets, ByteSpan address,
                                             Bytes greeting = {});
  // The next link with all its sockets; nullopt: none now.
  std::optional<Arrival> accept();
  // An error if peers cannot be accepted (auth::Acceptor::standing()).
  Status standing() const { return acceptor_ ? acceptor_->standing() : ok_status(); }
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
