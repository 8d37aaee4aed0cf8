// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/tcp_network.h"

#include <algorithm>

#include "base/env.h"

namespace rondo::tcp {
namespace {

bool travels_sealed(int lane) { return lane == net::kControlLane; }

}  // namespace

NetworkOptions NetworkOptions::from_environment(const auth::Digest& secret) {
  NetworkOptions options{net::PortOptions::from_environment(secret)};
  std::int64_t sockets = 1;
  for (const char* factor : {"NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD"})
    sockets *= std::clamp<std::int64_t>(env::get_int(factor), 1, net::kMaxSockets);
  options.sockets = static_cast<int>(std::min<std::int64_t>(sockets, net::kMaxSockets));
  return options;
}

Result<std::unique_ptr<TcpNetwork>> TcpNetwork::open(NetworkOptions options) {
  const int sockets = options.sockets;
  RONDO_TRY(auto port, net::StreamPort::open(std::move(options), travels_sealed));
  return std::unique_ptr<TcpNetwork>(new TcpNetwork(std::move(port), sockets));
}

Result<std::unique_ptr<net::Link>> TcpNetwork::connect(const net::LinkName& name,
                                                       std::span<const std::byte> address) {
  const int sockets = name.lane == net::kControlLane ? 1 : sockets_;
  RONDO_TRY(auto connector, port_->connect(name, sockets, address));
  return std::unique_ptr<net::Link>(
      std::make_unique<TcpLink>(name, port_->options().vigilance, std::move(connector)));
}

std::unique_ptr<net::Link> TcpNetwork::accept() {
  auto arrival = port_->accept();
  if (!arrival) return nullptr;
  return std::make_unique<TcpLink>(arrival->name, port_->options().vigilance, arrival->from.text(),
                                   std::move(arrival->streams));
}

Result<net::MemoryKey> TcpNetwork::register_memory(const net::Memory& memory) {
  if (!takes(memory.kind))
    return fail(StatusCode::kInvalidArgument,
                "sockets move host memory only: stage a device's {} bytes in pinned memory",
                memory.bytes.size());
  return net::MemoryKey{0};
}

}  // namespace rondo::tcp
