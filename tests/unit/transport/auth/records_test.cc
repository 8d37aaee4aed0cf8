// SPDX-License-Identifier: Apache-2.0
// Records open in the order in which they were sealed. Anything else ends the connection.
#include "transport/auth/records.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace rondo::auth {
namespace {

struct Two {
  Digest key = random_digest();
  Records connector = Records::make(key, Records::Side::kConnector).value();
  Records acceptor = Records::make(key, Records::Side::kAcceptor).value();
};

Bytes pattern(std::size_t size, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

Bytes sealed(Records& by, ByteSpan plain) {
  Bytes out;
  EXPECT_TRUE(by.seal(plain, out).ok());
  return out;
}

// Opens everything that it can, in pieces of `at_once` bytes.
Result<Bytes> open(Records& by, ByteSpan stream, std::size_t at_once = 100000) {
  Bytes plain;
  while (!stream.empty()) {
    const auto room = by.room();
    const std::size_t count = std::min({room.size(), stream.size(), at_once});
    std::copy_n(stream.begin(), count, room.begin());
    by.received(count);
    stream = stream.subspan(count);
    for (;;) {
      RONDO_TRY(const auto record, by.next());
      if (!record) break;
      plain.insert(plain.end(), record->begin(), record->end());
    }
  }
  return plain;
}

TEST(Records, OpenWhatTheOtherSideSealedHoweverTheBytesAreCut) {
  for (const std::size_t at_once : {1u, 7u, 100000u}) {
    Two two;
    Bytes all, stream;
    for (const std::size_t size : {1u, 15u, 16u, 4128u, 16384u, 16385u, 50000u}) {
      const Bytes plain = pattern(size, size);
      all.insert(all.end(), plain.begin(), plain.end());
      ASSERT_TRUE(two.connector.seal(plain, stream).ok());
    }
    const auto opened = open(two.acceptor, stream, at_once);
    ASSERT_TRUE(opened.ok()) << opened.error().text;
    EXPECT_EQ(opened.value(), all);
    EXPECT_TRUE(two.acceptor.between_records());
    EXPECT_EQ(open(two.connector, sealed(two.acceptor, all)).value(), all);
  }
}

TEST(Records, HoldPartsTogetherAndShowNothing) {
  Two two;
  const Bytes first(40, std::byte{1}), second(60, std::byte{1});
  const ByteSpan parts[] = {first, second};
  Bytes out;
  ASSERT_TRUE(two.connector.seal(parts, out).ok());
  EXPECT_EQ(out.size(), 100 + Records::kOverhead);
  EXPECT_EQ(std::search(out.begin(), out.end(), first.begin(), first.begin() + 8), out.end());
  EXPECT_EQ(open(two.acceptor, out).value(), Bytes(100, std::byte{1}));
  EXPECT_FALSE(two.connector.seal(std::span<const ByteSpan>(), out).ok());
  const Bytes longer(Records::kMaxBytes + 1);
  const ByteSpan one[] = {longer};
  EXPECT_FALSE(two.connector.seal(one, out).ok());
}

TEST(Records, EveryFlippedBitAndInsertedByteIsNoticed) {
  const Bytes plain = pattern(50, 1);
  const std::size_t length = plain.size() + Records::kOverhead;
  for (std::size_t at = 0; at < length; ++at) {
    for (int change = 0; change < 10; ++change) {
      Two two;
      Bytes stream = sealed(two.connector, plain);
      if (change < 8) stream[at] ^= static_cast<std::byte>(1 << change);
      if (change == 8) stream.insert(stream.begin() + static_cast<std::ptrdiff_t>(at), stream[at]);
      if (change == 9) stream.erase(stream.begin() + static_cast<std::ptrdiff_t>(at));
      Bytes more = sealed(two.connector, pattern(16384, 2));  // a length that was increased gets
                                                              // its bytes
      stream.insert(stream.end(), more.begin(), more.end());
      const auto opened = open(two.acceptor, stream);
      ASSERT_FALSE(opened.ok()) << "byte " << at << ", change " << change;
      EXPECT_NE(opened.error().text.find("does not verify"), std::string::npos)
          << opened.error().text;
    }
  }
}

TEST(Records, AReplayedReorderedOrLostRecordIsNoticed) {
  const Bytes plain = pattern(64, 3);
  for (const auto& order : std::vector<std::vector<int>>{{0, 0}, {1}, {0, 2}, {0, 2, 1}}) {
    Two two;
    std::vector<Bytes> records;
    for (int i = 0; i < 3; ++i) records.push_back(sealed(two.connector, plain));
    Bytes stream;
    for (const int i : order)
      stream.insert(stream.end(), records[static_cast<std::size_t>(i)].begin(),
                    records[static_cast<std::size_t>(i)].end());
    const auto opened = open(two.acceptor, stream);
    ASSERT_FALSE(opened.ok());
    EXPECT_NE(opened.error().text.find(order[0] == 0 ? "record 1" : "record 0"), std::string::npos)
        << opened.error().text;
  }
}

TEST(Records, AReflectedRecordIsNoticed) {
  Two two;
  EXPECT_FALSE(open(two.connector, sealed(two.connector, pattern(10, 4))).ok());
}

TEST(Records, ALengthThatNobodyWritesIsRefusedBeforeItsBytesCome) {
  for (const std::uint32_t length : {0u, 16385u, 0xffffffffu}) {
    Two two;
    ByteWriter header;
    header.put<std::uint32_t>(length);
    EXPECT_FALSE(open(two.acceptor, header.written()).ok()) << length;
  }
}

TEST(Records, AStreamThatIsCutWithinARecordShowsIt) {
  Two two;
  const Bytes stream = sealed(two.connector, pattern(100, 5));
  for (std::size_t cut = 1; cut < stream.size(); ++cut) {
    Two other{two.key};
    ASSERT_TRUE(open(other.acceptor, ByteSpan(stream).first(cut)).value().empty());
    ASSERT_FALSE(other.acceptor.between_records());
  }
}

}  // namespace
}  // namespace rondo::auth
