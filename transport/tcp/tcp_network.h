// The TCP implementation of net::Network.
//
// Data lanes use several sockets a link (one socket's stream is one CPU's work in the kernel),
// the control lane one, on which everything travels as records. Listens at, and offers, the
// addresses that NCCL_SOCKET_IFNAME and NCCL_SOCKET_FAMILY choose.
#pragma once

#include <memory>

#include "transport/net/net.h"
#include "transport/socket/address.h"
#include "transport/tcp/acceptor.h"
#include "transport/tcp/tcp_link.h"

namespace rondo::tcp {

struct NetworkOptions {
  Digest secret{};
  int rank = 0;                   // this one: connectors mean it by its number
  std::string purpose = "links";  // of several networks with one secret
  int sockets = 2;                // a link of a data lane
  Vigilance vigilance;
  // Of this host, for peers; empty: by NCCL_SOCKET_IFNAME. The port is filled in.
  std::vector<net::SocketAddress> addresses;

  // NCCL_SOCKET_NTHREADS x NCCL_NSOCKS_PERTHREAD sockets, RONDO_NET_TIMEOUT.
  static NetworkOptions from_environment(const Digest& secret);
};

class TcpNetwork final : public net::Network {
 public:
  static Result<std::unique_ptr<TcpNetwork>> open(NetworkOptions options);

  std::string_view name() const override { return "Socket"; }
  Result<std::vector<std::byte>> listen() override;
  Result<std::unique_ptr<net::Link>> connect(const net::LinkName& name,
                                             std::span<const std::byte> address) override;
  std::unique_ptr<net::Link> accept() override;
  bool takes(net::Memory::Kind kind) const override { return kind == net::Memory::Kind::kHost; }
  Result<net::MemoryKey> register_memory(const net::Memory& memory) override;
  void deregister_memory(net::MemoryKey) override {}
  bool poll() override { return poller_.wait(std::chrono::milliseconds(0)); }
  int poll_fd() const override { return poller_.fd(); }

 private:
  TcpNetwork(NetworkOptions options, Poller poller)
      : options_(std::move(options)), poller_(std::move(poller)) {}

  NetworkOptions options_;
  Poller poller_;
  std::unique_ptr<Acceptor> acceptor_;
};

}  // namespace rondo::tcp
