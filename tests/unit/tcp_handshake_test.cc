// Messages of the TCP transport: whatever encoders write is read back, and nothing else is.
#include <gtest/gtest.h>

#include "transport/tcp/address_blob.h"
#include "transport/tcp/handshake.h"
#include "transport/tcp/message_header.h"

namespace rondo::tcp {
namespace {

Hello some_hello() {
  Hello hello;
  hello.tag = tag_of(Digest{});
  hello.name = {3, 9, net::kPointToPointLane};
  hello.index = 1;
  hello.count = 4;
  hello.link_id = 0x0123456789abcdefull;
  hello.nonce = auth::random_digest();
  return hello;
}

TEST(TcpHandshake, ReadsBackWhatItWrote) {
  const Hello hello = some_hello();
  const Bytes bytes = encode(hello);
  ASSERT_EQ(bytes.size(), kHelloBytes);
  const auto read = decode_hello(bytes);
  ASSERT_TRUE(read);
  EXPECT_EQ(encode(*read), bytes);
  EXPECT_EQ(read->name, hello.name);
  EXPECT_EQ(read->link_id, hello.link_id);
  const Challenge challenge{auth::random_digest(), auth::random_digest()};
  ASSERT_EQ(encode(challenge).size(), kChallengeBytes);
  EXPECT_EQ(encode(*decode_challenge(encode(challenge))), encode(challenge));
  const Answer answer{auth::random_digest()};
  ASSERT_EQ(encode(answer).size(), kAnswerBytes);
  EXPECT_EQ(encode(*decode_answer(encode(answer))), encode(answer));
}

TEST(TcpHandshake, RefusesWhatNoRankSays) {
  const Bytes good = encode(some_hello());
  for (std::size_t length = 0; length < good.size(); ++length)
    EXPECT_FALSE(decode_hello(ByteSpan(good).first(length)));
  Bytes longer = good;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(decode_hello(longer));
  Bytes other_magic = good;
  other_magic[0] ^= std::byte{1};
  EXPECT_FALSE(decode_hello(other_magic));
  const auto refused = [](auto&& change) {
    Hello hello = some_hello();
    change(hello);
    return !decode_hello(encode(hello));
  };
  EXPECT_TRUE(refused([](Hello& h) { h.count = 0; }));
  EXPECT_TRUE(refused([](Hello& h) { h.count = kMostSockets + 1; }));
  EXPECT_TRUE(refused([](Hello& h) { h.index = h.count; }));
  EXPECT_TRUE(refused([](Hello& h) { h.name.lane = net::kMostLanes; }));
  EXPECT_TRUE(refused([](Hello& h) { h.name.lane = -1; }));
  EXPECT_TRUE(refused([](Hello& h) { h.name.from = -1; }));
  EXPECT_FALSE(decode_challenge(good));
  EXPECT_FALSE(decode_answer(good));
}

TEST(TcpHandshake, ProofsDependOnSecretRoleAndEveryByteSaid) {
  const Digest secret = auth::random_digest();
  const Digest other = auth::random_digest();
  const Bytes hello = encode(some_hello());
  const Challenge challenge{auth::random_digest(), {}};
  const Bytes said = encode(challenge);
  const Digest proof = connector_proof(secret, hello, said);
  EXPECT_EQ(proof, connector_proof(secret, hello, said));
  EXPECT_NE(proof, connector_proof(other, hello, said));
  EXPECT_NE(proof, acceptor_proof(secret, hello, challenge.nonce));
  EXPECT_NE(tag_of(secret), tag_of(other));
  for (std::size_t i = 0; i < hello.size(); ++i) {
    Bytes changed = hello;
    changed[i] ^= std::byte{1};
    ASSERT_NE(proof, connector_proof(secret, changed, said)) << "byte " << i;
  }
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
