// SPDX-License-Identifier: Apache-2.0
// The TCP implementation of net::Network: links over the sockets of a StreamPort.
//
// Data lanes use the requested number of sockets per link. Several help where a network limits each
// stream, or one CPU of the kernel is the limit; otherwise they only cost system calls. The control
// lane uses one socket, and all its bytes travel as records. Listens at the addresses that
// NCCL_SOCKET_IFNAME and NCCL_SOCKET_FAMILY choose, and publishes them.
#pragma once

#include <memory>

#include "transport/net/net.h"
#include "transport/streams/stream_port.h"
#include "transport/tcp/tcp_link.h"

namespace rondo::tcp {

struct NetworkOptions : net::PortOptions {
  int sockets = 1;  // per link of a data lane

  // NCCL_SOCKET_NTHREADS x NCCL_NSOCKS_PERTHREAD sockets.
  static NetworkOptions from_environment(const auth::Digest& secret);
};

class TcpNetwork final : public net::Network {
 public:
  static Result<std::unique_ptr<TcpNetwork>> open(NetworkOptions options);

  std::string_view name() const override { return "Socket"; }
  Result<std::vector<std::byte>> listen() override { return port_->listen(); }
  Result<std::unique_ptr<net::Link>> connect(const net::LinkName& name,
                                             std::span<const std::byte> address) override;
  std::unique_ptr<net::Link> accept() override;
  Status accepting() const override { return port_->standing(); }
  bool takes(net::Memory::Kind kind) const override { return kind == net::Memory::Kind::kHost; }
  Result<net::MemoryKey> register_memory(const net::Memory& memory) override;
  void deregister_memory(net::MemoryKey) override {}
  bool poll() override { return port_->poll(); }
  bool arm() override { return true; }  // data since poll() makes poll_fd() readable
  int poll_fd() const override { return port_->poll_fd(); }

 private:
  TcpNetwork(std::unique_ptr<net::StreamPort> port, int sockets)
      : port_(std::move(port)), sockets_(sockets) {}

  const std::unique_ptr<net::StreamPort> port_;
  const int sockets_;
};

}  // namespace rondo::tcp
