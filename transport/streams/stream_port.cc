#include "transport/streams/stream_port.h"

#include <algorithm>
#include <cmath>

#include "base/env.h"
#include "transport/socket/interfaces.h"
#include "transport/socket/tcp.h"
#include "transport/streams/address_blob.h"

namespace rondo::net {

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
