// SPDX-License-Identifier: Apache-2.0
// The port and the GID that a rank uses.
#include "transport/verbs/devices.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/environment.h"

namespace rondo::verbs {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Port port(const std::string& device, int number = 1, bool active = true) {
  Port one{.device = device, .number = number, .active = active};
  one.state = active ? "ACTIVE" : "DOWN";
  one.gids.push_back({.bytes = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1}});
  return one;
}

const std::vector<Port> kPorts = {port("mlx5_0"),  port("mlx5_1"), port("mlx5_1", 2),
                                  port("mlx5_10"), port("rxe0"),   port("rxe1", 1, false)};

std::vector<std::string> names(std::string_view hca) {
  const auto chosen = choose_ports(kPorts, hca);
  std::vector<std::string> found;
  if (!chosen.ok()) return {chosen.error().text};
  for (const Port& each : *chosen) found.push_back(each.name());
  return found;
}

TEST(RdmaChoice, TakesAllUsablePortsWhereNothingIsAsked) {
  EXPECT_THAT(names(""), ElementsAre("mlx5_0:1", "mlx5_1:1", "mlx5_1:2", "mlx5_10:1", "rxe0:1"));
  EXPECT_THAT(names("^"), testing::SizeIs(5));
}

TEST(RdmaChoice, FollowsPrefixesExactNamesPortsAndExclusion) {
  EXPECT_THAT(names("mlx5_1"), ElementsAre("mlx5_1:1", "mlx5_1:2", "mlx5_10:1"));
  EXPECT_THAT(names("=mlx5_1"), ElementsAre("mlx5_1:1", "mlx5_1:2"));
  EXPECT_THAT(names("=mlx5_1:2,rxe0"), ElementsAre("mlx5_1:2", "rxe0:1"));
  EXPECT_THAT(names("mlx5_1:2"), ElementsAre("mlx5_1:2"));
  EXPECT_THAT(names("^mlx5_1"), ElementsAre("mlx5_0:1", "rxe0:1"));
  EXPECT_THAT(names("^=mlx5_1:1,rxe0"), ElementsAre("mlx5_0:1", "mlx5_1:2", "mlx5_10:1"));
  EXPECT_THAT(names("mlx5_0:1:3:1"), ElementsAre("mlx5_0:1"));  // rail and plane
  EXPECT_THAT(names("^nothing"), testing::SizeIs(5));
}

TEST(RdmaChoice, ANameThatFitsNothingIsAnErrorThatListsThoseThereAre) {
  const auto chosen = choose_ports(kPorts, "mlx5_0,bnxt");
  ASSERT_FALSE(chosen.ok());
  EXPECT_THAT(chosen.error().text, HasSubstr("'mlx5_0,bnxt': bnxt fits none"));
  EXPECT_THAT(chosen.error().text, HasSubstr("mlx5_10:1 (RoCE, ACTIVE)"));
  EXPECT_FALSE(choose_ports(kPorts, "mlx5_0:2").ok());
  for (const char* text : {",", "mlx5_0,,rxe0", "mlx5_0:x", "mlx5_0:0", "mlx5_0:256", ":1"})
    EXPECT_FALSE(choose_ports(kPorts, text).ok()) << text;
}

TEST(RdmaChoice, WithNothingUsableLeftReportsWhyTheFirstIsNot) {
  const auto down = choose_ports(kPorts, "rxe1");
  ASSERT_FALSE(down.ok());
  EXPECT_THAT(down.error().text, HasSubstr("rxe1:1 is DOWN"));
  const auto none = choose_ports({}, "");
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.error().text, HasSubstr("no RDMA device"));
  const auto excluded = choose_ports(kPorts, "^mlx5,rxe");
  ASSERT_FALSE(excluded.ok());
  EXPECT_THAT(excluded.error().text, HasSubstr("excludes all"));
}

