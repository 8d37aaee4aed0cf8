// SPDX-License-Identifier: Apache-2.0
// How links of every network end and wake: closes in every state, peers that are gone, killed or
// stopped, forks, exhausted descriptors, sleeps.
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "tests/unit/transport/net/networks.h"
#include "tests/unit/transport/net/waiting_child.h"

namespace rondo::test {
namespace {

using net::LinkState;

class NetworkEnds : public NetworkSuite {};

TEST_P(NetworkEnds, DeliversWhatWasSentBeforeTheClose) {
  LinkPair pair(GetParam());
  ASSERT_TRUE(pair.connected);
  Registered body(*pair.near_network, pattern(100001, 1)), unread(*pair.far_network, Bytes(1000));
  Registered room(*pair.far_network, Bytes(200000));
  CallRecord record;
  const auto first = pair.far->irecv(record, room.bytes, room.key);
  // Unread bytes at the side that closes must not destroy the bytes that it had sent.
  ASSERT_TRUE(pair.far->isend({}, unread.bytes, unread.key));
  for (int i = 0; i < 10; ++i) pair.turn();
  const auto sending = pair.near->isend({}, body.bytes, body.key);
  const auto step = [&] {
    pair.near->progress();
    pair.near_network->poll();
    if (GetParam().both_move) pair.turn_far();
  };
  ASSERT_TRUE(drive(step, [&] { return pair.near->test(*sending).done; }));
  pair.near->close();
  const auto second = pair.far->irecv(record, {}, 0);
  ASSERT_TRUE(second);
  ASSERT_TRUE(pair.until([&] { return net::is_over(pair.far->state()); }));
  EXPECT_TRUE(pair.far->test(*first).done);
  EXPECT_TRUE(std::ranges::equal(room.first(100001), body.bytes));
  EXPECT_FALSE(pair.far->test(*second).done);
  EXPECT_NE(pair.far->error().text.find("rank 0"), std::string::npos) << pair.far->error().text;
  EXPECT_EQ(pair.far->error().code, StatusCode::kRemoteError);
}

TEST_P(NetworkEnds, AnOrderlyCloseIsDistinguishedFromABreak) {
  LinkPair pair(GetParam());
  ASSERT_TRUE(pair.connected);
  CallRecord record;
  ASSERT_TRUE(pair.far->irecv(record, {}, 0));
  pair.near->close();
  EXPECT_EQ(pair.near->state(), LinkState::kEnded);
  EXPECT_NE(pair.near->error().text.find("closed by this rank"), std::string::npos);
  ASSERT_TRUE(pair.until([&] { return net::is_over(pair.far->state()); }));
  EXPECT_EQ(pair.far->state(), LinkState::kClosed);
}

TEST_P(NetworkEnds, CloseInEveryState) {
  CallRecord record;
  const auto is_dead = [&](net::Link& link, const char* when) {
    link.close();
    link.close();
    EXPECT_EQ(link.state(), LinkState::kEnded) << when;
    EXPECT_FALSE(link.progress()) << when;
    (void)link.isend({}, {}, 0);
    (void)link.irecv(record, {}, 0);
    EXPECT_FALSE(link.test({0, true}).done) << when;
    EXPECT_FALSE(link.progress()) << when;
  };
  const auto near = GetParam().at(0);
  const auto far = GetParam().at(1);
  const Bytes address = far->listen().value();
  is_dead(*near->connect({0, 1, 0}, address).value(), "at once");
  for (int turns = 1; turns < 6; ++turns) {  // while it is being opened
    auto link = near->connect({0, 1, 0}, address).value();
    std::unique_ptr<net::Link> accepted;
    ASSERT_TRUE(link->isend({}, {}, 0));
    for (int i = 0; i < turns; ++i) {
      link->progress();
      near->poll();
      far->poll();
      if (!accepted) accepted = far->accept();
    }
    is_dead(*link, "while it opens");
  }
  LinkPair pair(GetParam());  // with a queue that the peer does not read
  ASSERT_TRUE(pair.connected);
  Registered body(*pair.near_network, Bytes(1 << 20));
  for (std::uint64_t i = 0; i < net::Link::kDepth; ++i)
    ASSERT_TRUE(pair.near->isend({}, body.bytes, body.key));
  for (int i = 0; i < 10; ++i) pair.turn();
  pair.near->close();
  EXPECT_EQ(pair.near->state(), LinkState::kEnded);
  ASSERT_TRUE(pair.far->irecv(record, {}, 0));
  ASSERT_TRUE(pair.until([&] { return net::is_over(pair.far->state()); }));
}

TEST_P(NetworkEnds, APeerThatIsGoneIsNamed) {
  const auto near = GetParam().at(0);
  auto far = GetParam().at(1);
  const Bytes address = far->listen().value();
  far.reset();
  auto link = near->connect({0, 5, net::kControlLane}, address).value();
  const auto step = [&] {
    near->poll();
    link->progress();
  };
  ASSERT_TRUE(drive(step, [&] { return net::is_over(link->state()); }));
  EXPECT_NE(link->error().text.find("cannot reach rank 5"), std::string::npos)
      << link->error().text;
}

// arm() either lets the next message wake a thread, or reports that it has already arrived.
TEST_P(NetworkEnds, WhatComesWakesWhoHasArmed) {
  LinkPair pair(GetParam());
  ASSERT_TRUE(pair.connected);
  Registered body(*pair.near_network, Bytes(100)), room(*pair.far_network, Bytes(100));
  CallRecord record;
  for (int round = 0; round < 50; ++round) {
    const auto request = pair.far->irecv(record, room.bytes, room.key);
    ASSERT_TRUE(pair.near->isend({}, body.bytes, body.key));
    // The far side becomes idle and then arms; the message arrives before or after that.
    while (pair.far->progress() || pair.far_network->poll()) {
    }
    const auto send = [&] {
      return drive(
          [&] {
            pair.near->progress();
            pair.near_network->poll();
          },
          [&] {
            return pair.near->test({static_cast<std::uint64_t>(round), true}).done;
          });
    };
    if (round % 2 == 0) {
      ASSERT_TRUE(send());
    }
    if (const bool armed = pair.far_network->arm(); armed) {
      if (round % 2 != 0) {
        ASSERT_TRUE(send());
      }
      pollfd entry{pair.far_network->poll_fd(), POLLIN, 0};
      ASSERT_EQ(::poll(&entry, 1, 300'000), 1) << "asleep beside a message, round " << round;
    } else if (round % 2 != 0) {
      ASSERT_TRUE(send());
    }
    ASSERT_TRUE(drive([&] { pair.turn_far(); }, [&] { return pair.far->test(*request).done; }));
  }
}

// A rank in its own process that sends numbered messages until it is killed.
struct SendingChild {
  explicit SendingChild(const NetworkKind& kind)
      : child([&](ByteSpan address) {
          const auto own = kind.at(0);
          Registered body(*own, pattern(30000, 1));
          auto link = own->connect({0, 1, 0}, address).value();
          for (;;) {
            (void)link->isend({}, body.bytes, body.key);
            link->progress();
            own->poll();
          }
        }),
        network(kind.at(1)) {
    child.send_address(network->listen().value());
  }
  ~SendingChild() {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  bool take() {
    if (!request) request = link->irecv(record_, room.bytes, room.key);
    return drive([&] { turn(); },
                 [&] {
                   if (!link->test(*request).done) return false;
                   whole &= room.bytes == body;
                   std::fill(room.bytes.begin(), room.bytes.end(), std::byte{0});
                   request.reset();
                   return true;
                 });
  }
  void turn() {
    network->poll();
    if (!link) link = network->accept();
    if (link) link->progress();
  }

  WaitingChild child;
  const pid_t pid = child.pid();
  std::unique_ptr<net::Network> network;
  Registered room{*network, Bytes(30000)};
  std::unique_ptr<net::Link> link;
  const Bytes body = pattern(30000, 1);
  CallRecord record_;
  std::optional<net::Request> request;
  bool whole = true;
};

TEST_P(NetworkEnds, APeerThatIsKilledEndsTheLinkAfterWholeMessages) {
  SendingChild child(GetParam());
  ASSERT_TRUE(drive([&] { child.turn(); }, [&] { return child.link != nullptr; }));
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(child.take());
  ::kill(child.pid, SIGKILL);
  child.request.reset();
  const auto step = [&] {
    if (!child.request)
      child.request = child.link->irecv(child.record_, child.room.bytes, child.room.key);
    child.turn();
    if (child.request && child.link->test(*child.request).done) {
      child.whole &= child.room.bytes == child.body;
      child.request.reset();
    }
  };
  ASSERT_TRUE(drive(step, [&] { return net::is_over(child.link->state()); }));
  EXPECT_TRUE(child.whole);
  EXPECT_NE(child.link->error().text.find("rank 0"), std::string::npos);
}

// A process that exits normally sends no farewell, but its sent messages arrive.
TEST_P(NetworkEnds, WhatAProcessHasSentBeforeItExitsIsDelivered) {
  constexpr std::uint64_t kMessages = 3;
  const Bytes content = pattern(400'000, 1);
  const WaitingChild child([&](ByteSpan address) {
    const auto own = GetParam().at(0);
    Registered body(*own, content);
    auto link = own->connect({0, 1, 0}, address).value();
    for (std::uint64_t i = 0; i < kMessages; ++i) (void)link->isend({}, body.bytes, body.key);
    while (!link->test({kMessages - 1, true}).done) {
      link->progress();
      own->poll();
    }
    ::_exit(0);
  });
  const auto network = GetParam().at(1);
  child.send_address(network->listen().value());
  std::vector<std::unique_ptr<Registered>> rooms;
  std::unique_ptr<net::Link> link;
  std::array<CallRecord, kMessages + 1> records;
  const auto step = [&] {
    network->poll();
    if (link) link->progress();
    if (link || !(link = network->accept())) return;
    for (std::uint64_t i = 0; i <= kMessages; ++i) {
      rooms.push_back(std::make_unique<Registered>(*network, Bytes(400'000)));
      ASSERT_TRUE(link->irecv(records[i], rooms[i]->bytes, rooms[i]->key));
    }
  };
  ASSERT_TRUE(drive(step, [&] { return link && link->state() != LinkState::kOpening; }));
  link->progress();  // a network reports free slots to its sender
  int status = 1;
  pid_t gone = 0;
  while (GetParam().both_move && (gone = ::waitpid(child.pid(), &status, WNOHANG)) == 0) step();
  if (gone == 0) gone = ::waitpid(child.pid(), &status, 0);
  ASSERT_EQ(gone, child.pid());
  EXPECT_EQ(status, 0);
  ASSERT_TRUE(drive(step, [&] { return net::is_over(link->state()); }));
  for (std::uint64_t i = 0; i < kMessages; ++i) {
    ASSERT_TRUE(link->test({i, false}).done) << i;
    EXPECT_EQ(rooms[i]->bytes, content) << i;
  }
  EXPECT_FALSE(link->test({kMessages, false}).done);
}

TEST_P(NetworkEnds, APeerThatIsStoppedGoesOnLater) {
  SendingChild child(GetParam());
  ASSERT_TRUE(drive([&] { child.turn(); }, [&] { return child.link != nullptr; }));
  for (int i = 0; i < 3; ++i) {
    ::kill(child.pid, SIGSTOP);
    const auto until = Clock::now() + std::chrono::milliseconds(50);
    while (Clock::now() < until) child.turn();
    EXPECT_FALSE(net::is_over(child.link->state()));
    ::kill(child.pid, SIGCONT);
    for (int k = 0; k < 10; ++k) ASSERT_TRUE(child.take());
  }
  EXPECT_TRUE(child.whole);
}

// The child inherits its parent's state and must change none of it.
TEST_P(NetworkEnds, AForkInMidTransferChangesNothing) {
  LinkPair pair(GetParam());
  ASSERT_TRUE(pair.connected);
  Registered body(*pair.near_network, pattern(1 << 20, 1)), room(*pair.far_network, Bytes(1 << 20));
  CallRecord record;
  int gate[2];
  ASSERT_EQ(::pipe(gate), 0);
  pid_t child = -1;
  for (int i = 0; i < 30; ++i) {
    ASSERT_TRUE(pair.near->isend({}, body.bytes, body.key));
    const auto request = pair.far->irecv(record, room.bytes, room.key);
    for (int k = 0; k < 2; ++k) pair.turn();
    if (i == 10 && (child = ::fork()) == 0) {
      ::close(gate[1]);
      char nothing;
      (void)!::read(gate[0], &nothing, 1);
      ::_exit(0);
    }
    ASSERT_TRUE(pair.until([&] { return pair.far->test(*request).done; })) << i;
    ASSERT_EQ(room.bytes, body.bytes) << i;
    std::fill(room.bytes.begin(), room.bytes.end(), std::byte{0});
  }
  pair.near->close();
  ASSERT_TRUE(pair.far->irecv(record, {}, 0));
  EXPECT_TRUE(pair.until([&] { return net::is_over(pair.far->state()); }))
      << "the end is not seen while the child lives";
  ::close(gate[0]);
  ::close(gate[1]);
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
}

// Without any descriptors, a link that opens reports an error and does not hang.
TEST_P(NetworkEnds, AConnectorWithoutDescriptorsEndsWithAnError) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(300);
    const auto near = GetParam().at(0), far = GetParam().at(1);
    const Bytes address = far->listen().value();
    rlimit none{0, 0};
    ::setrlimit(RLIMIT_NOFILE, &none);
    auto link = near->connect({0, 1, 0}, address);
    if (!link.ok()) ::_exit(0);
    const bool ended =
        drive([&] { (*link)->progress(); }, [&] { return net::is_over((*link)->state()); });
    const bool is_named = (*link)->error().text.find("ulimit -n") != std::string::npos;
    ::_exit(ended && is_named ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

// If the acceptor has no descriptors for a while, links open later, or their makers get an error.
TEST_P(NetworkEnds, AnAcceptorWithoutDescriptorsLeavesNobodyWaiting) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(300);
    const auto near = GetParam().at(0), far = GetParam().at(1);
    const Bytes address = far->listen().value();
    auto link = near->connect({0, 1, 0}, address).value();
    std::unique_ptr<net::Link> accepted;
    const auto step = [&] {
      link->progress();
      near->poll();
      far->poll();
      if (!accepted) accepted = far->accept();
      if (accepted) accepted->progress();
    };
    rlimit before{};
    ::getrlimit(RLIMIT_NOFILE, &before);
    rlimit none{static_cast<rlim_t>(::dup(0)), before.rlim_max};  // the next one is too many
    ::setrlimit(RLIMIT_NOFILE, &none);
    const auto until = Clock::now() + std::chrono::milliseconds(200);
    while (Clock::now() < until) step();
    ::setrlimit(RLIMIT_NOFILE, &before);
    const bool ended = drive(step, [&] {
      return net::is_over(link->state()) || (accepted && link->state() == LinkState::kOpen);
    });
    ::_exit(ended ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

INSTANTIATE_TEST_SUITE_P(Every, NetworkEnds, testing::ValuesIn(network_kinds()), kNameOfKind);

}  // namespace
}  // namespace rondo::test
