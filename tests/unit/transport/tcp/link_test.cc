// Links over TCP between two networks of one thread: order, sizes, striping, ends.
#include <algorithm>

#include "tests/unit/transport/tcp/pair.h"

namespace rondo::test {
namespace {

using net::LinkState;

std::vector<std::size_t> odd_sizes() {
  return {0,     1,     4,     31,     33,      4063,    4064,          4065,
          65535, 65536, 65537, 131073, 1000003, 1 << 20, (4 << 20) - 1, 4 << 20};
}

class TcpLinkTest : public testing::TestWithParam<int> {};

TEST_P(TcpLinkTest, CarriesEverySizeBothWaysInOrder) {
  Pair pair(GetParam());
  ASSERT_TRUE(pair.connected);
  const auto sizes = odd_sizes();
  for (net::Link* from : {pair.near.get(), pair.far.get()}) {
    net::Link* to = from == pair.near.get() ? pair.far.get() : pair.near.get();
    std::vector<Bytes> sent, got(sizes.size(), Bytes(4 << 20));
    std::vector<CallRecord> records(sizes.size());
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      sent.push_back(pattern(sizes[i], i));
      CallRecord record;
      record.count = i + 100;
      ASSERT_TRUE(from->isend(record, sent[i], 0));
      ASSERT_TRUE(to->irecv(records[i], got[i], 0));
    }
    const net::Request last{sizes.size() - 1, false};
    ASSERT_TRUE(drive([&] { pair.turn(); }, [&] { return to->test(last).done; }));
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      ASSERT_EQ(to->test({i, false}).bytes, sizes[i]);
      ASSERT_TRUE(std::equal(sent[i].begin(), sent[i].end(), got[i].begin())) << sizes[i];
      ASSERT_EQ(records[i].count, i + 100);
      ASSERT_TRUE(from->test({i, true}).done);
    }
  }
}

TEST_P(TcpLinkTest, MixesSmallAndStripedMessagesWithOneReceiveAtATime) {
  Pair pair(GetParam());
  ASSERT_TRUE(pair.connected);
  std::mt19937 random(4);
  std::vector<Bytes> bodies;
  for (int i = 0; i < 60; ++i) bodies.push_back(pattern(random() % (i % 3 == 0 ? 200000 : 300), i));
  for (const Bytes& body : bodies) ASSERT_TRUE(pair.near->isend({}, body, 0));
  Bytes room(200000);
  CallRecord record;
  for (std::size_t i = 0; i < bodies.size(); ++i) {
    const auto request = pair.far->irecv(record, room, 0);
    ASSERT_TRUE(request);
    ASSERT_TRUE(drive([&] { pair.turn(); }, [&] { return pair.far->test(*request).done; })) << i;
    ASSERT_EQ(pair.far->test(*request).bytes, bodies[i].size());
    ASSERT_TRUE(std::equal(bodies[i].begin(), bodies[i].end(), room.begin())) << i;
  }
}

TEST_P(TcpLinkTest, DeliversWhatWasSentBeforeTheClose) {
  Pair pair(GetParam());
  ASSERT_TRUE(pair.connected);
  const Bytes body = pattern(100001, 1);
  const auto sending = pair.near->isend({}, body, 0);
  ASSERT_TRUE(drive(
      [&] {
        pair.near->progress();
        pair.near_network->poll();
      },
      [&] { return pair.near->test(*sending).done; }));
  // Unread bytes at the closing side must not destroy what it had sent.
  const Bytes unread = pattern(1000, 2);
  ASSERT_TRUE(pair.far->isend({}, unread, 0));
  pair.far->progress();
  pair.near->close();
  Bytes room(200000);
  CallRecord record;
  const auto first = pair.far->irecv(record, room, 0);
  const auto second = pair.far->irecv(record, room, 0);
  ASSERT_TRUE(second);
  const auto step = [&] {
    pair.far_network->poll();
    pair.far->progress();
  };
  ASSERT_TRUE(drive(step, [&] { return net::is_over(pair.far->state()); }));
  EXPECT_TRUE(pair.far->test(*first).done);
  EXPECT_FALSE(pair.far->test(*second).done);
  EXPECT_NE(pair.far->error().text.find("rank 0"), std::string::npos) << pair.far->error().text;
  EXPECT_EQ(pair.far->error().status, Status::kRemoteError);
}

INSTANTIATE_TEST_SUITE_P(Sockets, TcpLinkTest, testing::Values(1, 2, 4),
                         testing::PrintToStringParamName());

