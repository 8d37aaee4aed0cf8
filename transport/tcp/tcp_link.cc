// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/tcp_link.h"

#include <limits>

namespace rondo::tcp {

TcpLink::TcpLink(const net::LinkName& name, const net::Vigilance& vigilance,
                 std::unique_ptr<net::Connector> connector)
    : name_(name), vigilance_(vigilance), peer_(name.to), connector_(std::move(connector)) {}

TcpLink::TcpLink(const net::LinkName& name, const net::Vigilance& vigilance,
                 std::string peer_address, std::vector<std::unique_ptr<net::Stream>> streams)
    : name_(name), vigilance_(vigilance), peer_(name.from), peer_address_(std::move(peer_address)) {
  open(std::move(streams));
}

void TcpLink::open(std::vector<std::unique_ptr<net::Stream>> streams) {
  streams_ = std::move(streams);
  for (const auto& stream : streams_)
    net::watch(*stream, vigilance_, name_.lane == net::kControlLane);
  if (!streams_.empty()) port_ = net::interface_of(*streams_.front());
}

std::optional<net::Request> TcpLink::isend(const CallRecord& record,
                                           std::span<const std::byte> body, net::MemoryKey,
                                           std::uint32_t tag) {
  if (sending_.full() || body.size() > std::numeric_limits<std::uint32_t>::max())
    return std::nullopt;
  return net::Request{sending_.push(record, body, tag), true};
}

std::optional<net::Request> TcpLink::irecv(CallRecord& record, std::span<std::byte> room,
                                           net::MemoryKey) {
  if (receiving_.full()) return std::nullopt;
  return net::Request{receiving_.push(record, room), false};
}

net::Completion TcpLink::test(net::Request request) const {
  if (request.sending) return {request.number < sending_.sent()};
  if (request.number >= receiving_.received()) return {};
  return {true, receiving_.bytes_of(request.number), receiving_.tag_of(request.number)};
}

void TcpLink::fail_with(const std::string& why) {
  if (error_) return;
  error_ = fail(StatusCode::kRemoteError, "the connection to rank {} ({}) ended: {}", peer_,
                peer_address_, why);
}

bool TcpLink::progress() {
  if (connector_) {
    bool moved = connector_->progress();
    if (connector_->failure()) {
      error_ =
          fail(StatusCode::kRemoteError, "cannot reach rank {}: {}", peer_, *connector_->failure());
      connector_.reset();
    } else if (connector_->finished()) {
      peer_address_ = connector_->address();
      open(connector_->take());
      connector_.reset();
    } else {
      return moved;
    }
  }
  if (streams_.empty()) return false;
  bool moved = sending_.progress(streams_);
  moved |= receiving_.progress(streams_);
  if (error_) return moved;
  if (receiving_.failure()) {
    closed_by_peer_ = receiving_.is_closed();
    fail_with(*receiving_.failure());
  } else if (sending_.failure()) {
    fail_with(net::text_of(*sending_.failure()));
  }
  return moved;
}

net::LinkState TcpLink::state() const {
  if (error_) return closed_by_peer_ ? net::LinkState::kClosed : net::LinkState::kEnded;
  return connector_ ? net::LinkState::kOpening : net::LinkState::kOpen;
}

// Allocates no memory.
void TcpLink::end_streams() {
  for (const auto& stream : streams_) net::close_gently(*stream);
  streams_.clear();
  connector_.reset();
}

void TcpLink::close() {
  end_streams();
  fail_with("closed by this rank");
}

}  // namespace rondo::tcp
