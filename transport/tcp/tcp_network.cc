#include "transport/tcp/tcp_network.h"

#include <algorithm>
#include <cmath>

#include "base/env.h"
#include "transport/socket/interfaces.h"
#include "transport/socket/tcp.h"
#include "transport/tcp/address_blob.h"

namespace rondo::tcp {

NetworkOptions NetworkOptions::from_environment(const Digest& secret) {
  NetworkOptions options;
  options.secret = secret;
  std::int64_t sockets = 1;
  for (const char* factor : {"NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD"})
    sockets *= std::clamp<std::int64_t>(env::get_int(factor), 1, kMostSockets);
  options.sockets = static_cast<int>(std::min<std::int64_t>(sockets, kMostSockets));
  constexpr double kDay = 86400;
  options.vigilance.seconds =
      static_cast<int>(std::ceil(std::clamp(env::get_seconds("RONDO_NET_TIMEOUT"), 1.0, kDay)));
  return options;
}

Result<std::unique_ptr<TcpNetwork>> TcpNetwork::open(NetworkOptions options) {
  RONDO_TRY(Poller poller, Poller::open());
  return std::unique_ptr<TcpNetwork>(new TcpNetwork(std::move(options), std::move(poller)));
}

Result<std::vector<std::byte>> TcpNetwork::listen() {
  if (options_.addresses.empty()) {
    RONDO_TRY(options_.addresses, net::own_addresses());
  }
  RONDO_TRY(net::Listening listening, net::listen_at(options_.addresses));
  options_.addresses = std::move(listening.addresses);
  RONDO_TRY(acceptor_, Acceptor::open(poller_, std::move(listening.sockets), options_.secret,
                                      endpoint_of(options_.purpose, options_.rank)));
  return encode_addresses(options_.addresses);
}

Result<std::unique_ptr<net::Link>> TcpNetwork::connect(const net::LinkName& name,
                                                       std::span<const std::byte> address) {
  auto candidates = decode_addresses(address);
  if (!candidates)
    return fail(Status::kInternalError, "the {} bytes that rank {} gave are no TCP addresses",
                address.size(), name.to);
  if (auto here = net::on_links_here(*candidates); !here.empty()) candidates = std::move(here);
  const int sockets = name.lane == net::kControlLane ? 1 : options_.sockets;
  auto connector =
      std::make_unique<Connector>(poller_, options_.secret, endpoint_of(options_.purpose, name.to),
                                  name, sockets, std::move(*candidates));
  return std::unique_ptr<net::Link>(
      std::make_unique<TcpLink>(name, options_.vigilance, std::move(connector)));
}

Result<net::MemoryKey> TcpNetwork::register_memory(const net::Memory& memory) {
  if (!takes(memory.kind))
    return fail(Status::kInvalidArgument,
                "sockets move host memory only: stage a device's {} bytes in pinned memory",
                memory.bytes.size());
  return net::MemoryKey{0};
}

std::unique_ptr<net::Link> TcpNetwork::accept() {
  if (!acceptor_) return nullptr;
  auto arrival = acceptor_->next();
  if (!arrival) return nullptr;
  return std::make_unique<TcpLink>(arrival->name, options_.vigilance, arrival->from.text(),
                                   std::move(arrival->streams));
}

}  // namespace rondo::tcp
