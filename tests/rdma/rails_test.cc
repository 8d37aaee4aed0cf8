// SPDX-License-Identifier: Apache-2.0
// Links of two rails, one or both of which are lost meanwhile.
#include <gmock/gmock.h>

#include <functional>
#include <random>

#include "tests/rdma/ends.h"
#include "tests/rdma/wires.h"
#include "tests/unit/transport/net/networks.h"
#include "transport/verbs/ibverbs/verbs_network.h"

namespace rondo::test {
namespace {

using net::LinkState;
using testing::HasSubstr;

const NetworkKind* two_rails() {
  for (const NetworkKind& kind : network_kinds())
    if (std::string(kind.name) == "TwoRails") return &kind;
  return nullptr;
}

// Devices that retry a dead peer without limit: only the time without progress shows its death.
NetworkKind of_endless_retries(int seconds) {
  NetworkKind kind = *two_rails();
  kind.open = [seconds](net::PortOptions options) -> std::unique_ptr<net::Network> {
    verbs::NetworkOptions wanted{std::move(options)};
    wanted.verbs.timeout = 14;
    wanted.verbs.retries = 7;
    wanted.verbs.hca = wanted.rank == 0 ? "=rxe0,rxe2" : "=rxe1,rxe3";
    wanted.vigilance.seconds = seconds;
    return verbs::VerbsNetwork::open(std::move(wanted)).value();
  };
  return kind;
}

// Each rail carries up to five parts of a message.
NetworkKind of_many_pairs() {
  NetworkKind kind = *two_rails();
  kind.open = [](net::PortOptions options) -> std::unique_ptr<net::Network> {
    verbs::NetworkOptions wanted{std::move(options)};
    wanted.verbs = verbs::quick_to_fail();
    wanted.verbs.queue_pairs = 8;
    wanted.verbs.hca = wanted.rank == 0 ? "=rxe0,rxe2" : "=rxe1,rxe3";
    return verbs::VerbsNetwork::open(std::move(wanted)).value();
  };
  return kind;
}

// One direction of a link: messages of many sizes, as many in flight as fit, into buffers that are
// reused. What arrives must be what was sent, in order.
class Stream {
 public:
  Stream(net::Network& from, net::Network& to, unsigned seed) : seed_(seed) {
    for (std::size_t i = 0; i < kRooms; ++i) {
      bodies_.push_back(std::make_unique<Registered>(from, Bytes(kMax)));
      rooms_.push_back(std::make_unique<Registered>(to, Bytes(kMax)));
    }
  }
  void turn(net::Link& from, net::Link& to) {
    while (taken_ < sent_ && from.test({taken_, true}).done) ++taken_;
    while (sent_ < wanted_ && sent_ - taken_ < kRooms) {
      Registered& body = *bodies_[sent_ % kRooms];
      const Bytes content = of(sent_);
      std::copy(content.begin(), content.end(), body.bytes.begin());
      if (!from.isend({}, body.first(content.size()), body.key, tag_of(sent_))) break;
      ++sent_;
    }
    while (offered_ < wanted_ && offered_ - received_ < kRooms) {
      Registered& room = *rooms_[offered_ % kRooms];
      std::fill(room.bytes.begin(), room.bytes.end(), std::byte{0xee});
      if (!to.irecv(records_[offered_ % kRooms], room.bytes, room.key)) break;
      ++offered_;
    }
    while (received_ < offered_) {
      const auto came = to.test({received_, false});
      if (!came.done) break;
      const Bytes wanted = of(received_);
      const auto got = rooms_[received_ % kRooms]->first(came.bytes);
      right_ = right_ && came.tag == tag_of(received_) && std::ranges::equal(got, wanted);
      ++received_;
    }
  }
  void want(std::uint64_t more) { wanted_ = sent_ + more; }  // beyond those already sent
  bool finished() const { return received_ == wanted_ && taken_ == wanted_; }
  std::uint64_t received() const { return received_; }
  bool right() const { return right_; }

