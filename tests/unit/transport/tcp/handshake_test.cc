// Messages of the TCP transport: whatever encoders write is read back, and nothing else is.
#include <gtest/gtest.h>

#include "transport/tcp/address_blob.h"
#include "transport/tcp/message_header.h"
#include "transport/tcp/socket_of_link.h"

namespace rondo::tcp {
namespace {

SocketOfLink some_socket() { return {{3, 9, net::kPointToPointLane}, 1, 4, 0x0123456789abcdefull}; }

TEST(TcpSocketOfLink, IsReadBackAsItWasWritten) {
  const SocketOfLink socket = some_socket();
  const Bytes bytes = encode(socket);
  const auto read = decode_socket(bytes);
  ASSERT_TRUE(read);
  EXPECT_EQ(encode(*read), bytes);
  EXPECT_EQ(read->name, socket.name);
  EXPECT_EQ(read->link_id, socket.link_id);
}

TEST(TcpSocketOfLink, RefusesWhatNoRankSays) {
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
  EXPECT_TRUE(refused([](SocketOfLink& s) { s.count = kMostSockets + 1; }));
  EXPECT_TRUE(refused([](SocketOfLink& s) { s.index = s.count; }));
  EXPECT_TRUE(refused([](SocketOfLink& s) { s.name.lane = net::kMostLanes; }));
  EXPECT_TRUE(refused([](SocketOfLink& s) { s.name.lane = -1; }));
  EXPECT_TRUE(refused([](SocketOfLink& s) { s.name.from = -1; }));
}

TEST(TcpMessageHeader, IsReadBackForItsOwnNumberAlone) {
  MessageHeader header;
  header.bytes = 77;
  header.number = 5;
  header.record.count = 19;
  header.record.root = 3;
  const auto bytes =
      std::as_bytes(std::span<const MessageHeader, 1>(&header, 1)).first<kHeaderBytes>();
  const auto read = parse_header(bytes, 5);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->bytes, 77u);
  EXPECT_EQ(read->record, header.record);
  EXPECT_FALSE(parse_header(bytes, 6));
  header.magic ^= 1;
  EXPECT_FALSE(parse_header(bytes, 5));
}

TEST(TcpMessageHeader, PartsCoverEveryBodyOnce) {
  for (const std::uint64_t bytes :
       {0ull, 1ull, 65535ull, 65536ull, 65537ull, 131072ull, 1000003ull, (4ull << 20) - 1}) {
    for (int sockets = 1; sockets <= kMostSockets; ++sockets) {
      std::uint64_t covered = 0;
      for (int i = 0; i < sockets; ++i) {
        const Part part = part_of_body(bytes, i, sockets);
        if (part.bytes != 0) {
          ASSERT_EQ(part.begin, covered) << bytes << " over " << sockets;
        }
        covered += part.bytes;
      }
      ASSERT_EQ(covered, bytes) << "over " << sockets;
      const bool whole = part_of_body(bytes, 0, sockets).bytes == bytes;
      ASSERT_EQ(whole, bytes < kStripedFrom || sockets == 1) << bytes << " over " << sockets;
    }
  }
}

TEST(TcpAddressBlob, KeepsAddressesInOrderAndRefusesOtherBytes) {
  const std::array<unsigned char, 4> ip4{10, 0, 0, 1};
  std::array<unsigned char, 16> ip6{};
  ip6[15] = 1;
  const std::vector some{net::SocketAddress::v6(ip6, 4000), net::SocketAddress::v4(ip4, 4001)};
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
}  // namespace rondo::tcp
