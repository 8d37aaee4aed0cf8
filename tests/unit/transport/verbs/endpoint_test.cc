// SPDX-License-Identifier: Apache-2.0
// The description of a queue pair: decoding returns what was encoded, and refuses everything else.
#include "transport/verbs/endpoint.h"
#include "transport/verbs/devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

namespace rondo::verbs {
namespace {

Endpoint roce() {
  Endpoint endpoint{.queue_pair = 17, .packet = 0xffffff, .mtu = 4096};
  endpoint.gid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 77, 0, 1};
  return endpoint;
}
Endpoint infiniband() {
  return {.ethernet = false, .lid = 0xbfff, .queue_pair = 0xffffff, .packet = 0, .mtu = 256};
}

TEST(RdmaEndpoint, IsReadAsItWasWritten) {
  for (const Endpoint& endpoint : {roce(), infiniband()}) {
    const auto again = parse_endpoint(serialize(endpoint));
    ASSERT_TRUE(again.ok()) << again.error().text;
    EXPECT_EQ(*again, endpoint);
  }
  EXPECT_EQ(address_text(roce()), "10.77.0.1");
  EXPECT_EQ(address_text(infiniband()), "lid 49151");
}

TEST(RdmaEndpoint, OfAnyOtherLengthOrBuildIsRefused) {
  const Bytes whole = serialize(roce());
  for (std::size_t length = 0; length < whole.size(); ++length)
    EXPECT_FALSE(parse_endpoint(ByteSpan(whole).first(length)).ok()) << length;
  Bytes longer = whole;
  longer.push_back({});
  EXPECT_FALSE(parse_endpoint(longer).ok());
  for (std::size_t at = 0; at < 5; ++at) {
    Bytes other = whole;
    other[at] ^= std::byte{0x40};
    const auto parsed = parse_endpoint(other);
    ASSERT_FALSE(parsed.ok()) << at;
    EXPECT_THAT(parsed.error().text, testing::HasSubstr("same build"));
  }
}

TEST(RdmaEndpoint, WithANumberOutOfItsRangeIsRefused) {
  std::vector<Endpoint> wrong(9, roce());
  wrong[0].gid = {};
  wrong[1].lid = 1;
  wrong[2].queue_pair = 0;
  wrong[3].queue_pair = 1 << 24;
  wrong[4].packet = 1 << 24;
  wrong[5].mtu = 1500;
  wrong[6].mtu = 8192;
  wrong[7].mtu = 128;
  wrong[8].mtu = 0;
  wrong.insert(wrong.end(), 2, infiniband());
  wrong[9].lid = 0;
  wrong[10].lid = 0xc000;
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    const auto parsed = parse_endpoint(serialize(wrong[i]));
    ASSERT_FALSE(parsed.ok()) << i;
    EXPECT_THAT(parsed.error().text, testing::HasSubstr("impossible queue pair: ")) << i;
  }
}

TEST(RdmaLinkEnd, IsReadAsItWasWrittenAndNothingElseIs) {
  LinkEnd end;
  end.rails.push_back({.number = 0, .rings = 4096, .rings_key = 7, .pairs = {roce(), roce()}});
  end.rails.push_back(
      {.number = 3, .port = 2, .rings = 8192, .rings_key = 9, .pairs = {infiniband()}});
  const Bytes whole = serialize(end);
  const auto again = parse_link_end(whole);
  ASSERT_TRUE(again.ok()) << again.error().text;
  EXPECT_EQ(*again, end);
  for (std::size_t length = 0; length < whole.size(); ++length)
    EXPECT_FALSE(parse_link_end(ByteSpan(whole).first(length)).ok()) << length;
  Bytes longer = whole;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(parse_link_end(longer).ok());
  const auto is_read = [&](const std::function<void(LinkEnd&)>& change) {
    LinkEnd changed = end;
    change(changed);
    return parse_link_end(serialize(changed)).ok();
  };
  EXPECT_TRUE(is_read([](LinkEnd& one) { one.rails[0].pairs.assign(kMaxPairs - 1, roce()); }));
  EXPECT_FALSE(is_read([](LinkEnd& one) { one.rails[0].pairs.assign(kMaxPairs, roce()); }));
  EXPECT_FALSE(is_read([](LinkEnd& one) { one.rails[0].pairs.clear(); }));
  EXPECT_FALSE(is_read([](LinkEnd& one) { one.rails[1].pairs[0].mtu = 0; }));
  EXPECT_FALSE(is_read([](LinkEnd& one) { one.rails[1].rings = 0; }));
  EXPECT_FALSE(is_read([](LinkEnd& one) { one.rails[1].number = 0; }));  // twice
  EXPECT_FALSE(is_read([](LinkEnd& one) { one.rails[1].port = kMaxRails; }));
  EXPECT_FALSE(is_read([](LinkEnd& one) { one.rails.clear(); }));
  const auto with_rails = [&](std::size_t count) {
    return is_read([&](LinkEnd& one) {
      one.rails.assign(count, one.rails[1]);
      for (std::size_t i = 0; i < count; ++i) one.rails[i].number = static_cast<std::uint8_t>(i);
    });
  };
  EXPECT_TRUE(with_rails(kMaxRails));
  EXPECT_FALSE(with_rails(kMaxRails + 1));
}

TEST(RdmaPackedKey, IsReadAsItWasWrittenAndNothingElseIs) {
  const PackedKey key{.address = 4096, .bytes = 100, .keys = {1, 2, 3, 4}};
  Bytes whole = serialize(key);
  const auto again = parse_packed_key(whole);
  ASSERT_TRUE(again.ok()) << again.error().text;
  EXPECT_EQ(*again, key);
  for (std::size_t length = 0; length < whole.size(); ++length)
    EXPECT_FALSE(parse_packed_key(ByteSpan(whole).first(length)).ok()) << length;
  EXPECT_FALSE(parse_packed_key(serialize(PackedKey{.address = 0, .bytes = 8})).ok());
  EXPECT_FALSE(parse_packed_key(serialize(PackedKey{.address = 4096, .bytes = 0})).ok());
  EXPECT_FALSE(parse_packed_key(serialize(PackedKey{.address = ~7ull, .bytes = 8})).ok());
  whole[0] ^= std::byte{1};
  EXPECT_FALSE(parse_packed_key(whole).ok());
}

}  // namespace
}  // namespace rondo::verbs