Gid gid(int index, bool v2, std::array<std::uint8_t, 16> bytes) { return {index, bytes, v2}; }
constexpr std::array<std::uint8_t, 16> kIpv4 = {0, 0, 0,    0,    0,  0, 0, 0,
                                                0, 0, 0xff, 0xff, 10, 0, 0, 1};
constexpr std::array<std::uint8_t, 16> kIpv6 = {0xfd, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
constexpr std::array<std::uint8_t, 16> kLocal = {0xfe, 0x80, 0, 0, 0, 0, 0, 0,
                                                 0,    0,    0, 0, 0, 0, 0, 1};

TEST(RdmaChoice, PrefersRoceV2AndIpv4AndTakesLinkLocalOnlyWhereNothingElseIs) {
  Port of{.device = "mlx5_0"};
  const auto best = [&] { return choose_gid(of, -1)->index; };
  of.gids = {gid(0, false, kLocal)};
  EXPECT_EQ(best(), 0);
  of.gids.push_back(gid(1, true, kLocal));
  EXPECT_EQ(best(), 1);
  of.gids.push_back(gid(2, false, kIpv6));
  EXPECT_EQ(best(), 2);
  of.gids.push_back(gid(3, false, kIpv4));
  EXPECT_EQ(best(), 3);
  of.gids.push_back(gid(4, true, kIpv6));
  EXPECT_EQ(best(), 4);
  of.gids.push_back(gid(5, true, kIpv4));
  EXPECT_EQ(best(), 5);
  of.gids.push_back(gid(6, true, kIpv4));  // of equals, the first
  EXPECT_EQ(best(), 5);
  of.ethernet = false;
  EXPECT_EQ(best(), 0);
}

TEST(RdmaChoice, AGidThatIsAskedForMustBeThere) {
  Port of{.device = "mlx5_0"};
  of.gids = {gid(0, false, kLocal), gid(3, true, kIpv4)};
  EXPECT_EQ(choose_gid(of, 0)->index, 0);
  const auto missing = choose_gid(of, 2);
  ASSERT_FALSE(missing.ok());
  EXPECT_THAT(missing.error().text, HasSubstr("GID 2 of mlx5_0:1"));
  EXPECT_THAT(missing.error().text, HasSubstr("3 (10.0.0.1, RoCE v2)"));
  of.gids.clear();
  EXPECT_FALSE(choose_gid(of, -1).ok());
}

TEST(RdmaChoice, RanksUseTheNearestPortsThereAreFromTheirTurnOn) {
  std::vector<Port> ports = {port("a"), port("b"), port("c"), port("d")};
  ports[3].number = 2;
  topology::NearNics near;
  near.tiers = {{topology::PathClass::kPix, {{"down", 1}, {"a", 2}}, 0},
                {topology::PathClass::kPxb, {{"c", 1}, {"d", 1}, {"d", 2}}, 1},
                {topology::PathClass::kSys, {{"a", 0}, {"b", 0}}, 0}};
  near.turn = 4;
  const auto nearest = [&] {
    std::string devices;
    for (const Port& each : nearest_ports(ports, near)) devices += each.device;
    return devices;
  };
  EXPECT_EQ(nearest(), "dc");
  near.tiers[1].turn = 2;
  EXPECT_EQ(nearest(), "cd");
  ports.resize(2);
  EXPECT_EQ(nearest(), "ab");
  near.tiers.clear();
  for (const char* more : {"c", "d", "e", "f"}) ports.push_back(port(more));
  EXPECT_EQ(nearest(), "efab") << "unknown: all, four at most";
}

TEST(RdmaChoice, SoftwareIsNotWorthItWhereNobodyAsksForIt) {
  std::vector<Port> ports = {port("rxe0"), port("mlx5_0"), port("rxe1")};
  ports[0].software = ports[2].software = true;
  const auto left = worth_it(ports, 64 << 20);
  ASSERT_TRUE(left.ok());
  ASSERT_THAT(*left, testing::SizeIs(1));
  EXPECT_EQ(left->front().device, "mlx5_0");
  ports.erase(ports.begin() + 1);
  const auto locked = worth_it(ports, (64 << 20) - 1);
  ASSERT_FALSE(locked.ok());
  EXPECT_THAT(locked.error().text, HasSubstr("may lock 67108863 bytes"));
  const auto none = worth_it(ports, 64 << 20);
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.error().text, HasSubstr("only soft-RoCE (rxe0:1"));
  EXPECT_THAT(none.error().text, HasSubstr("NCCL_NET=IB"));
}