 private:
  static constexpr std::size_t kRooms = 16, kMax = 300'000;
  std::uint32_t tag_of(std::uint64_t number) const {
    return static_cast<std::uint32_t>(number * 7 + seed_);
  }
  Bytes of(std::uint64_t number) const {
    std::mt19937 random(static_cast<unsigned>(number) * 131 + seed_);
    const std::size_t sizes[] = {0, 8, 4096, 65'536, 131'072, random() % kMax};
    return pattern(sizes[random() % std::size(sizes)] / 8 * 8, random());
  }
  const unsigned seed_;
  std::vector<std::unique_ptr<Registered>> bodies_, rooms_;
  std::array<CallRecord, kRooms> records_;
  std::uint64_t wanted_ = 0, sent_ = 0, taken_ = 0, offered_ = 0, received_ = 0;
  bool right_ = true;
};

class Rails : public testing::Test {
 protected:
  void SetUp() override {
    if (two_rails() == nullptr) GTEST_SKIP() << "no two wires: tests/rdma/guest.sh --wires 2";
    join(*two_rails());
  }
  void join(const NetworkKind& kind) {
    there_.reset();
    back_.reset();
    link_ = std::make_unique<LinkPair>(kind);
    ASSERT_TRUE(link_->connected);
    there_ = std::make_unique<Stream>(*link_->near_network, *link_->far_network, 1);
    back_ = std::make_unique<Stream>(*link_->far_network, *link_->near_network, 2);
  }
  bool until(const std::function<bool()>& holds) {
    const auto turn = [&] {
      there_->turn(*link_->near, *link_->far);
      back_->turn(*link_->far, *link_->near);
      link_->turn();
    };
    return drive(turn, [&] { return holds() || !there_->right() || !back_->right(); });
  }
  bool over() const {
    return net::is_over(link_->near->state()) || net::is_over(link_->far->state());
  }
  // Messages both ways; `cut` runs while messages are in flight.
  template <class Cut>
  void stream_through(Cut&& cut) {
    there_->want(1000);
    back_->want(1000);
    ASSERT_TRUE(until([&] { return there_->received() >= 20 && back_->received() >= 10; }));
    const auto broken = cut();
    ASSERT_TRUE(broken->is_cut());
    there_->want(30);
    back_->want(30);
    ASSERT_TRUE(until([&] { return (there_->finished() && back_->finished()) || over(); }));
    expect_all();
  }
  void expect_all() {
    EXPECT_FALSE(over()) << (net::is_over(link_->near->state()) ? link_->near->error().text
                                                                : link_->far->error().text);
    EXPECT_TRUE(there_->right() && back_->right());
    EXPECT_TRUE(there_->finished() && back_->finished());
  }
  std::unique_ptr<LinkPair> link_;
  std::unique_ptr<Stream> there_, back_;
};

TEST_F(Rails, CountWhatGoesOverEachPort) {
  there_->want(200);
  back_->want(200);
  ASSERT_TRUE(until([&] { return (there_->finished() && back_->finished()) || over(); }));
  expect_all();
  const auto near = link_->near->rails(), far = link_->far->rails();
  ASSERT_EQ(near.size(), 2u);
  EXPECT_EQ(near[0].port, "rxe0:1");
  EXPECT_EQ(near[1].port, "rxe2:1");
  EXPECT_EQ(far[0].port, "rxe1:1");
  const auto sum = [](std::span<const net::RailTraffic> rails,
                      std::uint64_t net::RailTraffic::*what) {
    return rails[0].*what + rails[1].*what;
  };
  EXPECT_EQ(sum(near, &net::RailTraffic::sent_bytes), sum(far, &net::RailTraffic::received_bytes));
  EXPECT_EQ(sum(far, &net::RailTraffic::sent_bytes), sum(near, &net::RailTraffic::received_bytes));
  for (const net::RailTraffic& rail : near) {
    EXPECT_GT(rail.sent_bytes, 0u);
    EXPECT_GT(rail.received_bytes, 0u);
    EXPECT_GT(rail.busy_ns, 0u);
    EXPECT_GT(rail.parts, 0u);
  }
}

TEST_F(Rails, AWireThatGoesDownInTheMiddleCostsNoMessage) {
  for (const int wire : {0, 1}) {
    join(*two_rails());
    stream_through([&] { return std::make_unique<verbs::WireDown>(wire); });
    if (HasFatalFailure()) return;
  }
}

TEST_F(Rails, AWireThatLosesEverythingCostsNoMessage) {
  for (const int wire : {0, 1}) {
    join(*two_rails());
    stream_through([&] { return std::make_unique<verbs::WireSilent>(wire); });
    if (HasFatalFailure()) return;
  }
}

// When the rail is lost, some parts of many messages have arrived over it and others have not;
// which ones differs in every round.
TEST_F(Rails, PartsThatHadArrivedByALostRailAreNotSentAgain) {
  for (int round = 0; round < 3; ++round) {
    const verbs::WireThat slow(0, "rate 50mbit");
    ASSERT_TRUE(slow.is_cut());
    join(of_many_pairs());
    stream_through([&] {
      const auto by_then = Clock::now() + std::chrono::milliseconds(50);
      EXPECT_TRUE(until([&] { return Clock::now() > by_then; }));
      return std::make_unique<verbs::WireDown>(0);
    });
    if (HasFatalFailure()) return;
  }
}

TEST_F(Rails, WhereTheDeviceReportsNothingTheRemainderShowsIt) {
  join(of_endless_retries(3));
  stream_through([&] { return std::make_unique<verbs::WireSilent>(0); });
}

// Only new links use a rail that has recovered.
TEST_F(Rails, AWireThatComesBackIsNotUsedAgainByTheSameLink) {
  stream_through([&] {
    auto down = std::make_unique<verbs::WireDown>(0);
    EXPECT_TRUE(until([&] { return there_->received() >= 40 && back_->received() >= 40; }));
    EXPECT_TRUE(down->whole_again());
    return std::make_unique<verbs::WireSilent>(0);
  });
}

TEST_F(Rails, WithBothWiresGoneBothEndsEndWithWhatTheyKnow) {
  there_->want(1000);
  back_->want(1000);
  ASSERT_TRUE(until([&] { return there_->received() >= 5; }));
  const verbs::WireSilent first(0);
  const verbs::WireSilent second(1);
  ASSERT_TRUE(first.is_cut() && second.is_cut());
  ASSERT_TRUE(until(
      [&] { return net::is_over(link_->near->state()) && net::is_over(link_->far->state()); }));
  EXPECT_TRUE(there_->right() && back_->right());
  const auto& near = link_->near->error();
  const auto& far = link_->far->error();
  EXPECT_EQ(near.code, StatusCode::kRemoteError);
  EXPECT_EQ(far.code, StatusCode::kRemoteError);
  // One end detects the loss; the other may detect it or be closed by its peer.
  const bool near_first = near.text.find("RDMA port") != std::string::npos;
  const std::string& text = near_first ? near.text : far.text;
  const int own = near_first ? 0 : 1;
  EXPECT_THAT(text,
              HasSubstr(fmt::format("the connection of rank {} to rank {} (127.", own, 1 - own)));
  for (int wire = 0; wire < 2; ++wire) {
    EXPECT_THAT(text, HasSubstr(fmt::format("RDMA port rxe{}:1 (10.77.{}.{})", 2 * wire + own, wire,
                                            own + 1)));
    EXPECT_THAT(text, HasSubstr(fmt::format(" to 10.77.{}.{}, queue pair ", wire, 2 - own)));
  }
}

}  // namespace
}  // namespace rondo::test
