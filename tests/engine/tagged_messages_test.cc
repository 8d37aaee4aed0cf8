// SPDX-License-Identifier: Apache-2.0
// Messages with tags when their counters wrap, and when a peer sends invalid values.
#include "collectives/messages/tagged_messages.h"

#include <gtest/gtest.h>

#include "tests/support/engine_rank.h"
#include "tests/support/stepped_clock.h"
#include "tests/support/tagged_messages_seam.h"

namespace rondo::test {

namespace {

constexpr std::size_t kEager = 64;
const auto kPatience = std::chrono::seconds(300);

using Bytes = std::vector<std::byte>;

struct TwoRanks {
  explicit TwoRanks(std::size_t eager = kEager) : comms(make_communicators(2)) {
    run_ranks(comms, [&](Communicator& comm) {
      auto made = TaggedMessages::open(comms[comm.rank()], eager);
      ASSERT_TRUE(made.ok()) << made.error().text;
      box[comm.rank()] = *made;
    });
  }
  static bool finish(const Result<TaggedMessages::Request>& request) {
    return request.ok() && (*request)->wait_until(std::chrono::steady_clock::now() + kPatience);
  }
  Communicators comms;
  std::shared_ptr<TaggedMessages> box[2];
};

TEST(TaggedMessages, NumbersOffersRoundTheEndOfTheirCounter) {
  TwoRanks two;
  TaggedMessagesSeam::set_last_offer(*two.box[0], UINT32_MAX - 2);
  constexpr int kMessages = 6;
  std::vector<Bytes> sent;
  std::vector<Result<TaggedMessages::Request>> sending;
  for (int i = 0; i < kMessages; ++i) sent.emplace_back(1000, static_cast<std::byte>(i + 1));
  for (int i = 0; i < kMessages; ++i)
    sending.push_back(two.box[0]->send({.peer = 1, .tag = i}, sent[i].data(), sent[i].size()));
  // The offers arrive before any receive is posted.
  for (int i = 0; i < 200; ++i)
    for (const auto& box : two.box) box->help();
  for (int i = 0; i < kMessages; ++i) {
    Bytes got(1000);
    const auto receiving = two.box[1]->receive({.peer = 0, .tag = i}, got.data(), got.size());
    ASSERT_TRUE(TwoRanks::finish(receiving)) << "offer " << i;
    EXPECT_TRUE((*receiving)->result().ok());
    EXPECT_EQ(got, sent[i]) << "offer " << i;
    EXPECT_TRUE(TwoRanks::finish(sending[i]));
  }
}

// More messages than a connection has slots.
constexpr int kMany = 150;

// Large messages, which are offered, and small ones, which are sent at once, all with one tag.
// `early` receives are posted before them, the others after all of them. If the receiver is held
// meanwhile, messages without a slot wait at the sender.
void send_and_receive(int early, int source, bool held) {
  TwoRanks two;
  std::vector<Bytes> sent, got;
  std::vector<Result<TaggedMessages::Request>> sending, receiving;
  for (int i = 0; i < kMany; ++i) {
    const auto number = static_cast<std::size_t>(i);
    sent.emplace_back(i % 3 == 0 ? 1000 + number : 10 + number % 50, static_cast<std::byte>(i));
    got.emplace_back(sent.back().size());
  }
  const auto receive = [&](int i) {
    receiving.push_back(
        two.box[1]->receive({.peer = source, .tag = 5}, got[i].data(), got[i].size()));
  };
  for (int i = 0; i < early; ++i) receive(i);
  std::unique_lock<std::mutex> holding;
  if (held) holding = TaggedMessagesSeam::hold(*two.box[1]);
  for (int i = 0; i < kMany; ++i)
    sending.push_back(two.box[0]->send({.peer = 1, .tag = 5}, sent[i].data(), sent[i].size()));
  if (held) holding.unlock();
  for (int i = 0; i < 200; ++i)
    for (const auto& box : two.box) box->help();
  for (int i = early; i < kMany; ++i) receive(i);
  for (int i = 0; i < kMany; ++i) {
    ASSERT_TRUE(TwoRanks::finish(receiving[i])) << "message " << i;
    const Status& received = (*receiving[i])->result();
    ASSERT_TRUE(received.ok()) << "message " << i << ": " << received.error().text;
    ASSERT_EQ(got[i], sent[i]) << "message " << i;
    ASSERT_TRUE(TwoRanks::finish(sending[i])) << "message " << i;
  }
}

TEST(TaggedMessages, MatchesOffersAndSmallMessagesInTheOrderInWhichTheyWereSent) {
  for (const int early : {0, 1, 2, 3, 100, kMany})
    for (const int source : {0, TaggedMessages::kAnySource})
      for (const bool held : {false, true}) {
        SCOPED_TRACE(fmt::format("{} early receives, from {}, held {}", early, source, held));
        send_and_receive(early, source, held);
      }
}

// A receive from any rank that was posted first gets the first message.
TEST(TaggedMessages, AReceiveFromARankDoesNotOvertakeAnEarlierOneFromAnyRank) {
  for (const bool any_first : {true, false})
    for (const std::size_t bytes : {std::size_t{10}, std::size_t{1000}}) {
      SCOPED_TRACE(fmt::format("any first {}, {} bytes", any_first, bytes));
      TwoRanks two;
      const Bytes sent[2] = {Bytes(bytes, std::byte{1}), Bytes(bytes, std::byte{2})};
      Bytes got[2] = {Bytes(bytes), Bytes(bytes)};
      std::vector<Result<TaggedMessages::Request>> requests;
      for (const int i : {0, 1})
        requests.push_back(two.box[1]->receive(
            {.peer = any_first == (i == 0) ? TaggedMessages::kAnySource : 0, .tag = 5},
            got[i].data(), bytes));
      for (const int i : {0, 1})
        requests.push_back(two.box[0]->send({.peer = 1, .tag = 5}, sent[i].data(), bytes));
      for (const auto& request : requests) ASSERT_TRUE(TwoRanks::finish(request));
      EXPECT_EQ(got[0], sent[0]);
      EXPECT_EQ(got[1], sent[1]);
    }
}

// The first slots of a message have arrived when the receive is cancelled. The caller uses the
// buffer again while the rest comes.
TEST(TaggedMessages, WhatComesAfterACancelIsNotWritten) {
  TwoRanks two(std::size_t{1} << 30);
  auto held = TaggedMessagesSeam::hold(*two.box[1]);
  const Bytes sent(3 * TaggedMessagesSeam::slots_from(*two.box[1], 0) + 7, std::byte{1});
  held.unlock();
  Bytes got(sent.size());
  const auto receiving = two.box[1]->receive({.peer = 0, .tag = 5}, got.data(), got.size());
  ASSERT_TRUE(receiving.ok());
  held.lock();
  ASSERT_TRUE(TwoRanks::finish(two.box[0]->send({.peer = 1, .tag = 5}, sent.data(), sent.size())));
  auto sender = TaggedMessagesSeam::hold(*two.box[0]);  // no more slots than the first ones
  TaggedMessagesSeam::progress(*two.box[1]);
  held.unlock();
  ASSERT_EQ(got.front(), std::byte{1});
  ASSERT_EQ(got.back(), std::byte{0});
  ASSERT_FALSE((*receiving)->finished());
  two.box[1]->cancel(receiving->get(), 1);
  ASSERT_TRUE((*receiving)->finished());
  EXPECT_EQ((*receiving)->result().code(), StatusCode::kTimeout);
  std::fill(got.begin(), got.end(), std::byte{9});
  sender.unlock();
  Bytes next(10), after(10, std::byte{3});
  ASSERT_TRUE(TwoRanks::finish(two.box[0]->send({.peer = 1, .tag = 6}, after.data(), 10)));
  const auto last = two.box[1]->receive({.peer = 0, .tag = 6}, next.data(), 10);
  ASSERT_TRUE(TwoRanks::finish(last));  // so the whole first message has arrived
  EXPECT_EQ(next, after);
  EXPECT_EQ(got, Bytes(sent.size(), std::byte{9}));
}

// The receiver takes nothing, so more than the slots hold stays here. By a clock of this thread's
// own, which each look advances by one step.
TEST(TaggedMessages, FlushEndsAtItsDeadlineAndNotLater) {
  constexpr std::chrono::milliseconds kStep{10}, kLimit{300};
  TwoRanks two(std::size_t{1} << 30);
  const auto receiver = TaggedMessagesSeam::hold(*two.box[1]);
  const Bytes sent(3 * TaggedMessagesSeam::slots_from(*two.box[1], 0), std::byte{1});
  ASSERT_TRUE(two.box[0]->send({.peer = 1, .tag = 5}, sent.data(), sent.size()).ok());
  const SteppedClock clock(kStep);
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_FALSE(two.box[0]->flush(begun + kLimit));
  const auto waited = std::chrono::steady_clock::now() - begun;
  EXPECT_GE(waited, kLimit);
  EXPECT_LT(waited, 2 * kLimit);
}

// A message arrives and its sender leaves, both after this rank checked for messages and before it
// checked for ranks that have left.
TEST(TaggedMessages, TakesWhatAPeerSentBeforeItLeft) {
  TwoRanks two;
  Bytes sent(10, std::byte{7}), got(10);
  const auto receiving = two.box[1]->receive({.peer = 0}, got.data(), got.size());
  ASSERT_TRUE(receiving.ok());
  auto holding = TaggedMessagesSeam::hold(*two.box[1]);
  ASSERT_TRUE(TwoRanks::finish(two.box[0]->send({.peer = 1}, sent.data(), sent.size())));
  two.box[0].reset();
  two.comms[0].reset();
  TaggedMessagesSeam::look_for_ended(*two.box[1]);
  TaggedMessagesSeam::progress(*two.box[1]);
  ASSERT_TRUE((*receiving)->finished());
  EXPECT_TRUE((*receiving)->result().ok()) << (*receiving)->result().error().text;
  EXPECT_EQ(got, sent);
  // A message that has not arrived by the second check never will.
  TaggedMessagesSeam::look_for_ended(*two.box[1]);
  holding.unlock();
  const auto late = two.box[1]->receive({.peer = 0}, got.data(), got.size());
  EXPECT_EQ(late.code(), StatusCode::kRemoteError);
}

TEST(TaggedMessages, TakesNoMoreUnaskedThanItsPeerMaySend) {
  TwoRanks two;
  TaggedMessagesSeam::set_eager_bytes_of_peer(*two.box[1], 0, 10);
  const Bytes much(kEager, std::byte{1});
  ASSERT_TRUE(TwoRanks::finish(two.box[0]->send({.peer = 1}, much.data(), much.size())));
  Bytes got(kEager);
  const auto receiving = two.box[1]->receive({.peer = 0}, got.data(), got.size());
  if (receiving.ok()) {
    ASSERT_TRUE(TwoRanks::finish(receiving));
  }
  const Error& error = receiving.ok() ? (*receiving)->result().error() : receiving.error();
  EXPECT_EQ(error.code, StatusCode::kRemoteError);
  EXPECT_NE(error.text.find("rank 0 (pid"), std::string::npos) << error.text;
  EXPECT_NE(error.text.find("an eager message of 64 bytes"), std::string::npos) << error.text;
}

}  // namespace
}  // namespace rondo::test
