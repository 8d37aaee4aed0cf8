// SPDX-License-Identifier: Apache-2.0
// Conformance of links of networks that have puts: writes into the memory of a peer that makes no
// progress meanwhile, their words after the data, in order, and refusal of memory that the peer has
// withdrawn.
#include <algorithm>

#include "base/atomics.h"
#include "tests/unit/transport/net/networks.h"

namespace rondo::test {
namespace {

class NetworkPut : public NetworkSuite {
 protected:
  void SetUp() override {
    pair_.emplace(GetParam());
    ASSERT_TRUE(pair_->connected);
    room_.emplace(*pair_->far_network, Bytes(kRoom, std::byte{0xee}));
    words_key_ =
        pair_->far_network
            ->register_memory({.bytes = std::as_writable_bytes(std::span(words_)), .ordered = true})
            .value();
    to_ = unpacked(room_->key);
    word_in_ = unpacked(words_key_);
  }
  void TearDown() override {
    if (!pair_) return;
    pair_->near.reset();
    pair_->far.reset();
    pair_->far_network->deregister_memory(words_key_);
    room_.reset();
  }
  net::RemoteKey unpacked(net::MemoryKey key) {
    const auto packed = pair_->far_network->pack_key(key).value();
    EXPECT_LE(packed.size(), net::Network::kMaxPackedKey);
    return pair_->near->unpack_key(packed).value();
  }
  // Only the writer makes progress, unless the network needs both sides to.
  bool until(const std::function<bool()>& holds) {
    return drive(
        [&] {
          pair_->near->progress();
          pair_->near_network->poll();
          if (GetParam().both_move) pair_->turn_far();
        },
        holds);
  }
  std::uint64_t word(std::size_t which) const { return HostAtomics::load_acquire(words_[which]); }
  std::span<std::byte> there(std::size_t offset, std::size_t bytes) {
    return std::span(room_->bytes).subspan(offset, bytes);
  }

