// SPDX-License-Identifier: Apache-2.0
// The bytes of links are counted by port and host of the peer, and none is lost where there are
// more of both than entries.
#include "transport/net/remote_peer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <string>

namespace rondo::net {
namespace {

struct FakeLink : Link {
  const LinkName& name() const override { return name_; }
  std::optional<Request> isend(const CallRecord&, std::span<const std::byte>, MemoryKey,
                               std::uint32_t) override {
    return std::nullopt;
  }
  std::optional<Request> irecv(CallRecord&, std::span<std::byte>, MemoryKey) override {
    return std::nullopt;
  }
  Completion test(Request) const override { return {}; }
  bool progress() override { return false; }
  LinkState state() const override { return now; }
  const Error& error() const override { return *error_; }
  void close() override {}
  std::span<const RailTraffic> rails() const override { return traffic; }
  std::string_view port() const override { return port_name; }

  std::vector<RailTraffic> traffic;
  std::string port_name;
  LinkState now = LinkState::kOpen;

 private:
  LinkName name_{};
  std::optional<Error> error_;
};

class RailCounts : public testing::Test {
 protected:
  std::array<RailCounters, kCountedRails> counters_{};
};

TEST_F(RailCounts, OfALinkThatCountsAreThoseOfItsPorts) {
  FakeLink link;
  CountedRails counted;
  link.traffic = {{"mlx5_0:1", 100, 10, 5, 1}, {"mlx5_1:1", 0, 0, 0, 0}};
  add_rails(counters_, counted, link, {}, {3, "IB"});
  EXPECT_EQ(counters_[1].port[0], 0) << "a port without traffic has no entry";
  link.traffic[0] = {"mlx5_0:1", 150, 30, 9, 2};
  link.traffic[1] = {"mlx5_1:1", 50, 0, 4, 1};
  add_rails(counters_, counted, link, {.sent_bytes = 1000}, {3, "IB"});
  CountedRails of_other;
  FakeLink other;
  other.traffic = {{"mlx5_0:1", 7, 0, 1, 1}};
  add_rails(counters_, of_other, other, {}, {3, "IB"});
  EXPECT_EQ(std::string(counters_[0].port), "mlx5_0:1");
  EXPECT_EQ(counters_[0].host, 3);
  EXPECT_EQ(counters_[0].sent_bytes, 157u) << "of both links";
  EXPECT_EQ(counters_[0].received_bytes, 30u);
  EXPECT_EQ(counters_[0].busy_ns, 10u);
  EXPECT_EQ(counters_[0].parts, 3u);
  EXPECT_EQ(std::string(counters_[1].port), "mlx5_1:1");
  EXPECT_EQ(counters_[1].sent_bytes, 50u);
}

TEST_F(RailCounts, OfALinkThatDoesNotCountAreWhatItMoved) {
  FakeLink link;
  CountedRails counted;
  link.now = LinkState::kOpening;  // messages are posted already
  add_rails(counters_, counted, link, {.sent_bytes = 1000}, {0, "Socket"});
  EXPECT_EQ(counters_[0].port[0], 0);
  link.now = LinkState::kOpen;
  link.port_name = "eth0";
  for (int i = 0; i < 3; ++i)
    add_rails(counters_, counted, link, {.sent_bytes = 5, .received_bytes = 6}, {0, "Socket"});
  EXPECT_EQ(std::string(counters_[0].port), "eth0");
  EXPECT_EQ(counters_[0].sent_bytes, 1015u);
  EXPECT_EQ(counters_[0].received_bytes, 18u);
  FakeLink unknown;
  CountedRails of_unknown;
  add_rails(counters_, of_unknown, unknown, {.sent_bytes = 9}, {0, "UCX"});
  EXPECT_EQ(std::string(counters_[1].port), "UCX");
}

TEST_F(RailCounts, LoseNothingWhereThereAreMorePortsAndHostsThanEntries) {
  for (int host = 0; host < 20; ++host)
    for (int port = 0; port < 20; ++port) {
      FakeLink link;
      link.port_name = fmt::format("{}_a_very_long_name_of_a_port", port);
      CountedRails counted;
      add_rails(counters_, counted, link, {.sent_bytes = 1}, {host, "Socket"});
    }
  const auto all = std::accumulate(
      counters_.begin(), counters_.end(), std::uint64_t{0},
      [](std::uint64_t sum, const RailCounters& one) { return sum + one.sent_bytes; });
  EXPECT_EQ(all, 400u);
  EXPECT_EQ(counters_[0].host, 0);
  EXPECT_EQ(counters_.back().host, -1);
  for (const RailCounters& one : counters_) EXPECT_EQ(one.port[sizeof(one.port) - 1], 0);
}

}  // namespace
}  // namespace rondo::net
