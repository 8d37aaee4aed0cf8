// SPDX-License-Identifier: Apache-2.0
// Strangers within TCP's own links. Strangers at the listener:
// tests/unit/transport/net/strangers_test.cc.
#include <poll.h>
#include <sys/socket.h>

#include <functional>

#include "tests/unit/transport/tcp/pair.h"
#include "transport/auth/handshake.h"
#include "transport/socket/tcp.h"
#include "transport/streams/connector.h"
#include "transport/tcp/sides.h"

namespace rondo::test {
namespace {

net::Socket visit(const Bytes& address) {
  const auto candidates = net::decode_addresses(address).value();
  return net::connect_tcp(candidates, {Clock::now() + kPatience, {}}).value();
}

std::string endpoint() { return net::endpoint_of("tcp", "links", 1); }

bool closed(const net::Socket& socket) {
  std::byte buffer[256];
  pollfd entry{socket.get(), POLLIN, 0};
  ::poll(&entry, 1, 0);
  const ssize_t got = ::recv(socket.get(), buffer, sizeof(buffer), MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno == ECONNRESET);
}

struct Host {
  std::unique_ptr<tcp::TcpNetwork> network = open_network(1, 2);
  Bytes address = network->listen().value();
  std::unique_ptr<net::Link> link;
  void turn() {
    network->poll();
    if (auto arrived = network->accept()) link = std::move(arrived);
  }
};

bool still_admits_a_rank(Host& host) {
  auto near = open_network(1, 2);
  auto link = near->connect({0, 1, 0}, host.address).value();
  const auto step = [&] {
    near->poll();
    link->progress();
    host.turn();
  };
  return drive(step, [&] { return host.link && link->state() == net::LinkState::kOpen; });
}

// Proves that it holds the secret, and becomes a link.
net::Socket prove(Host& host, const net::SocketOfLink& socket, auth::Handshake& handshake) {
  auto stranger = visit(host.address);
  // Has sent all that it can before the host looks, which drops a visitor that is slow.
  const auto step = [&] {
    EXPECT_TRUE(auth::move(handshake, stranger.get()).ok());
    if (handshake.state() == auth::Handshake::State::kTurn) {
      handshake.answer(net::encode(socket));
      EXPECT_TRUE(auth::move(handshake, stranger.get()).ok());
    }
    host.turn();
  };
  EXPECT_TRUE(drive(step, [&] { return host.link != nullptr; }));
  return stranger;
}

std::string end_of(Host& host) {
  Bytes room(100);
  CallRecord record;
  EXPECT_TRUE(host.link->irecv(record, room, 0));
  const auto step = [&] {
    host.network->poll();
    host.link->progress();
  };
  EXPECT_TRUE(drive(step, [&] { return net::is_over(host.link->state()); }));
  EXPECT_EQ(room, Bytes(100));
  return host.link->error().text;
}

// A connector of two addresses, of which the test serves the first.
struct ServedConnector {
  std::unique_ptr<tcp::TcpNetwork> near = open_network(1, 1);
  net::SocketAddress address = loopback("127.0.0.1");
  net::Listening listening = net::listen_at({&address, 1}).value();
  std::unique_ptr<net::Link> link;
  auth::Handshake shake = auth::Handshake::acceptor(endpoint());
  std::optional<net::Accepted> visitor;

  ServedConnector() {
    const net::SocketAddress other = loopback("127.0.0.2").with_port(listening.addresses[0].port());
    const Bytes candidates = net::encode_addresses(std::vector{listening.addresses[0], other});
    link = near->connect({0, 1, net::kCollectiveLane}, candidates).value();
  }
  void turn() const {
    near->poll();
    link->progress();
  }
  bool another_visitor_comes() const {
    return net::accept_tcp(listening.sockets[0]).value().has_value();
  }
  bool shake_until(const std::function<bool()>& ready) {
    return drive([&] { turn(), (void)auth::move(shake, visitor->socket.get()).ok(); }, ready);
  }
  // Challenges the connector. False: it left for the other address, as it does after 3 s.
  bool is_answered() {
    const auto comes = [&] {
      return (visitor = net::accept_tcp(listening.sockets[0]).value()).has_value();
    };
    EXPECT_TRUE(drive([&] { turn(); }, comes));
    std::byte byte;
    ssize_t got = -1;
    const auto peek = [&] {
      got = ::recv(visitor->socket.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
      return got >= 0 || errno == ECONNRESET;
    };
    const auto turn_of_shake = [&] { return shake.state() == auth::Handshake::State::kTurn; };
    EXPECT_TRUE(shake_until([&] { return turn_of_shake() || (peek() && got <= 0); }));
    if (!turn_of_shake()) return false;
    shake.challenge(secret_of(1));
    EXPECT_TRUE(shake_until([&] { return shake.unsent().empty() || (peek() && got <= 0); }));
    EXPECT_TRUE(drive([&] { turn(); }, peek));
    return got > 0;
  }
};

// The last message of a handshake is later than a connector waits for a silent address. The
// connector must stay: it has answered the peer, which may already use the link.
TEST(TcpConnector, StaysWithAPeerThatItHasAnswered) {
  for (int attempt = 0; attempt < 20; ++attempt) {
    ServedConnector served;
    if (!served.is_answered()) continue;  // this thread stood still
    const auto late = Clock::now() + std::chrono::milliseconds(3500);
    ASSERT_TRUE(drive([&] { served.turn(); }, [&] { return Clock::now() > late; }));
    EXPECT_FALSE(served.another_visitor_comes());
    ASSERT_TRUE(served.shake_until(
        [&] { return served.shake.state() == auth::Handshake::State::kProven; }));
    EXPECT_TRUE(drive([&] { served.turn(); },
                      [&] { return served.link->state() != net::LinkState::kOpening; }));
    EXPECT_EQ(served.link->state(), net::LinkState::kOpen);
    EXPECT_FALSE(closed(served.visitor->socket));
    return;
  }
  FAIL() << "the connector never answered";
}

TEST(TcpStrangers, GarbageAfterTheHandshakeEndsThatLinkAlone) {
  for (const int lane : {net::kControlLane, net::kCollectiveLane}) {
    Host host;
    auto handshake = auth::Handshake::connector(secret_of(1), endpoint());
    const auto stranger = prove(host, {.name = {4, 1, lane}}, handshake);
    const Bytes garbage = pattern(3000, 5);
    ::send(stranger.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL);
    const std::string text = end_of(host);
    EXPECT_NE(text.find("rank 4"), std::string::npos) << text;
    EXPECT_EQ(lane == net::kControlLane, text.find("does not verify") != std::string::npos);
    EXPECT_TRUE(still_admits_a_rank(host));
  }
}

// The right bytes of a message, from a sender that does not have the session's key.
TEST(TcpStrangers, AForgedControlMessageEndsTheLinkUnread) {
  Host host;
  auto handshake = auth::Handshake::connector(secret_of(1), endpoint());
  const auto stranger = prove(host, {.name = {4, 1, net::kControlLane}}, handshake);
  tcp::MessageHeader header;
  header.bytes = 20;
  const Bytes body(20, std::byte{1});
  ::send(stranger.get(), &header, sizeof(header), MSG_NOSIGNAL);
  ::send(stranger.get(), body.data(), body.size(), MSG_NOSIGNAL);
  EXPECT_NE(end_of(host).find("does not verify"), std::string::npos);
  EXPECT_FALSE(host.link->test({0, false}).done);
}

}  // namespace
}  // namespace rondo::test
