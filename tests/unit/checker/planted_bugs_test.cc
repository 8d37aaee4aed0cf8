// SPDX-License-Identifier: Apache-2.0
// The checker finds bugs: each algorithm here has one planted bug, and the finding must name it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/double_tree.h"
#include "kernels/algorithms/direct.h"
#include "kernels/algorithms/two_shot.h"
#include "tests/checker/links_checker.h"
#include "tests/checker/peer_memory_checker.h"

namespace rondo::check {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;

constexpr int kRanks = 4;
constexpr Rounds kRounds{25, 3, 1};
constexpr std::uint32_t kAll = kExposesInput | kExposesOutput;

CallSpec all_reduce(int ranks = kRanks) {
  return {Collective::kAllReduce, ranks, 0, kRounds.count, false, tree_order(ranks)};
}
CallSpec broadcast(int root) {
  return {Collective::kBroadcast, kRanks, root, kRounds.count, false, {}};
}

// Runs an algorithm twice, one call after the other; all ranks expose the same buffers.
template <class Algorithm>
std::string find_in(const CallSpec& spec, std::uint32_t exposure, Algorithm&& text,
                    std::uint64_t slot_elements = kRounds.per_round) {
  Expressions pool;
  PeerMemoryChecker checker(pool, {.ranks = spec.ranks, .slot_elements = slot_elements});
  for (int k = 0; k < 2; ++k)
    checker.call(spec, std::vector<std::uint32_t>(spec.ranks, exposure), text);
  return checker.run().finding;
}

// A broadcast from rank 0 with a switch for each step that an author can forget.
struct BroadcastBugs {
  bool open = true, reader_publishes = true, wait = true, release = true;
  int extra = 0;  // elements copied beyond the end
};

auto broken_broadcast(BroadcastBugs is) {
  return [is](auto& p) {
    for (std::uint64_t round = 0; round < kRounds.size(); ++round) {
      const Slice part = kRounds[round];
      const Piece all{part.begin, 0, part.count};
      if (p.rank() == 0) {
        if (is.open) p.open(slot_of(round));
        p.expose(slot_of(round), all);
        p.publish();
        p.copy_own(part.begin, part.begin, part.count);
      } else {
        if (is.reader_publishes) p.publish();
        if (is.wait) p.wait(0);
        p.copy(0, slot_of(round), {part.begin, 0, part.count + is.extra}, part.begin);
      }
    }
    if (is.release) p.release();
  };
}

TEST(PlantedBugs, AreTheOnlyThingWrongWithTheirTexts) {
  for (const std::uint32_t exposure : {std::uint32_t{0}, kAll})
    EXPECT_EQ(find_in(broadcast(0), exposure, broken_broadcast({})), "");
}

TEST(PlantedBugs, ReadingWithoutWaiting) {
  for (const std::uint32_t exposure : {std::uint32_t{0}, kAll})
    EXPECT_THAT(find_in(broadcast(0), exposure, broken_broadcast({.wait = false})),
                HasSubstr("no signal orders it after rank 0 writing it"));
}

TEST(PlantedBugs, WaitingForThePeerOnceOnly) {
  const auto text = [](auto& p) {
    for (std::uint64_t round = 0; round < kRounds.size(); ++round) {
      const Piece all{kRounds[round].begin, 0, kRounds[round].count};
      if (p.rank() == 0) {
        p.open(slot_of(round));
        p.expose(slot_of(round), all);
      }
      p.publish();
      if (p.rank() != 0) {
        if (round == 0) p.wait(0);
        p.copy(0, slot_of(round), all, all.at);
      } else {
        p.copy_own(all.at, all.at, all.count);
      }
    }
    p.release();
  };
  EXPECT_THAT(find_in(broadcast(0), 0, text), HasSubstr("no signal orders it after rank 0"));
  // Without staging one publication is enough.
  EXPECT_EQ(find_in(broadcast(0), kAll, text), "");
}

TEST(PlantedBugs, OverwritingASlotWithoutOpeningIt) {
  EXPECT_THAT(find_in(broadcast(0), 0, broken_broadcast({.open = false})),
              AllOf(HasSubstr("slot 0 of rank 0"), HasSubstr("no signal orders it after")));
}

TEST(PlantedBugs, ReadersThatDoNotPublish) {
  EXPECT_NE(find_in(broadcast(0), 0, broken_broadcast({.reader_publishes = false})), "");
}

TEST(PlantedBugs, NotReleasingStagedSlotsBlocksTheNextCall) {
  const auto text = [](auto& p) {
    const Piece all{0, 0, kRounds.count};
    p.open(0);
    p.expose(0, all);
    p.publish();
    wait_for_all(p);
    p.reduce(0, all, {true, 0, -1, 0, -1});
  };
  EXPECT_THAT(find_in(all_reduce(), 0, text, kRounds.count), HasSubstr("deadlock"));
}

TEST(PlantedBugs, NotReleasingExposedBuffersLetsTheCallerWriteWhilePeersRead) {
  EXPECT_THAT(find_in(broadcast(0), kAll, broken_broadcast({.release = false})),
              AllOf(HasSubstr("the buffers of rank 0, call 0"), HasSubstr("no signal orders it")));
}

TEST(PlantedBugs, OneElementTooMany) {
  EXPECT_NE(find_in(broadcast(0), 0, broken_broadcast({.extra = 1})), "");
  EXPECT_THAT(find_in(broadcast(0), kAll, broken_broadcast({.extra = 1})),
              HasSubstr("touches element 25 of the input of rank 0, call 0, which has 25"));
}

TEST(PlantedBugs, OneElementTooFew) {
  EXPECT_THAT(find_in(broadcast(0), kAll, broken_broadcast({.extra = -1})),
              HasSubstr("and should be r0[2]"));
}

TEST(PlantedBugs, OneSlotForAllRounds) {
  const auto text = [](auto& p) {
    for (std::uint64_t round = 0; round < kRounds.size(); ++round) {
      const Piece all{kRounds[round].begin, 0, kRounds[round].count};
      p.open(0);
      p.expose(0, all);
      p.publish();
      wait_for_all(p);
      p.reduce(0, all, {true, all.at, -1, 0, -1});
    }
    p.release();
  };
  EXPECT_THAT(find_in(all_reduce(), 0, text),
              HasSubstr("rank 0 waits in open for step 2 of rank 1, which has taken 1"));
}

TEST(PlantedBugs, RoundsThatDoNotFitTheSlot) {
  EXPECT_THAT(find_in(
                  all_reduce(), 0, [](auto& p) { two_shot_all_reduce(p, kRounds); }, 2),
              HasSubstr("overflows its slot 0: elements 2 to 3 of 2"));
}

// A two-shot with one bug: each rank fetches the results of a round without waiting, or fetches the
// wrong ones.
template <class Owner>
auto broken_two_shot(bool wait, Owner&& owner_of) {
  return [=](auto& p) {
    const Slice whole{0, kRounds.count};
    const auto piece = [&](int owner) {
      const Slice part = part_of(whole, owner, p.size(), 1);
      return Piece{part.begin, part.begin, part.count};
    };
    p.open(0);
    p.expose(0, {0, 0, whole.count});
    p.publish();
    wait_for_all(p);
    p.open(2);
    const Piece mine = piece(owner_of(p.rank()));
    p.reduce(0, mine, {true, mine.at, 2, mine.window, -1});
    p.publish();
    for (int k = 1; k < p.size(); ++k) {
      const int owner = (p.rank() + k) % p.size();
      if (wait) p.wait(owner);
      p.copy_result(owner, 2, piece(owner));
    }
    p.release();
  };
}

TEST(PlantedBugs, FetchingResultsBeforeTheyArePublished) {
  const auto self = [](int rank) { return rank; };
  EXPECT_EQ(find_in(all_reduce(), 0, broken_two_shot(true, self), kRounds.count), "");
  EXPECT_EQ(find_in(all_reduce(), kAll, broken_two_shot(true, self), kRounds.count), "");
  EXPECT_THAT(find_in(all_reduce(), 0, broken_two_shot(false, self), kRounds.count),
              AnyOf(HasSubstr("no signal orders"), HasSubstr("nobody has written")));
}

TEST(PlantedBugs, ReducingTheWrongPart) {
  const auto next = [](int rank) { return (rank + 1) % kRanks; };
  EXPECT_NE(find_in(all_reduce(), 0, broken_two_shot(true, next), kRounds.count), "");
  EXPECT_NE(find_in(all_reduce(), kExposesInput, broken_two_shot(true, next), kRounds.count), "");
  // If results are written directly into every output, any rank may reduce any part.
  EXPECT_EQ(find_in(all_reduce(), kAll, broken_two_shot(true, next), kRounds.count), "");
}

TEST(PlantedBugs, ARankThatPublishesOnceMore) {
  const auto text = [](auto& p) {
    direct_broadcast(p, 0, kRounds);
    if (p.rank() == 2) p.publish();
  };
  EXPECT_THAT(find_in(broadcast(0), kAll, text), HasSubstr("has published"));
}

TEST(PlantedBugs, TheWrongRoot) {
  const auto text = [](auto& p) { direct_broadcast(p, 1, kRounds); };
  EXPECT_NE(find_in(broadcast(0), 0, text), "");
}

TEST(PlantedBugs, AnotherOrderThanTheTables) {
  CallSpec spec = all_reduce();
  spec.reduced = ring_order({0, 1, 2, 3}, [](std::uint64_t) { return 0; });
  EXPECT_THAT(find_in(spec, 0, [](auto& p) { two_shot_all_reduce(p, kRounds); }),
              HasSubstr("is finish((r0[0] + r1[0]) + (r2[0] + r3[0])) and should be "
                        "finish(((r0[0] + r1[0]) + r2[0]) + r3[0])"));
}

TEST(PlantedBugs, ABarrierThatDoesNotWaitForTheLastRank) {
  const auto text = [](auto& p) {
    p.publish();
    for (int r = 0; r < p.size() - 1; ++r)
      if (r != p.rank()) p.wait(r);
    p.release();
  };
  const CallSpec spec{Collective::kBarrier, kRanks, 0, 0, false, {}};
  EXPECT_THAT(find_in(spec, 0, text), HasSubstr("element 3 of the announcements of call 0"));
}

// Runs an algorithm over connections.
template <class Algorithm>
std::string find_in_links(const CallSpec& spec, int slots, Algorithm&& text) {
  Expressions pool;
  LinksChecker checker(pool,
                       {.ranks = spec.ranks, .slots = slots, .slot_elements = kRounds.per_round});
  for (int k = 0; k < 2; ++k) checker.call(spec, text);
  return checker.run().finding;
}

Chunk chunk(std::uint64_t round) { return chunk_of(kRounds[round], 0, kRounds.per_round); }

CallSpec tree_spec(int ranks) {
  CallSpec spec = all_reduce(ranks);
  spec.reduced = double_tree_order(ranks, -1, [](std::uint64_t) { return 0; });
  return spec;
}

template <bool kAtOnce>
void single_tree(LinksProgram& c) {
  const TreeLinks tree = double_tree(c.rank(), c.size(), 0);
  const Peers parent{tree.parent, -1}, children{tree.child[0], tree.child[1]};
  const bool is_root = tree.parent == kNoRank;
  auto up = c.between(children, is_root ? children : parent, 0);
  auto down = c.between(parent, children, 0);
  const auto go_up = [&] {
    for (std::uint64_t r = 0; r < kRounds.size(); ++r)
      is_root ? up.recv_reduce_copy_send(chunk(r)) : up.recv_reduce_send(chunk(r));
  };
  const auto go_down = [&] {
    for (std::uint64_t r = 0; r < kRounds.size() && !is_root; ++r) down.recv_copy_send(chunk(r));
  };
  if (kAtOnce) return c.roles(go_up, go_down);
  go_up();
  go_down();
}

TEST(PlantedBugs, ATreeAllUpThenAllDownDeadlocksWithMoreRoundsThanSlots) {
  EXPECT_EQ(find_in_links(tree_spec(3), 1, single_tree<true>), "");
  EXPECT_EQ(find_in_links(tree_spec(7), 4, single_tree<true>), "");
  EXPECT_THAT(find_in_links(tree_spec(3), 4, single_tree<false>),
              AllOf(HasSubstr("deadlock"),
                    HasSubstr("rank 1 waits in recv_reduce_copy_send for a free slot to"),
                    HasSubstr("rank 0 waits in recv_reduce_send for a free slot to")));
  // With as many slots as rounds it does not deadlock.
  EXPECT_EQ(find_in_links(tree_spec(3), 32, single_tree<false>), "");
}

// A chain that reduces towards the last rank, with a switch for each possible bug.
struct ChainBugs {
  bool own_first = false, finished = true, all_received = true;
  std::uint64_t sent_too_few = 0;
};

auto broken_chain(ChainBugs is) {
  return [is](LinksProgram& c) {
    const int me = c.rank(), last = c.size() - 1;
    auto port = c.between({me - 1}, {me == last ? -1 : me + 1}, 0);
    for (std::uint64_t r = 0; r < kRounds.size(); ++r) {
      Chunk piece = chunk(r);
      if (me == 0) {
        piece.count -= is.sent_too_few;
        port.send(piece);
      } else if (me != last) {
        port.recv_reduce_send(piece);
      } else if (is.own_first || !is.finished) {
        c.between({}, {}, 0).copy_send(piece);
        is.own_first ? port.recv_reduce_after(piece) : port.recv_reduce_before(piece);
        if (is.finished) port.finish(piece);
      } else if (is.all_received || r + 1 < kRounds.size()) {
        port.recv_reduce_copy(piece);
      }
    }
  };
}

CallSpec chain_spec() {
  return {Collective::kReduce, kRanks, kRanks - 1,
          kRounds.count,       false,  ring_order({0, 1, 2, 3}, [](std::uint64_t) { return 0; })};
}

TEST(PlantedBugs, ChainsThatAreRight) {
  EXPECT_EQ(find_in_links(chain_spec(), 1, broken_chain({})), "");
}

TEST(PlantedBugs, OperandsTheWrongWayRound) {
  EXPECT_THAT(find_in_links(chain_spec(), 1, broken_chain({.own_first = true})),
              HasSubstr("is finish(r3[0] + ((r0[0] + r1[0]) + r2[0])) and should be "
                        "finish(((r0[0] + r1[0]) + r2[0]) + r3[0])"));
}

TEST(PlantedBugs, AResultThatIsNotFinished) {
  EXPECT_THAT(find_in_links(chain_spec(), 1, broken_chain({.finished = false})),
              HasSubstr("is (((r0[0] + r1[0]) + r2[0]) + r3[0]) and should be finish("));
}

TEST(PlantedBugs, AMessageThatIsShorterThanExpected) {
  EXPECT_THAT(
      find_in_links(chain_spec(), 1, broken_chain({.sent_too_few = 1})),
      HasSubstr("rank 1 expects 3 elements of call 0 in recv_reduce_send, and rank 0 sent 2"));
}

TEST(PlantedBugs, AMessageThatNobodyReceives) {
  EXPECT_NE(find_in_links(chain_spec(), 64, broken_chain({.all_received = false})), "");
}

TEST(PlantedBugs, AChunkThatDoesNotFitTheSlot) {
  EXPECT_THAT(find_in_links(chain_spec(), 1,
                            [](LinksProgram& c) {
                              auto port = c.between({c.rank() - 1}, {c.rank() + 1}, 0);
                              port.send({0, 0, kRounds.per_round + 1});
                            }),
              HasSubstr("rank 0 moves 4 elements in send, and a slot has 3"));
}

TEST(PlantedBugs, EverybodySendsFirstAndNobodyReceives) {
  const auto text = [](LinksProgram& c) {
    auto port = c.between({(c.rank() + 1) % 2}, {(c.rank() + 1) % 2}, 0);
    for (std::uint64_t r = 0; r < kRounds.size(); ++r) port.send(chunk(r));
    for (std::uint64_t r = 0; r < kRounds.size(); ++r) port.recv(chunk(r));
  };
  EXPECT_THAT(find_in_links(all_reduce(2), 4, text),
              HasSubstr("deadlock: rank 0 waits in send for a free slot to rank 1 (message 4); "
                        "rank 1 waits in send for a free slot to rank 0 (message 4)"));
}

// Two ranks send each other their input and receive into their output at the same time.
TEST(PlantedBugs, RolesThatTouchTheSameMemory) {
  const auto text = [](LinksProgram& c) {
    const int other = 1 - c.rank();
    auto to = c.between({}, {other}, 0), from = c.between({other}, {}, 0);
    const auto send = [&] {
      for (std::uint64_t r = 0; r < kRounds.size(); ++r) to.send(chunk(r));
    };
    const auto receive = [&] {
      for (std::uint64_t r = 0; r < kRounds.size(); ++r) from.recv(chunk(r));
    };
    c.roles(send, receive);
  };
  CallSpec spec{Collective::kAllReduce, 2, 0, kRounds.count, true, tree_order(2)};
  EXPECT_THAT(find_in_links(spec, 2, text), AllOf(HasSubstr("(role 1)"), HasSubstr("(role 2)"),
                                                  HasSubstr("no signal orders it")));
}

TEST(PlantedBugs, RolesThatShareAConnection) {
  const auto text = [](LinksProgram& c) {
    auto port = c.between({1 - c.rank()}, {1 - c.rank()}, 0);
    const auto half = [&](std::uint64_t begin) {
      return [&port, begin] {
        port.send({begin, begin, 1});
        port.recv({begin, begin, 1});
      };
    };
    c.roles(half(0), half(1));
  };
  const CallSpec spec{Collective::kAllReduce, 2, 0, 2, false, tree_order(2)};
  EXPECT_THAT(find_in_links(spec, 2, text), HasSubstr("of the ends of connection 0 from rank"));
}

}  // namespace
}  // namespace rondo::check
