// SPDX-License-Identifier: Apache-2.0
// Connections over every network, as executors use them: ranks are threads on loopback.
#include <algorithm>
#include <atomic>
#include <filesystem>

#include "kernels/host/slots.h"
#include "tests/support/in_child.h"
#include "tests/support/refused_call.h"
#include "tests/support/stepped_clock.h"
#include "tests/unit/transport/net/ranks_of_links.h"

namespace rondo::test {
namespace {

using host::ReceiveEnd;
using host::SendEnd;
using Ranks = std::vector<std::unique_ptr<RemoteLinks>>;

// Calls progress() until ready, and sleeps when it makes no progress. Fails the test after a time
// limit.
template <class Ready>
bool wait_for(RemoteLinks& links, Ready&& ready) {
  const auto until = Clock::now() + kPatience;
  while (!ready()) {
    if (links.progress()) continue;
    if (Clock::now() > until) return false;
    if (net::Sleeper sleeper; !ready() && sleeper.add(links))
      sleeper.sleep(std::chrono::milliseconds(100));
  }
  return true;
}

bool send_slot(RemoteLinks& links, Connection& to, const Bytes& body, std::uint64_t mark) {
  SendEnd<> end(to);
  if (!wait_for(links, [&] { return end.ready(); })) return false;
  std::copy(body.begin(), body.end(), end.slot());
  CallRecord record;
  record.count = mark;
  end.push(body.size(), record);
  return true;
}

bool receive_slot(RemoteLinks& links, Connection& from, const Bytes& body, std::uint64_t mark) {
  ReceiveEnd<> end(from);
  if (!wait_for(links, [&] { return end.ready(); })) return false;
  const bool same = end.bytes() == body.size() && end.record().count == mark &&
                    std::equal(body.begin(), body.end(), end.slot());
  end.pop();
  return same;
}

bool flush(RemoteLinks& links) { return links.flush(Clock::now() + kPatience).ok(); }

template <class Body>
void run_ranks(Ranks& ranks, Body&& body) {
  std::vector<std::thread> threads;
  for (int r = 0; r < static_cast<int>(ranks.size()); ++r)
    threads.emplace_back([&, r] { body(r, *ranks[r]); });
  for (auto& thread : threads) thread.join();
}

struct Shape {
  RanksKind kind;
  std::uint64_t slots;
  bool ip6;
};
class NetworkRemoteLinksShapes : public testing::TestWithParam<Shape> {};
class NetworkRemoteLinks : public testing::TestWithParam<RanksKind> {};

TEST_P(NetworkRemoteLinksShapes, ARingPassesSlotsOfEverySizeInOrder) {
  constexpr int kRanks = 3;
  auto ranks = open_ranks(GetParam().kind, kRanks, {1 << 18, GetParam().slots}, GetParam().ip6);
  std::atomic<int> good{0};
  run_ranks(ranks, [&](int r, RemoteLinks& links) {
    Connection* next = links.sender((r + 1) % kRanks, 0).value();
    Connection* previous = links.receiver((r + kRanks - 1) % kRanks, 0).value();
    const std::size_t sizes[] = {0, 1, 4, 31, 4095, 65536, 65537, 262143, 1 << 18};
    bool all = true;
    for (std::uint64_t i = 0; i < 90; ++i) {
      const Bytes body = pattern(sizes[i % 9], i);
      all = all && send_slot(links, *next, body, i) && receive_slot(links, *previous, body, i);
    }
    if (all && flush(links)) ++good;
  });
  EXPECT_EQ(good, kRanks);
}

std::vector<Shape> shapes() {
  std::vector<Shape> all = {{kOverSockets, 2, false}, {kOverSockets, 2, true}};
  for (const RanksKind& kind : ranks_kinds())
    for (const std::uint64_t slots : {1, 8}) all.push_back({kind, slots, false});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Slots, NetworkRemoteLinksShapes, testing::ValuesIn(shapes()),
                         [](const auto& info) {
                           return fmt::format("{}{}Slots{}", info.param.kind.name, info.param.slots,
                                              info.param.ip6 ? "Ip6" : "Ip4");
                         });

TEST_P(NetworkRemoteLinks, AnUnreadChannelHoldsItsSenderBackAndNoOtherLane) {
  auto ranks = open_ranks(GetParam(), 2, {1 << 20, 2});
  std::atomic<bool> held{false};
  std::atomic<bool> released{false};
  std::atomic<int> good{0};
  constexpr int kMany = 64;  // far more than slots and socket buffers hold
  run_ranks(ranks, [&](int r, RemoteLinks& links) {
    const Bytes body = pattern(1 << 20, 9);
    const Bytes small = pattern(100, 8);
    if (r == 0) {
      Connection* bulk = links.sender(1, 0).value();
      Connection* side = links.sender(1, 1).value();
      SendEnd<> end(*bulk);
      int pushed = 0;
      const auto quiet_since = [&] { return Clock::now() + std::chrono::milliseconds(300); };
      for (auto until = quiet_since(); Clock::now() < until && pushed < kMany; links.progress()) {
        if (!end.ready()) continue;
        std::copy(body.begin(), body.end(), end.slot());
        end.push(body.size(), {});
        ++pushed;
        until = quiet_since();
      }
      held = pushed < kMany;
      bool all =
          send_slot(links, *side, small, 1) && wait_for(links, [&] { return released.load(); });
      for (; pushed < kMany && all; ++pushed) all = send_slot(links, *bulk, body, 0);
      if (all && flush(links)) ++good;
    } else {
      Connection* bulk = links.receiver(0, 0).value();
      bool all = receive_slot(links, *links.receiver(0, 1).value(), small, 1);
      released = true;
      for (int i = 0; i < kMany && all; ++i) all = receive_slot(links, *bulk, body, 0);
      if (all) ++good;
    }
  });
  EXPECT_TRUE(held);
  EXPECT_EQ(good, 2);
}

TEST_P(NetworkRemoteLinks, ManyPeersExchangeWithEachOther) {
  constexpr int kRanks = 12;
  auto ranks = open_ranks(GetParam(), kRanks, {4096, 2});
  std::atomic<int> good{0};
  run_ranks(ranks, [&](int r, RemoteLinks& links) {
    bool all = true;
    for (int k = 1; k < kRanks && all; ++k) {
      const int to = (r + k) % kRanks;
      const int from = (r + kRanks - k) % kRanks;
      Connection* out = links.sender(to, 1).value();
      Connection* in = links.receiver(from, 1).value();
      for (std::uint64_t i = 0; i < 5 && all; ++i)
        all = send_slot(links, *out, pattern(3001, r * 100 + to), i) &&
              receive_slot(links, *in, pattern(3001, from * 100 + r), i);
    }
    if (all && flush(links)) ++good;
  });
  EXPECT_EQ(good, kRanks);
}

TEST_P(NetworkRemoteLinks, ControlMessagesArriveInOrderFromEitherSideWithoutData) {
  auto ranks = open_ranks(GetParam(), 3, {});
  std::vector<std::pair<int, int>> received[3];
  for (int r = 0; r < 3; ++r)
    ranks[r]->set_control_handler([&received, r](int peer, std::span<const std::byte> message) {
      ASSERT_EQ(message.size(), 600u);
      int number;
      std::memcpy(&number, message.data(), sizeof(number));
      received[r].push_back({peer, number});
    });
  constexpr int kMessages = 100;  // more than its slots: the rest waits
  for (int i = 0; i < kMessages; ++i) {
    Bytes message(600);
    std::memcpy(message.data(), &i, sizeof(i));
    for (int r = 0; r < 3; ++r)
      for (int to = 0; to < 3; ++to) ASSERT_EQ(ranks[r]->send_control(to, message).ok(), to != r);
  }
  ASSERT_TRUE(drive(
      [&] {
        for (auto& rank : ranks) rank->progress();
      },
      [&] {
        return std::all_of(received, received + 3,
                           [](auto& one) { return one.size() == 2 * kMessages; });
      }));
  for (const auto& one : received) {
    int next[3] = {};
    for (const auto& [peer, number] : one) ASSERT_EQ(number, next[peer]++);
  }
  EXPECT_TRUE(ranks[0]->flushed());
  EXPECT_FALSE(ranks[0]->send_control(1, Bytes(RemoteLinks::kMaxControlBytes + 1)).ok());
}

// A handler sends a message when slots are free again and older messages still wait for one.
TEST_P(NetworkRemoteLinks, ControlMessagesOfAHandlerDoNotOvertakeThoseThatWait) {
  constexpr int kMessages = 2000, kAsked = 8;  // more than the slots of many turns; number of
                                               // answers
  for (const int speaker : {0, 1}) {
    auto ranks = open_ranks(GetParam(), 2, {});
    const int listener = 1 - speaker;
    int output = 0;
    std::vector<int> received;
    const auto send = [&] {
      Bytes message(sizeof(int));
      std::memcpy(message.data(), &output, sizeof(output));
      ++output;
      ASSERT_TRUE(ranks[speaker]->send_control(listener, message).ok());
    };
    ranks[speaker]->set_control_handler([&](int, std::span<const std::byte>) { send(); });
    ranks[listener]->set_control_handler([&](int, std::span<const std::byte> message) {
      int number;
      std::memcpy(&number, message.data(), sizeof(number));
      received.push_back(number);
    });
    const auto both = [&] {
      for (auto& rank : ranks) rank->progress();
    };
    send();
    ASSERT_TRUE(ranks[listener]->send_control(speaker, Bytes(1)).ok());
    ASSERT_TRUE(drive(both, [&] { return output == 2 && received.size() == 2; }));
    for (int round = 0; round < 3; ++round) {
      // The speaker receives these in one of its next turns, and frees slots before it fills them.
      for (int i = 0; i < kAsked; ++i)
        ASSERT_TRUE(ranks[listener]->send_control(speaker, Bytes(1)).ok());
      ASSERT_TRUE(
          drive([&] { ranks[listener]->progress(); }, [&] { return ranks[listener]->flushed(); }));
      const std::size_t all = received.size() + kMessages + kAsked;
      for (int i = 0; i < kMessages; ++i) send();
      ASSERT_TRUE(drive(both, [&] { return received.size() == all; }));
    }
    for (std::size_t i = 0; i < received.size(); ++i) ASSERT_EQ(received[i], static_cast<int>(i));
  }
}

TEST_P(NetworkRemoteLinks, APeerThatClosesIsNamedAfterItsLastSlot) {
  for (const int leaver : {0, 1}) {
    auto ranks = open_ranks(GetParam(), 2, {4096, 4});
    const int stayer = 1 - leaver;
    Connection* out = ranks[leaver]->sender(stayer, 0).value();
    Connection* in = ranks[stayer]->receiver(leaver, 0).value();
    ReceiveEnd<> end(*in);
    const auto both = [&] {
      if (ranks[leaver]) ranks[leaver]->progress();
      ranks[stayer]->progress();
    };
    ASSERT_TRUE(drive(
        both, [&] { return ranks[leaver]->reached(stayer) && ranks[stayer]->reached(leaver); }));
    EXPECT_TRUE(ranks[stayer]->error_of(leaver).ok());
    const Bytes body = pattern(4000, 1);
    ASSERT_TRUE(send_slot(*ranks[leaver], *out, body, 1));
    ASSERT_TRUE(flush(*ranks[leaver]));
    ranks[leaver].reset();
    ASSERT_TRUE(drive(both, [&] { return !ranks[stayer]->error_of(leaver).ok(); }));
    const Error error = ranks[stayer]->error_of(leaver).error();
    EXPECT_NE(error.text.find(fmt::format("rank {}", leaver)), std::string::npos) << error.text;
    EXPECT_EQ(error.code, StatusCode::kRemoteError);
    EXPECT_TRUE(end.ready());
    EXPECT_TRUE(receive_slot(*ranks[stayer], *in, body, 1));
    EXPECT_FALSE(end.ready());
    // The lanes end one after the other.
    EXPECT_TRUE(drive(both, [&] { return !ranks[stayer]->send_control(leaver, body).ok(); }));
  }
}

TEST_P(NetworkRemoteLinks, APeerThatNeverConnectedAndIsGoneIsNamed) {
  for (const int gone : {0, 1}) {
    auto ranks = open_ranks(GetParam(), 2, {4096, 4});
    const int here = 1 - gone;
    ranks[gone].reset();
    ASSERT_TRUE(ranks[here]->receiver(gone, 0).ok());
    ASSERT_TRUE(
        drive([&] { ranks[here]->progress(); }, [&] { return !ranks[here]->error_of(gone).ok(); }));
    const std::string text = ranks[here]->error_of(gone).error().text;
    EXPECT_NE(text.find(fmt::format("rank {}", gone)), std::string::npos) << text;
    EXPECT_TRUE(ranks[here]->flushed());
  }
}

// By a clock of this thread's own, so that a busy machine makes it no longer.
TEST_P(NetworkRemoteLinks, FlushEndsAtItsDeadlineAndNamesThePeer) {
  constexpr std::chrono::milliseconds kLimit{200};
  auto ranks = open_ranks(GetParam(), 2, {4096, 4});
  Connection* out = ranks[0]->sender(1, 0).value();
  SendEnd<>(*out).push(10, {});
  EXPECT_EQ(ranks[0]->unflushed_peer(), 1);
  const test::SteppedClock clock(std::chrono::milliseconds(10));
  const auto begun = Clock::now();
  const Status done = ranks[0]->flush(begun + kLimit);
  const auto waited = Clock::now() - begun;
  EXPECT_GE(waited, kLimit);
  EXPECT_LT(waited, 2 * kLimit);
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.code(), StatusCode::kTimeout);
  EXPECT_NE(done.error().text.find("rank 1"), std::string::npos);
}

TEST_P(NetworkRemoteLinks, RefusesPeersAndLanesThatAreNone) {
  auto ranks = open_ranks(GetParam(), 2, {});
  EXPECT_FALSE(ranks[0]->sender(0, 0).ok());
  EXPECT_FALSE(ranks[0]->sender(2, 0).ok());
  EXPECT_FALSE(ranks[0]->receiver(-1, 0).ok());
  EXPECT_FALSE(ranks[0]->sender(1, net::kControlLane).ok());
  EXPECT_FALSE(ranks[0]->send_control(2, {}).ok());
  auto without_slots =
      RemoteLinks::open({.rank = 0,
                         .size = 2,
                         .network = rondo::open_network(kControlNetwork, {}).value(),
                         .slots = {0, 0}});
  EXPECT_FALSE(without_slots.value()->sender(1, 0).ok());
}

long descriptors() {
  using Entries = std::filesystem::directory_iterator;
  return std::distance(Entries("/proc/self/fd"), Entries());
}

TEST_P(NetworkRemoteLinks, LinksAreMadeAtFirstUseOfTwoDescriptorsAPeer) {
  auto ranks = open_ranks(GetParam(), 3, {4096, 4});
  const auto all = [&] {
    bool moved = false;
    for (auto& rank : ranks) moved |= rank->progress();
    return moved;
  };
  // A network may open its own descriptors in its first turns.
  for (int turn = 0; turn < 100; ++turn) all();
  const long before = descriptors();
  for (int turn = 0; turn < 100; ++turn) all();
  EXPECT_EQ(descriptors(), before);
  ASSERT_TRUE(ranks[0]->sender(1, net::kCollectiveLane).ok());
  ASSERT_TRUE(ranks[1]->receiver(0, net::kCollectiveLane).ok());
  ASSERT_TRUE(drive(all, [&] { return ranks[0]->reached(1) && ranks[1]->reached(0); }));
  EXPECT_GT(descriptors(), before);
  EXPECT_FALSE(ranks[0]->reached(2) || ranks[1]->reached(2) || ranks[2]->reached(0));
  // Descriptors of both ends, which are all in this process.
  if (GetParam().open == nullptr) {
    EXPECT_EQ(descriptors(), before + 2 * 2);
  }
}

TEST_P(NetworkRemoteLinks, ProgressWithoutWorkMovesNothing) {
  auto ranks = open_ranks(GetParam(), 2, {4096, 4});
  Connection* out = ranks[0]->sender(1, 0).value();
  ASSERT_TRUE(ranks[1]->receiver(0, 0).ok());
  const auto both = [&] { return int(ranks[0]->progress()) + int(ranks[1]->progress()); };
  ASSERT_TRUE(drive(both, [&] { return ranks[0]->reached(1) && ranks[1]->reached(0); }));
  // Bytes can still be on their way through the kernel.
  constexpr int kQuietTurns = 100;
  int quiet = 0;
  const auto count = [&] { quiet = both() == 0 ? quiet + 1 : 0; };
  EXPECT_TRUE(drive(count, [&] { return quiet == kQuietTurns; }));
  EXPECT_EQ(out->peer, 1);
  EXPECT_EQ(out->peer_bell, nullptr);
}

// Runs in a child: a filter of system calls cannot be undone. Every network's links begin with a
// socket.
TEST_P(NetworkRemoteLinks, ARankThatCannotAcceptReportsItOfThoseThatItWaitsFor) {
  const std::string outcome = in_child([&]() -> std::string {
    auto ranks = open_ranks(GetParam(), 2, {1 << 16, 2});
    if (!refuse_calls({SYS_accept4})) return kNoFilters;
    (void)ranks[0]->sender(1, 0).value();    // connects
    (void)ranks[1]->receiver(0, 0).value();  // waits for that
    const auto until = Clock::now() + kPatience;
    while (ranks[1]->error_of(0).ok() && Clock::now() < until)
      for (auto& links : ranks) links->progress();
    const Status why = ranks[1]->error_of(0);
    if (why.ok()) return "no error";
    const bool is_named =
        why.error().text.find("could not let rank 0 connect") != std::string::npos;
    return is_named && why.error().text.find("(accept4)") != std::string::npos ? ""
                                                                               : why.error().text;
  });
  if (outcome == kNoFilters) GTEST_SKIP() << outcome;
  EXPECT_EQ(outcome, "");
}

INSTANTIATE_TEST_SUITE_P(Every, NetworkRemoteLinks, testing::ValuesIn(ranks_kinds()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace rondo::test
