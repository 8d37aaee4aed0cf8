// SPDX-License-Identifier: Apache-2.0
// Conformance of every network's links, between two networks of one thread: order, sizes, tags,
// flow control, keys, ends.
#include <algorithm>

#include "tests/unit/transport/net/networks.h"

namespace rondo::test {
namespace {

using net::LinkState;

class NetworkLink : public NetworkSuite {};

std::vector<std::size_t> odd_sizes() {
  return {0,     1,     4,     31,     33,      4063,    4064,          4065,
          65535, 65536, 65537, 131073, 1000003, 1 << 20, (4 << 20) - 1, 4 << 20};
}

TEST_P(NetworkLink, CarriesEverySizeBothWaysInOrderWithItsTag) {
  LinkPair pair(GetParam());
  ASSERT_TRUE(pair.connected);
  const auto sizes = odd_sizes();
  for (const bool forth : {true, false}) {
    net::Link& from = forth ? *pair.near : *pair.far;
    net::Link& to = forth ? *pair.far : *pair.near;
    std::vector<std::unique_ptr<Registered>> sent, got;
    std::vector<CallRecord> records(sizes.size());
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      sent.push_back(std::make_unique<Registered>(forth ? *pair.near_network : *pair.far_network,
                                                  pattern(sizes[i], i)));
      got.push_back(std::make_unique<Registered>(forth ? *pair.far_network : *pair.near_network,
                                                 Bytes(sizes[i] + 1)));
      CallRecord record;
      record.count = i + 100;
      ASSERT_TRUE(from.isend(record, sent[i]->bytes, sent[i]->key, 7 * i));
      ASSERT_TRUE(to.irecv(records[i], got[i]->bytes, got[i]->key));
    }
    const net::Request last{sizes.size() - 1, false};
    ASSERT_TRUE(pair.until([&] { return to.test(last).done; }));
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      ASSERT_EQ(to.test({i, false}).bytes, sizes[i]);
      ASSERT_EQ(to.test({i, false}).tag, 7 * i);
      ASSERT_TRUE(std::ranges::equal(sent[i]->bytes, got[i]->first(sizes[i]))) << sizes[i];
      ASSERT_EQ(got[i]->bytes.back(), std::byte{0}) << "written beyond the message";
      ASSERT_EQ(records[i].count, i + 100);
    }
    ASSERT_TRUE(pair.until([&] { return from.test({sizes.size() - 1, true}).done; }));
  }
}

TEST_P(NetworkLink, MixesSmallAndLargeMessagesWithOneReceiveAtATime) {
  LinkPair pair(GetParam());
  ASSERT_TRUE(pair.connected);
  std::mt19937 random(4);
  std::vector<std::size_t> sizes;
  std::size_t total = 0;
  for (int i = 0; i < 60; ++i) total += sizes.emplace_back(random() % (i % 3 == 0 ? 200000 : 300));
  Registered all(*pair.near_network, pattern(total, 1));
  std::size_t begin = 0;
  for (const std::size_t size : sizes) {
    ASSERT_TRUE(pair.near->isend({}, std::span(all.bytes).subspan(begin, size), all.key));
    begin += size;
  }
  Registered room(*pair.far_network, Bytes(200000));
  CallRecord record;
  begin = 0;
  for (const std::size_t size : sizes) {
    const auto request = pair.far->irecv(record, room.bytes, room.key);
    ASSERT_TRUE(request);
    ASSERT_TRUE(pair.until([&] { return pair.far->test(*request).done; }));
    ASSERT_EQ(pair.far->test(*request).bytes, size);
    ASSERT_TRUE(std::ranges::equal(std::span(all.bytes).subspan(begin, size), room.first(size)));
    begin += size;
  }
}

