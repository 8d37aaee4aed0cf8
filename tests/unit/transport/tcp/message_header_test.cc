// SPDX-License-Identifier: Apache-2.0
// Headers of TCP's messages, and the division of bodies over sockets.
#include "transport/tcp/sides.h"

#include <gtest/gtest.h>

#include "transport/streams/connector.h"

namespace rondo::tcp {
namespace {

using net::kMaxSockets;

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
  EXPECT_TRUE(parse_header(bytes, (std::uint64_t{1} << 32) + 5));  // its low 32 bits
  EXPECT_FALSE(parse_header(bytes, 6));
  header.magic ^= 1;
  EXPECT_FALSE(parse_header(bytes, 5));
}

TEST(TcpMessageHeader, PartsCoverEveryBodyOnce) {
  for (const std::uint64_t bytes :
       {0ull, 1ull, 65535ull, 65536ull, 65537ull, 131072ull, 1000003ull, (4ull << 20) - 1}) {
    for (int sockets = 1; sockets <= kMaxSockets; ++sockets) {
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

}  // namespace
}  // namespace rondo::tcp