TEST(TcpLink, WorksOverIp6) {
  Pair pair(2, "::1");
  ASSERT_TRUE(pair.connected);
  const Bytes body = pattern(100000, 3);
  Bytes room(100000);
  CallRecord record;
  ASSERT_TRUE(pair.near->isend({}, body, 0));
  const auto request = pair.far->irecv(record, room, 0);
  ASSERT_TRUE(drive([&] { pair.turn(); }, [&] { return pair.far->test(*request).done; }));
  EXPECT_EQ(room, body);
}

TEST(TcpLink, RefusesMoreMessagesThanItsDepth) {
  Pair pair(1);
  ASSERT_TRUE(pair.connected);
  CallRecord record;
  for (std::uint64_t i = 0; i < net::Link::kDepth; ++i) {
    ASSERT_TRUE(pair.near->isend({}, {}, 0));
    ASSERT_TRUE(pair.far->irecv(record, {}, 0));
  }
  EXPECT_FALSE(pair.near->isend({}, {}, 0));
  EXPECT_FALSE(pair.far->irecv(record, {}, 0));
  const net::Request last{net::Link::kDepth - 1, false};
  ASSERT_TRUE(drive([&] { pair.turn(); }, [&] { return pair.far->test(last).done; }));
  EXPECT_TRUE(pair.near->isend({}, {}, 0));
}

TEST(TcpLink, AMessageLongerThanItsRoomEndsTheLinkAndWritesNothing) {
  Pair pair(2);
  ASSERT_TRUE(pair.connected);
  const Bytes body = pattern(101, 1);
  Bytes room(200, std::byte{0x5a});
  CallRecord record;
  ASSERT_TRUE(pair.near->isend({}, body, 0));
  ASSERT_TRUE(pair.far->irecv(record, std::span(room).first(100), 0));
  ASSERT_TRUE(drive([&] { pair.turn(); }, [&] { return net::is_over(pair.far->state()); }));
  EXPECT_EQ(room, Bytes(200, std::byte{0x5a}));
  EXPECT_NE(pair.far->error().text.find("at most 100 fit"), std::string::npos)
      << pair.far->error().text;
}

TEST(TcpLink, AFullReceiverHoldsTheSenderBack) {
  Pair pair(2);
  ASSERT_TRUE(pair.connected);
  const Bytes body = pattern(1 << 20, 1);
  for (std::uint64_t i = 0; i < net::Link::kDepth; ++i) ASSERT_TRUE(pair.near->isend({}, body, 0));
  for (int i = 0; i < 2000; ++i) pair.turn();
  EXPECT_FALSE(pair.near->test({net::Link::kDepth - 1, true}).done);
  Bytes room(1 << 20);
  CallRecord record;
  for (std::uint64_t i = 0; i < net::Link::kDepth; ++i) {
    const auto request = pair.far->irecv(record, room, 0);
    ASSERT_TRUE(request);
    ASSERT_TRUE(drive([&] { pair.turn(); }, [&] { return pair.far->test(*request).done; })) << i;
    ASSERT_EQ(room, body) << i;
  }
  EXPECT_TRUE(pair.near->test({net::Link::kDepth - 1, true}).done);
}

TEST(TcpLink, APeerThatIsGoneIsNamed) {
  auto near = open_network(1, 2);
  auto far = open_network(1, 2);
  const Bytes address = far->listen().value();
  far.reset();
  auto link = near->connect({0, 5, net::kControlLane}, address).value();
  const auto step = [&] {
    near->poll();
    link->progress();
  };
  ASSERT_TRUE(drive(step, [&] { return net::is_over(link->state()); }));
  EXPECT_NE(link->error().text.find("cannot reach rank 5"), std::string::npos)
      << link->error().text;
}

TEST(TcpLink, TriesTheNextAddressWhereAnotherCommunicatorListens) {
  auto near = open_network(1, 2);
  auto stranger = open_network(2, 2);
  auto far = open_network(1, 2);
  auto candidates = net::decode_addresses(stranger->listen().value()).value();
  candidates.push_back(net::decode_addresses(far->listen().value()).value().front());
  auto link = near->connect({0, 1, 0}, net::encode_addresses(candidates)).value();
  std::unique_ptr<net::Link> accepted;
  const auto step = [&] {
    near->poll();
    far->poll();
    stranger->poll();
    link->progress();
    EXPECT_EQ(stranger->accept(), nullptr);
    if (!accepted) accepted = far->accept();
  };
  ASSERT_TRUE(drive(step, [&] { return accepted && link->state() == LinkState::kOpen; }));
  EXPECT_EQ(accepted->name(), link->name());
}

TEST(TcpLink, RefusesAddressesThatAreNone) {
  auto near = open_network(1, 2);
  EXPECT_FALSE(near->connect({0, 1, 0}, pattern(9, 9)).ok());
}

}  // namespace
}  // namespace rondo::test