// Many rounds of full queues, in both directions at once.
TEST_P(NetworkLink, KeepsItsDepthOutstandingBothWays) {
  LinkPair pair(GetParam());
  ASSERT_TRUE(pair.connected);
  constexpr std::size_t kDepth = net::Link::kDepth, kBytes = 1024, kMessages = 10 * kDepth;
  struct Side {
    net::Link& link;
    Registered out, in;
    std::vector<CallRecord> records = std::vector<CallRecord>(kDepth);
    std::uint64_t sent = 0, offered = 0, seen = 0;
    bool wrong = false;

    static std::byte mark(std::uint64_t number) { return static_cast<std::byte>(number * 37 + 1); }
    void step() {
      for (; seen < offered && link.test({seen, false}).done; ++seen) {
        const auto got = std::span(in.bytes).subspan(seen % kDepth * kBytes, kBytes);
        wrong |= records[seen % kDepth].count != seen || got.front() != mark(seen) ||
                 got.back() != mark(seen);
      }
      for (; offered < kMessages && offered - seen < kDepth; ++offered)
        if (!link.irecv(records[offered % kDepth],
                        std::span(in.bytes).subspan(offered % kDepth * kBytes, kBytes), in.key))
          break;
      for (; sent < kMessages && (sent < kDepth || link.test({sent - kDepth, true}).done); ++sent) {
        const auto body = std::span(out.bytes).subspan(sent % kDepth * kBytes, kBytes);
        std::fill(body.begin(), body.end(), mark(sent));
        CallRecord record;
        record.count = sent;
        if (!link.isend(record, body, out.key)) break;
      }
    }
  };
  Side near{*pair.near,
            {*pair.near_network, Bytes(kDepth * kBytes)},
            {*pair.near_network, Bytes(kDepth * kBytes)}};
  Side far{*pair.far,
           {*pair.far_network, Bytes(kDepth * kBytes)},
           {*pair.far_network, Bytes(kDepth * kBytes)}};
  ASSERT_TRUE(pair.until([&] {
    near.step();
    far.step();
    return near.seen == kMessages && far.seen == kMessages;
  }));
  EXPECT_FALSE(near.wrong);
  EXPECT_FALSE(far.wrong);
}

TEST_P(NetworkLink, RefusesMoreMessagesThanItsDepth) {
  LinkPair pair(GetParam());
  ASSERT_TRUE(pair.connected);
  CallRecord record;
  for (std::uint64_t i = 0; i < net::Link::kDepth; ++i) {
    ASSERT_TRUE(pair.near->isend({}, {}, 0));
    ASSERT_TRUE(pair.far->irecv(record, {}, 0));
  }
  EXPECT_FALSE(pair.near->isend({}, {}, 0));
  EXPECT_FALSE(pair.far->irecv(record, {}, 0));
  const net::Request last{net::Link::kDepth - 1, false};
  ASSERT_TRUE(pair.until([&] { return pair.far->test(last).done; }));
  ASSERT_TRUE(pair.until([&] { return pair.near->test({last.number, true}).done; }));
  EXPECT_TRUE(pair.near->isend({}, {}, 0));
}

TEST_P(NetworkLink, AMessageLongerThanItsRoomEndsTheLinkAndWritesNothing) {
  LinkPair pair(GetParam());
  ASSERT_TRUE(pair.connected);
  Registered body(*pair.near_network, pattern(101, 1));
  Registered room(*pair.far_network, Bytes(200, std::byte{0x5a}));
  CallRecord record;
  ASSERT_TRUE(pair.near->isend({}, body.bytes, body.key));
  ASSERT_TRUE(pair.far->irecv(record, room.first(100), room.key));
  ASSERT_TRUE(pair.until([&] { return net::is_over(pair.far->state()); }));
  EXPECT_EQ(room.bytes, Bytes(200, std::byte{0x5a}));
  EXPECT_NE(pair.far->error().text.find("at most 100 fit"), std::string::npos)
      << pair.far->error().text;
  EXPECT_EQ(pair.far->state(), LinkState::kEnded);
}

TEST_P(NetworkLink, AFullReceiverHoldsTheSenderBack) {
  LinkPair pair(GetParam());
  ASSERT_TRUE(pair.connected);
  Registered body(*pair.near_network, pattern(1 << 20, 1));
  for (std::uint64_t i = 0; i < net::Link::kDepth; ++i)
    ASSERT_TRUE(pair.near->isend({}, body.bytes, body.key));
  for (int i = 0; i < 2000; ++i) pair.turn();
  EXPECT_FALSE(pair.near->test({net::Link::kDepth - 1, true}).done);
  Registered room(*pair.far_network, Bytes(1 << 20));
  CallRecord record;
  for (std::uint64_t i = 0; i < net::Link::kDepth; ++i) {
    const auto request = pair.far->irecv(record, room.bytes, room.key);
    ASSERT_TRUE(request);
    ASSERT_TRUE(pair.until([&] { return pair.far->test(*request).done; })) << i;
    ASSERT_EQ(room.bytes, body.bytes) << i;
    std::fill(room.bytes.begin(), room.bytes.end(), std::byte{0});
  }
  EXPECT_TRUE(pair.until([&] { return pair.near->test({net::Link::kDepth - 1, true}).done; }));
}

