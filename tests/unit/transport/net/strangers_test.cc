// SPDX-License-Identifier: Apache-2.0
// Every network's listener drops a peer without the secret, and no other peer is affected. Crowds,
// garbage and half handshakes: tests/unit/transport/auth.
#include <poll.h>
#include <sys/socket.h>

#include "tests/unit/transport/net/networks.h"
#include "transport/auth/handshake.h"
#include "transport/socket/tcp.h"
#include "transport/streams/connector.h"
#include "transport/streams/side_channel.h"

namespace rondo::test {
namespace {

class NetworkStrangers : public NetworkSuite {};

net::Socket visit(const Bytes& address) {
  const auto candidates = net::decode_addresses(address).value();
  return net::connect_tcp(candidates, {Clock::now() + kPatience, {}}).value();
}

std::string endpoint(const NetworkKind& kind) { return net::endpoint_of(kind.door, "links", 1); }

bool closed(const net::Socket& socket) {
  std::byte buffer[256];
  pollfd entry{socket.get(), POLLIN, 0};
  ::poll(&entry, 1, 0);
  const ssize_t got = ::recv(socket.get(), buffer, sizeof(buffer), MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno == ECONNRESET);
}

struct Host {
  explicit Host(const NetworkKind& of) : kind(of) {}
  const NetworkKind& kind;
  std::unique_ptr<net::Network> network = kind.at(1);
  Bytes address = network->listen().value();
  std::unique_ptr<net::Link> link;
  void turn() {
    network->poll();
    if (auto arrived = network->accept()) link = std::move(arrived);
    if (link) link->progress();
  }
};

bool still_admits_a_rank(Host& host) {
  auto near = host.kind.at(0);
  auto link = near->connect({0, 1, 0}, host.address).value();
  const auto step = [&] {
    near->poll();
    link->progress();
    host.turn();
  };
  return drive(step, [&] { return host.link && link->state() == net::LinkState::kOpen; });
}

TEST_P(NetworkStrangers, AHelloWithoutTheSecretLearnsNothing) {
  Host host{GetParam()};
  const auto stranger = visit(host.address);
  auto handshake = auth::Handshake::connector(secret_of(2), endpoint(GetParam()));
  ASSERT_TRUE(auth::move(handshake, stranger.get()).ok());
  EXPECT_TRUE(drive([&] { host.turn(); }, [&] { return closed(stranger); }));
  EXPECT_EQ(host.link, nullptr);
}

// The stranger is challenged, learns nothing from that, and its answer is refused.
TEST_P(NetworkStrangers, AnOverheardTagIsNoProof) {
  Host host{GetParam()};
  const auto stranger = visit(host.address);
  auto thief = auth::Handshake::connector({secret_of(1), secret_of(2)}, endpoint(GetParam()));
  const auto step = [&] {
    (void)auth::move(thief, stranger.get()).ok();
    host.turn();
  };
  EXPECT_TRUE(drive(step, [&] { return thief.proof_failed(); }));
  const Bytes answer(39, std::byte{3});
  ::send(stranger.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
  EXPECT_TRUE(drive([&] { host.turn(); }, [&] { return closed(stranger); }));
  EXPECT_EQ(host.link, nullptr);
  EXPECT_TRUE(still_admits_a_rank(host));
}

// A peer of the communicator whose side channel carries nothing that this network can decode.
TEST_P(NetworkStrangers, GarbageOnTheSideChannelOpensNoLink) {
  if (GetParam().door == std::string("tcp")) GTEST_SKIP() << "opens by no side channel";
  Host host{GetParam()};
  net::PortOptions options;
  options.secret = secret_of(1);
  options.network = GetParam().door;
  for (const Bytes& sent : {Bytes{}, pattern(50, 1), pattern(net::SideChannel::kMaxBlob, 2)}) {
    auto channels = net::SideChannels::open(options).value();
    auto channel = channels->connect({0, 1, 0}, host.address, sent).value();
    const auto step = [&] {
      channel->progress();
      channels->poll();
      host.turn();
    };
    EXPECT_TRUE(drive(step, [&] { return channel->state() >= net::SideChannel::State::kClosed; }));
    EXPECT_EQ(host.link, nullptr);
  }
  EXPECT_TRUE(still_admits_a_rank(host));
}

INSTANTIATE_TEST_SUITE_P(Every, NetworkStrangers, testing::ValuesIn(network_kinds()), kNameOfKind);

}  // namespace
}  // namespace rondo::test
