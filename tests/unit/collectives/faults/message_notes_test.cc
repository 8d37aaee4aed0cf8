// SPDX-License-Identifier: Apache-2.0
// The announcements of both sides of messages, and the mismatches found in them.
#include "collectives/faults/message_notes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rondo::gpu {
namespace {

constexpr std::size_t kMaxBytes = 4096;

CallRecord message(bool sends, std::uint64_t count, DataType type = DataType::kFloat32) {
  return {count, sends ? Collective::kSend : Collective::kRecv, type, RedOp::kSum, 0, -1};
}

// Rank 0 sends to rank 2.
struct Pair {
  MessageNotes sender{0}, receiver{2};
  void send(const CallRecord& record, bool captured = false) {
    sender.announce(0, 2, record, captured);
  }
  void receive(const CallRecord& record, bool captured = false) {
    receiver.announce(0, 2, record, captured);
  }
  void exchange_notes() {
    while (const auto next = sender.take(kMaxBytes)) {
      EXPECT_EQ(next->peer, 2);
      EXPECT_LE(next->message.size(), kMaxBytes);
      receiver.receive(0, next->message);
    }
  }
};

TEST(MessageNotes, SizesAreComparedByNumberInAnyOrder) {
  for (const bool sent_first : {true, false}) {
    Pair pair;
    for (std::uint64_t n = 1; n <= 20; ++n) {
      const std::uint64_t sent = n == 17 ? 99 : n;
      if (sent_first) pair.send(message(true, sent)), pair.exchange_notes();
      pair.receive(message(false, 4 * n, DataType::kInt8));  // the same number of bytes
      if (!sent_first) pair.send(message(true, sent)), pair.exchange_notes();
      const auto found = pair.receiver.take_mismatch();
      ASSERT_EQ(found.has_value(), n == 17) << n;
      if (!found) continue;
      EXPECT_EQ(found->culprit, 0);
      EXPECT_EQ(found->status, StatusCode::kInvalidUsage);
      EXPECT_THAT(found->text, testing::HasSubstr("rank 0 called Send(count 99, float32)"));
      EXPECT_THAT(found->text, testing::HasSubstr("rank 2, which called Recv(count 68, int8)"));
    }
  }
}

TEST(MessageNotes, AreReportedInMessagesThatFit) {
  Pair pair;
  for (std::uint64_t n = 1; n <= 1000; ++n) pair.send(message(true, n));
  for (std::uint64_t n = 1; n <= 1000; ++n) {
    pair.receive(message(false, n == 999 ? 5 : n));
    if (n % 10 == 0) pair.exchange_notes();
  }
  const auto found = pair.receiver.take_mismatch();
  ASSERT_TRUE(found);
  EXPECT_THAT(found->text, testing::HasSubstr("count 999"));
}

// Graph replays are not counted: after a capture on one side the numbers no longer match.
TEST(MessageNotes, StopWithTheFirstCapture) {
  for (const bool sender_captures : {true, false}) {
    Pair pair;
    pair.send(message(true, 1), sender_captures);
    pair.receive(message(false, 1), !sender_captures);
    for (std::uint64_t n = 2; n <= 5; ++n) {
      pair.send(message(true, n));
      pair.receive(message(false, n + 1));
    }
    pair.exchange_notes();
    EXPECT_FALSE(pair.receiver.take_mismatch());
  }
}

TEST(MessageNotes, GarbageIsNoMismatch) {
  Pair pair;
  pair.receive(message(false, 1));
  std::vector<std::byte> garbage(16 + 16, std::byte{0xff});
  garbage[8] = std::byte{1};
  for (int i = 9; i < 16; ++i) garbage[static_cast<std::size_t>(i)] = std::byte{0};
  pair.receiver.receive(0, garbage);
  pair.receiver.receive(0, std::span(garbage).first(3));
  EXPECT_FALSE(pair.receiver.take_mismatch());
}

}  // namespace
}  // namespace rondo::gpu