// One key names memory for every link of its network, opened before or after the registration.
TEST_P(NetworkLink, AKeyServesLinksThatOpenLater) {
  LinkPair pair(GetParam());
  ASSERT_TRUE(pair.connected);
  Registered room(*pair.far_network, Bytes(300));
  Registered body(*pair.near_network, pattern(100, 5));
  auto second = pair.near_network->connect({0, 1, net::kPutLane}, pair.far_address).value();
  std::unique_ptr<net::Link> accepted;
  CallRecord record;
  ASSERT_TRUE(second->isend({}, body.bytes, body.key));  // before the link is open
  ASSERT_TRUE(pair.near->isend({}, body.bytes, body.key));
  ASSERT_TRUE(pair.far->irecv(record, room.first(100), room.key));
  ASSERT_TRUE(pair.until([&] {
    second->progress();
    if (!accepted && (accepted = pair.far_network->accept())) {
      EXPECT_TRUE(accepted->irecv(record, std::span(room.bytes).subspan(150), room.key));
    }
    if (accepted) accepted->progress();
    return accepted && accepted->test({0, false}).done && pair.far->test({0, false}).done;
  }));
  EXPECT_TRUE(std::ranges::equal(room.first(100), body.bytes));
  EXPECT_TRUE(std::ranges::equal(std::span(room.bytes).subspan(150, 100), body.bytes));
}

TEST_P(NetworkLink, AKeyThatNamesNoSuchMemoryEndsTheLink) {
  for (const bool sending : {true, false}) {
    LinkPair pair(GetParam());
    ASSERT_TRUE(pair.connected);
    Registered some(*pair.near_network, Bytes(100));
    if (some.key == 0) GTEST_SKIP() << "a network without keys";
    const net::MemoryKey gone = Registered(*pair.near_network, Bytes(100)).key;
    Bytes other(100);
    CallRecord record;
    (void)(sending ? pair.near->isend({}, other, some.key)
                   : pair.near->irecv(record, some.bytes, gone));
    ASSERT_TRUE(pair.until([&] { return net::is_over(pair.near->state()); }));
    EXPECT_NE(pair.near->error().text.find("key"), std::string::npos) << pair.near->error().text;
    EXPECT_TRUE(pair.until([&] { return net::is_over(pair.far->state()); }));
  }
}

// test() reports a message as received only when the owner of the memory can see the data.
TEST_P(NetworkLink, ADevicesOwnerSeesWhatIsDone) {
  LinkPair pair(GetParam());
  ASSERT_TRUE(pair.connected);
  constexpr auto kDevice = net::Memory::Kind::kDevice;
  if (!pair.far_network->takes(kDevice)) {
    EXPECT_FALSE(pair.far_network->register_memory({{}, kDevice}).ok());
    GTEST_SKIP() << "takes no device memory";
  }
  Registered body(*pair.near_network, pattern(50000, 1), kDevice);
  Registered room(*pair.far_network, Bytes(50000), kDevice);
  CallRecord record;
  ASSERT_TRUE(pair.near->isend({}, body.bytes, body.key));
  ASSERT_TRUE(pair.far->irecv(record, room.bytes, room.key));
  ASSERT_TRUE(pair.until([&] { return pair.far->test({0, false}).done; }));
  EXPECT_EQ(room.bytes, body.bytes);
}

TEST_P(NetworkLink, WorksOverIp6) {
  LinkPair pair(GetParam(), "::1");
  EXPECT_TRUE(pair.connected);
}

TEST_P(NetworkLink, RefusesAddressesThatAreNone) {
  EXPECT_FALSE(GetParam().at()->connect({0, 1, 0}, pattern(9, 9)).ok());
}

TEST_P(NetworkLink, ListensAtOnePlaceHoweverOftenItIsAsked) {
  const auto network = GetParam().at();
  const Bytes first = network->listen().value();
  EXPECT_EQ(network->listen().value(), first);
}

INSTANTIATE_TEST_SUITE_P(Every, NetworkLink, testing::ValuesIn(network_kinds()), kNameOfKind);

}  // namespace
}  // namespace rondo::test
