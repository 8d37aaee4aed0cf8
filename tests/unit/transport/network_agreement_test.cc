// SPDX-License-Identifier: Apache-2.0
// How ranks agree on a network: their requests, their offers, and the rule.
#include "transport/networks/network_agreement.h"

#include <gtest/gtest.h>

#include "tests/unit/transport/net/turns.h"

namespace rondo::test {
namespace {

NetworkOffer there(const char* name) { return {name, "", pattern(20, 1)}; }
NetworkOffer lacking(const char* name, const char* why) { return {name, why, {}}; }

TEST(NetworkAgreement, TakesWhatOneRankAsksForAndRefusesTwo) {
  EXPECT_EQ(asked_network(std::vector<std::string>{"", ""}).value().name, "");
  const auto one = asked_network(std::vector<std::string>{"", "ib", "", "IB"});
  ASSERT_TRUE(one.ok());
  EXPECT_EQ(one->name, "ib");
  EXPECT_EQ(one->rank, 1);
  const auto two = asked_network(std::vector<std::string>{"", "IB", "So\ncket"});
  ASSERT_FALSE(two.ok());
  EXPECT_EQ(two.code(), StatusCode::kInvalidUsage);
  EXPECT_EQ(two.error().text,
            "rank 1 asks for network 'IB', rank 2 for 'So\\ncket' (NCCL_NET or netName): give all "
            "ranks the same");
}

TEST(NetworkAgreement, OneHostNeedsNoneButForANetworkThatMayBeMissing) {
  EXPECT_FALSE(needs_agreement({}, 1));
  EXPECT_FALSE(needs_agreement({"socket", 0}, 1));
  EXPECT_TRUE(needs_agreement({"IB", 0}, 1));
  EXPECT_TRUE(needs_agreement({}, 2));
}

TEST(NetworkAgreement, TheFirstThatAllHaveIsTaken) {
  const std::vector<NetworkOffers> all = {{there("A"), there("B"), there("Socket")},
                                          {there("Socket"), lacking("A", "no port"), there("b")}};
  EXPECT_EQ(choose_network({}, all).value(), "B");
  EXPECT_EQ(choose_network({}, std::vector{all[0], {there("Socket")}}).value(), "Socket");
  EXPECT_EQ(choose_network({"socket", 1}, all).value(), "Socket");
}

TEST(NetworkAgreement, ARankThatLacksWhatIsAskedForIsNamedWithItsReason) {
  const std::vector<NetworkOffers> all = {{there("A"), there("Socket")},
                                          {lacking("A", "port 1 is down"), there("Socket")}};
  const auto refused = choose_network({"A", 0}, all);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.code(), StatusCode::kInvalidUsage);
  EXPECT_EQ(refused.error().text,
            "network 'A', which rank 0 asks for (NCCL_NET or netName), cannot be used on rank 1: "
            "port 1 is down");
}

// A plugin that a variable names counts like a request by name. If it cannot be used, that error is
// reported first: a plugin that one rank could not load has no network name there.
TEST(NetworkAgreement, APluginThatOneRanksVariableNamesIsAskedFor) {
  const auto by_variable = [](NetworkOffer offer) {
    offer.by_plugin_variable = true;
    return offer;
  };
  const NetworkOffers has = {by_variable(there("X")), there("Socket")};
  const NetworkOffers found = {there("X"), there("Socket")}, has_not = {there("Socket")};
  EXPECT_EQ(choose_network({}, std::vector{found, has}).value(), "X");
  EXPECT_EQ(choose_network({"Socket", 0}, std::vector{found, has}).value(), "Socket");
  const auto why = [](const std::vector<NetworkOffers>& all) {
    const auto refused = choose_network({}, all);
    EXPECT_EQ(refused.code(), StatusCode::kInvalidUsage);
    return refused.ok() ? "" : refused.error().text;
  };
  EXPECT_EQ(why({has_not, has}),
            "network 'X', which rank 1 asks for (NCCL_NET_PLUGIN), cannot be used on rank 0: it "
            "has none of that name");
  EXPECT_EQ(why({has, {by_variable(lacking("/x.so", "not there")), there("Socket")}}),
            "network '/x.so', which rank 1 asks for (NCCL_NET_PLUGIN), cannot be used on rank 1: "
            "not there");
  EXPECT_EQ(why({has, {by_variable(there("Y")), there("Socket")}}),
            "rank 0 asks for network 'X', rank 1 for 'Y' (NCCL_NET_PLUGIN): give all ranks the "
            "same");
}

TEST(NetworkAgreement, OffersAreReadBackAndNothingElseIs) {
  NetworkOffers offers = {there("A"), lacking("B", "no device")};
  offers[1].by_plugin_variable = true;
  const Bytes bytes = encode(offers);
  EXPECT_EQ(decode_offers(bytes, 3).value(), offers);
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_FALSE(decode_offers(std::span(bytes).first(length), 3).ok());
  Bytes longer = bytes;
  longer.push_back({});
  EXPECT_FALSE(decode_offers(longer, 3).ok());
  EXPECT_FALSE(decode_offers(encode({{"A", "both", Bytes(1)}}), 3).ok());
  EXPECT_FALSE(decode_offers(encode({{"A", "", {}}}), 3).ok());
  EXPECT_FALSE(decode_offers(encode({{std::string(65, 'a'), "", Bytes(1)}}), 3).ok());
  EXPECT_FALSE(decode_offers(encode(NetworkOffers(17, there("A"))), 3).ok());
  EXPECT_FALSE(decode_offers(encode({{"A", "", Bytes(4097)}}), 3).ok());
  EXPECT_FALSE(decode_offers(encode({{"A", std::string(513, 'a'), {}}}), 3).ok());
}

TEST(OpenNetwork, TakesTheOneThatIsNamedInWhateverCase) {
  EXPECT_EQ(open_network("socket", {}).value()->name(), "Socket");
}

TEST(OpenNetwork, NamesThoseThatThereAreWhereThereIsNoneOfThatName) {
  const auto none = open_network("IB", {});
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.code(), StatusCode::kInvalidUsage);
  EXPECT_NE(none.error().text.find("Socket"), std::string::npos) << none.error().text;
}

}  // namespace
}  // namespace rondo::test
