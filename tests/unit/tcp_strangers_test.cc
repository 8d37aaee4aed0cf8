// Whoever does not hold the secret is dropped and disturbs nobody.
#include <poll.h>
#include <sys/socket.h>

#include "tcp_pair.h"
#include "transport/socket/tcp.h"

namespace rondo::test {
namespace {

net::Socket knock(const Bytes& address) {
  const auto candidates = tcp::decode_addresses(address).value();
  return net::connect_tcp(candidates, {Clock::now() + kPatience, {}}).value();
}

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

TEST(TcpStrangers, GarbageIsDroppedAtOnce) {
  Host host;
  const auto stranger = knock(host.address);
  const Bytes garbage = pattern(5000, 1);
  ASSERT_GT(::send(stranger.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL), 0);
  EXPECT_TRUE(drive([&] { host.turn(); }, [&] { return closed(stranger); }));
  EXPECT_EQ(host.link, nullptr);
  EXPECT_TRUE(still_admits_a_rank(host));
}

TEST(TcpStrangers, AHelloWithoutTheSecretLearnsNothing) {
  Host host;
  const auto stranger = knock(host.address);
  tcp::Hello hello;
  hello.tag = tcp::tag_of(secret_of(2));
  hello.name = {0, 1, 0};
  const Bytes said = tcp::encode(hello);
  ::send(stranger.get(), said.data(), said.size(), MSG_NOSIGNAL);
  EXPECT_TRUE(drive([&] { host.turn(); }, [&] { return closed(stranger); }));
  EXPECT_EQ(host.link, nullptr);
}

TEST(TcpStrangers, AnOverheardTagIsNoProof) {
  Host host;
  const auto stranger = knock(host.address);
  tcp::Hello hello;
  hello.tag = tcp::tag_of(secret_of(1));
  hello.name = {0, 1, 0};
  Bytes said = tcp::encode(hello);
  const Bytes answer = tcp::encode(tcp::Answer{});
  said.insert(said.end(), answer.begin(), answer.end());
  ::send(stranger.get(), said.data(), said.size(), MSG_NOSIGNAL);
  std::byte challenge[tcp::kChallengeBytes];
  std::size_t got = 0;
  const auto listening = [&] {
    host.turn();
    const ssize_t n =
        ::recv(stranger.get(), challenge + got, sizeof(challenge) - got, MSG_DONTWAIT);
    if (n > 0) got += static_cast<std::size_t>(n);
  };
  EXPECT_TRUE(drive(listening, [&] { return got == sizeof(challenge); }));
  EXPECT_TRUE(drive([&] { host.turn(); }, [&] { return closed(stranger); }));
  EXPECT_EQ(host.link, nullptr);
  EXPECT_TRUE(still_admits_a_rank(host));
}

TEST(TcpStrangers, SilentVisitorsMakeRoomForRanks) {
  Host host;
  std::vector<net::Socket> crowd;
  for (int i = 0; i < 300; ++i) {
    crowd.push_back(knock(host.address));
    host.turn();
  }
  EXPECT_TRUE(still_admits_a_rank(host));
  EXPECT_TRUE(closed(crowd.front()));
  EXPECT_FALSE(closed(crowd.back()));
}

TEST(TcpStrangers, GarbageAfterTheHandshakeEndsThatLinkAlone) {
  Host host;
  const auto stranger = knock(host.address);  // holds the secret, but speaks nonsense afterwards
  tcp::Hello hello;
  hello.tag = tcp::tag_of(secret_of(1));
  hello.name = {4, 1, net::kControlLane};
  const Bytes said = tcp::encode(hello);
  ::send(stranger.get(), said.data(), said.size(), MSG_NOSIGNAL);
  Bytes challenge(tcp::kChallengeBytes);
  const auto listen = [&] { host.turn(); };
  ASSERT_TRUE(drive(listen, [&] {
    return ::recv(stranger.get(), challenge.data(), challenge.size(), MSG_DONTWAIT) ==
           static_cast<ssize_t>(challenge.size());
  }));
  Bytes answer = tcp::encode(tcp::Answer{tcp::connector_proof(secret_of(1), said, challenge)});
  const Bytes garbage = pattern(3000, 5);
  answer.insert(answer.end(), garbage.begin(), garbage.end());
  ::send(stranger.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
  ASSERT_TRUE(drive(listen, [&] { return host.link != nullptr; }));
  Bytes room(100);
  CallRecord record;
  ASSERT_TRUE(host.link->irecv(record, room, 0));
  const auto step = [&] {
    host.network->poll();
    host.link->progress();
  };
  ASSERT_TRUE(drive(step, [&] { return host.link->state() == net::LinkState::kEnded; }));
  EXPECT_NE(host.link->error().text.find("rank 4"), std::string::npos) << host.link->error().text;
  EXPECT_EQ(room, Bytes(100));
}

}  // namespace
}  // namespace rondo::test
