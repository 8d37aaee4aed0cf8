// SPDX-License-Identifier: Apache-2.0
#include "transport/streams/stream_port.h"

#include <algorithm>
#include <cmath>

#include "base/bytes.h"
#include "base/env.h"
#include "transport/socket/interfaces.h"
#include "transport/socket/tcp.h"

namespace rondo::net {
namespace {

constexpr std::uint8_t kIp4 = 4;
constexpr std::uint8_t kIp6 = 6;

template <std::size_t N>
std::span<const unsigned char, N> octets(std::span<const std::byte> bytes) {
  return std::span<const unsigned char, N>(reinterpret_cast<const unsigned char*>(bytes.data()), N);
}

}  // namespace

std::vector<std::byte> encode_addresses(std::span<const SocketAddress> addresses) {
  ByteWriter out;
  const auto some = addresses.first(std::min(addresses.size(), kMaxAddresses));
  out.put<std::uint8_t>(static_cast<std::uint8_t>(some.size()));
  for (const SocketAddress& address : some) {
    out.put<std::uint8_t>(address.family() == AF_INET ? kIp4 : kIp6);
    out.put_raw(std::as_bytes(address.ip()));
    out.put<std::uint16_t>(address.port());
  }
  return out.take();
}

std::optional<std::vector<SocketAddress>> decode_addresses(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  const auto count = in.get<std::uint8_t>();
  if (count == 0 || count > kMaxAddresses) return std::nullopt;
  std::vector<SocketAddress> addresses;
  for (int i = 0; i < count; ++i) {
    const auto kind = in.get<std::uint8_t>();
    if (kind != kIp4 && kind != kIp6) return std::nullopt;
    const auto ip = in.raw(kind == kIp4 ? 4 : 16);
    const auto port = in.get<std::uint16_t>();
    if (!in.ok()) return std::nullopt;
    addresses.push_back(kind == kIp4 ? SocketAddress::v4(octets<4>(ip), port)
                                     : SocketAddress::v6(octets<16>(ip), port));
  }
  return in.finished() ? std::optional(std::move(addresses)) : std::nullopt;
}

PortOptions PortOptions::from_environment(const auth::Digest& secret) {
  constexpr double kDay = 86400;
  PortOptions options;
  options.secret = secret;
  options.vigilance.seconds =
      static_cast<int>(std::ceil(std::clamp(env::get_seconds("RONDO_NET_TIMEOUT"), 1.0, kDay)));
  return options;
}

Result<std::unique_ptr<StreamPort>> StreamPort::open(PortOptions options,
                                                     bool (*sealed)(int lane)) {
  RONDO_TRY(Poller poller, Poller::open());
  return std::unique_ptr<StreamPort>(new StreamPort(std::move(options), sealed, std::move(poller)));
}

Result<std::vector<std::byte>> StreamPort::listen() {
  if (acceptor_) return encode_addresses(options_.addresses);
  if (options_.addresses.empty()) {
    RONDO_TRY(options_.addresses, own_addresses());
  }
  RONDO_TRY(Listening listening, listen_at(options_.addresses));
  options_.addresses = std::move(listening.addresses);
  RONDO_TRY(
      acceptor_,
      Acceptor::open(poller_, std::move(listening.sockets), options_.secret,
                     endpoint_of(options_.network, options_.purpose, options_.rank), sealed_));
  return encode_addresses(options_.addresses);
}

Result<std::unique_ptr<Connector>> StreamPort::connect(const LinkName& name, int sockets,
                                                       ByteSpan address, Bytes greeting) {
  auto candidates = decode_addresses(address);
  if (!candidates)
    return fail(StatusCode::kInternalError, "the {} bytes that rank {} gave are no TCP addresses",
                address.size(), name.to);
  if (auto here = on_links_here(*candidates); !here.empty()) candidates = std::move(here);
  return std::make_unique<Connector>(
      poller_, options_.secret, endpoint_of(options_.network, options_.purpose, name.to),
      WantedLink{name, sockets, sealed_(name.lane), std::move(greeting)}, std::move(*candidates));
}

std::optional<Arrival> StreamPort::accept() { return acceptor_ ? acceptor_->next() : std::nullopt; }

}  // namespace rondo::net