TEST(RdmaChoice, RailsJoinPortsOfEqualNumbersAndOfOneKind) {
  LinkEnd theirs;
  for (const int number : {2, 0, 1})
    theirs.rails.push_back({.number = static_cast<std::uint8_t>(number),
                            .rings = 1,
                            .rings_key = 1,
                            .pairs = {Endpoint{}}});
  std::vector<Port> own = {port("a"), port("b"), port("c")};
  const auto matched = [&] {
    std::string text;
    for (const RailMatch& match : match_rails(theirs, own))
      text += fmt::format("{}-{} ", match.theirs, match.own);
    return text;
  };
  own[0].rail = 1, own[1].rail = 7, own[2].rail = 2;
  EXPECT_EQ(matched(), "0-2 2-0 ");
  own[2].ethernet = false;
  EXPECT_EQ(matched(), "2-0 ");
  for (int i = 0; i < 3; ++i) own[static_cast<std::size_t>(i)].rail = 10 + i;
  EXPECT_EQ(matched(), "0-0 1-1 ");
  theirs.rails.resize(1);
  EXPECT_EQ(matched(), "0-0 ");
  own[0].ethernet = false;
  EXPECT_EQ(matched(), "");
}

TEST(RdmaChoice, PortsKeepTheNumberOfTheirRailWhereOthersAreDown) {
  const std::vector<Port> ports = {port("a"), port("b", 1, false), port("c"), port("d")};
  const auto chosen = choose_ports(ports, "^a");
  ASSERT_TRUE(chosen.ok());
  ASSERT_THAT(*chosen, testing::SizeIs(2));
  EXPECT_EQ(chosen->at(0).rail, 1);
  EXPECT_EQ(chosen->at(1).rail, 2);
}

TEST(RdmaOptions, OutOfTheirRangeAreErrorsWithNameValueAndWhatIsUsual) {
  const test::WithEnvironment hca("NCCL_IB_HCA", "=mlx5_2");
  {
    const test::WithEnvironment timeout("NCCL_IB_TIMEOUT", "22");
    const auto options = Options::from_environment();
    ASSERT_TRUE(options.ok());
    EXPECT_EQ(options->hca, "=mlx5_2");
    EXPECT_EQ(options->timeout, 22);
    EXPECT_EQ(options->retries, 7);
    EXPECT_EQ(options->gid_index, -1);
  }
  const std::pair<const char*, const char*> wrong[] = {
      {"NCCL_IB_TIMEOUT", "32"},   {"NCCL_IB_TIMEOUT", "-1"},
      {"NCCL_IB_RETRY_CNT", "8"},  {"NCCL_IB_TC", "256"},
      {"NCCL_IB_SL", "16"},        {"NCCL_IB_QPS_PER_CONNECTION", "0"},
      {"NCCL_IB_GID_INDEX", "-2"}, {"NCCL_IB_PCI_RELAXED_ORDERING", "3"}};
  for (const auto& [name, value] : wrong) {
    const test::WithEnvironment set(name, value);
    const auto options = Options::from_environment();
    ASSERT_FALSE(options.ok()) << name;
    EXPECT_THAT(options.error().text, HasSubstr(std::string(name) + "=" + value));
    EXPECT_THAT(options.error().text, HasSubstr("usual is"));
  }
}

}  // namespace
}  // namespace rondo::verbs