  static constexpr std::size_t kRoom = (5 << 20) + 1;
  std::optional<LinkPair> pair_;
  std::optional<Registered> room_;  // rank 1's
  std::array<std::uint64_t, 4> words_{};
  net::MemoryKey words_key_ = 0;
  net::RemoteKey to_ = 0, word_in_ = 0;
};

TEST_P(NetworkPut, WritesEverySizeWithItsWordWhileThePeerDoesNothing) {
  std::uint64_t number = 0;
  for (const std::size_t bytes : {0u, 1u, 7u, 8u, 64u, 65u, 4097u, 65'537u, 1'000'003u, 4u << 20}) {
    for (const std::size_t offset : {0u, 3u}) {
      std::ranges::fill(room_->bytes, std::byte{0xee});
      Registered body(*pair_->near_network, pattern(bytes + 1, ++number));
      const auto request = pair_->near->iput({.body = body.first(bytes),
                                              .key = body.key,
                                              .to = to_,
                                              .offset = offset,
                                              .word_in = word_in_,
                                              .word_offset = 8,
                                              .word = number});
      ASSERT_TRUE(request);
      ASSERT_TRUE(until([&] { return word(1) == number; })) << bytes;
      ASSERT_TRUE(std::ranges::equal(body.first(bytes), there(offset, bytes))) << bytes;
      ASSERT_EQ(room_->bytes[offset + bytes], std::byte{0xee}) << "written beyond the put";
      ASSERT_TRUE(offset == 0 || room_->bytes[offset - 1] == std::byte{0xee});
      ASSERT_TRUE(until([&] { return pair_->near->test(*request).done; }));
    }
  }
  EXPECT_EQ(word(0), 0u);
  EXPECT_EQ(word(2), 0u);
}

// Far more puts than a link's depth, all to the same place: a word is seen with its own body or
// with that of a later put.
TEST_P(NetworkPut, KeepsTheOrderOfManyPutsToOnePlace) {
  constexpr std::uint64_t kPuts = 500;
  std::vector<std::uint64_t> values(kPuts);
  Registered body(*pair_->near_network, Bytes(kPuts * 8));
  for (std::uint64_t i = 0; i < kPuts; ++i) {
    const std::uint64_t value = i + 1;
    std::memcpy(&body.bytes[i * 8], &value, 8);
  }
  std::uint64_t asked = 0, seen = 0;
  ASSERT_TRUE(until([&] {
    while (asked < kPuts && pair_->near->iput({.body = std::span(body.bytes).subspan(asked * 8, 8),
                                               .key = body.key,
                                               .to = to_,
                                               .word_in = word_in_,
                                               .word = asked + 1}))
      ++asked;
    const std::uint64_t now = word(0);
    std::uint64_t value = 0;
    std::memcpy(&value, room_->bytes.data(), 8);
    EXPECT_GE(now, seen) << "a word went back";
    EXPECT_GE(now == 0 ? 1 : value, now) << "a word came before its body";
    seen = now;
    return seen == kPuts;
  }));
  EXPECT_TRUE(until([&] { return pair_->near->test({kPuts - 1, true, true}).done; }));
}

// Puts and messages share a link. Messages need the peer; neither may block the other without
// limit.
TEST_P(NetworkPut, GoBesideMessages) {
  Registered body(*pair_->near_network, pattern(70'000, 1));
  Registered room(*pair_->far_network, Bytes(70'000));
  CallRecord record;
  for (std::uint64_t round = 1; round <= 20; ++round) {
    ASSERT_TRUE(pair_->near->isend({}, body.bytes, body.key));
    ASSERT_TRUE(pair_->near->iput({.body = body.bytes,
                                   .key = body.key,
                                   .to = to_,
                                   .offset = round,
                                   .word_in = word_in_,
                                   .word = round}));
    const auto got = pair_->far->irecv(record, room.bytes, room.key);
    ASSERT_TRUE(got);
    ASSERT_TRUE(pair_->until([&] { return pair_->far->test(*got).done && word(0) == round; }));
    ASSERT_TRUE(std::ranges::equal(room.bytes, body.bytes));
    ASSERT_TRUE(std::ranges::equal(there(round, body.bytes.size()), body.bytes));
  }
}

TEST_P(NetworkPut, EndsTheLinkWhereTheMemoryIsNotThePeersAnyMore) {
  Registered body(*pair_->near_network, pattern(100, 1));
  const net::MemoryKey gone = pair_->far_network->register_memory({room_->bytes}).value();
  const net::RemoteKey to = unpacked(gone);
  pair_->far_network->deregister_memory(gone);
  const auto request = pair_->near->iput(
      {.body = body.bytes, .key = body.key, .to = to, .word_in = word_in_, .word = 1});
  ASSERT_TRUE(pair_->until([&] { return net::is_over(pair_->near->state()); }));
  EXPECT_EQ(pair_->near->error().code, StatusCode::kRemoteError);
  EXPECT_EQ(word(0), 0u) << "the word of a put that failed";
  EXPECT_FALSE(pair_->near->test(*request).done);
  EXPECT_EQ(room_->bytes[0], std::byte{0xee});
}

TEST_P(NetworkPut, EndsTheLinkWhereAPutGoesBeyondTheMemory) {
  Registered body(*pair_->near_network, pattern(100, 1));
  ASSERT_TRUE(
      pair_->near->iput({.body = body.bytes, .key = body.key, .to = to_, .offset = kRoom - 99}));
  ASSERT_TRUE(until([&] { return net::is_over(pair_->near->state()); }));
  EXPECT_NE(pair_->near->error().text.find("100 bytes"), std::string::npos)
      << pair_->near->error().text;
  EXPECT_EQ(room_->bytes.back(), std::byte{0xee});
}

TEST_P(NetworkPut, RefusesKeysThatCannotBeRead) {
  auto packed = pair_->far_network->pack_key(room_->key).value();
  for (std::size_t bytes = 0; bytes < packed.size(); ++bytes)
    EXPECT_FALSE(pair_->near->unpack_key(std::span(packed).first(bytes)).ok()) << bytes;
  packed.push_back(std::byte{0});
  EXPECT_FALSE(pair_->near->unpack_key(packed).ok());
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(NetworkPut);
INSTANTIATE_TEST_SUITE_P(Of, NetworkPut, testing::ValuesIn(kinds_with_puts()), kNameOfKind);

class NetworkThatMayPut : public NetworkSuite {};

// Callers ask the network first. If it has no puts, its links refuse them.
TEST_P(NetworkThatMayPut, ReportsWhetherItDoes) {
  const auto network = GetParam().at(0);
  EXPECT_EQ(network->puts(), GetParam().puts);
  Registered memory(*network, Bytes(8));
  EXPECT_EQ(network->pack_key(memory.key).ok(), GetParam().puts);
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(NetworkThatMayPut);
INSTANTIATE_TEST_SUITE_P(Of, NetworkThatMayPut, testing::ValuesIn(network_kinds()), kNameOfKind);

}  // namespace
}  // namespace rondo::test
