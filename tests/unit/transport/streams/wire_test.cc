// SPDX-License-Identifier: Apache-2.0
// The messages that open a stream: decoding returns what was encoded, and refuses everything else.
#include <gtest/gtest.h>

#include "transport/streams/connector.h"
#include "transport/streams/stream_port.h"

namespace rondo::net {
namespace {

SocketOfLink some_socket() { return {{3, 9, kPointToPointLane}, 1, 4, 0x0123456789abcdefull}; }

TEST(SocketOfLinkBytes, IsReadBackAsItWasWritten) {
  const SocketOfLink socket = some_socket();
  const Bytes bytes = encode(socket);
  const auto read = decode_socket(bytes);
  ASSERT_TRUE(read);
  EXPECT_EQ(encode(*read), bytes);
  EXPECT_EQ(read->name, socket.name);
  EXPECT_EQ(read->link_id, socket.link_id);
}

TEST(SocketOfLinkBytes, RefusesWhatNoRankSends) {
  const Bytes good = encode(some_socket());
  for (std::size_t length = 0; length < good.size(); ++length)
    EXPECT_FALSE(decode_socket(ByteSpan(good).first(length)));
  Bytes longer = good;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(decode_socket(longer));
  const auto refused = [](auto&& change) {
    SocketOfLink socket = some_socket();
    change(socket);
    return !decode_socket(encode(socket));
  };
  EXPECT_TRUE(refused([](SocketOfLink& s) { s.count = 0; }));
  EXPECT_TRUE(refused([](SocketOfLink& s) { s.count = kMaxSockets + 1; }));
  EXPECT_TRUE(refused([](SocketOfLink& s) { s.index = s.count; }));
  EXPECT_TRUE(refused([](SocketOfLink& s) { s.name.lane = kMaxLanes; }));
  EXPECT_TRUE(refused([](SocketOfLink& s) { s.name.lane = -1; }));
  EXPECT_TRUE(refused([](SocketOfLink& s) { s.name.from = -1; }));
}

TEST(AddressBlob, KeepsAddressesInOrderAndRefusesOtherBytes) {
  const std::array<unsigned char, 4> ip4{10, 0, 0, 1};
  std::array<unsigned char, 16> ip6{};
  ip6[15] = 1;
  const std::vector some{SocketAddress::v6(ip6, 4000), SocketAddress::v4(ip4, 4001)};
  const Bytes blob = encode_addresses(some);
  const auto read = decode_addresses(blob);
  ASSERT_TRUE(read);
  ASSERT_EQ(read->size(), 2u);
  EXPECT_EQ((*read)[0].text(), "[::1]:4000");
  EXPECT_EQ((*read)[1].text(), "10.0.0.1:4001");
  for (std::size_t length = 0; length < blob.size(); ++length)
    EXPECT_FALSE(decode_addresses(ByteSpan(blob).first(length)));
  EXPECT_FALSE(decode_addresses(encode_addresses({})));
  Bytes other_family = blob;
  other_family[1] = std::byte{5};
  EXPECT_FALSE(decode_addresses(other_family));
}

}  // namespace
}  // namespace rondo::net
