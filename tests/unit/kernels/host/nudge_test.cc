// SPDX-License-Identifier: Apache-2.0
// Who leaves a shared core, for which core, and what remains of its mask: on simulated cores, and
// once on those of this machine.
#include "kernels/host/nudge.h"

#include <gtest/gtest.h>

#include <functional>
#include <initializer_list>
#include <optional>
#include <thread>
#include <utility>

#include "base/seconds.h"

namespace rondo::host {
namespace {

CoreMask mask_of(std::initializer_list<int> cores) {
  CoreMask mask;
  for (const int core : cores) mask.set(core);
  return mask;
}

// One thread on a simulated machine. A mask without its core moves it to the mask's first core.
struct SimCores {
  static inline std::uint32_t on = 1;
  static inline CoreMask mask;
  static inline CoreMask online;
  static inline std::int64_t time = 0;
  static inline int calls = 0;                       // that would be system calls
  static inline std::optional<CoreMask> meddle;      // the mask that another program sets in a move
  static inline std::function<void()> while_moving;  // what a peer does once the core is free

  static std::uint32_t core() { return on; }
  static std::int64_t now() { return time; }
  static bool read_mask(CoreMask& read) {
    ++calls;
    read = mask;
    return true;
  }
  static bool set_mask(const CoreMask& wanted) {
    ++calls;
    CoreMask usable;
    for (int core = 0; core < CoreMask::kCores; ++core)
      if (wanted.has(core) && online.has(core)) usable.set(core);
    if (usable == CoreMask{}) return false;  // EINVAL
    mask = usable;
    if (!mask.has(static_cast<int>(on) - 1))
      on = static_cast<std::uint32_t>(mask.next(CoreMask::kCores - 1)) + 1;
    if (meddle) mask = *meddle;
    meddle.reset();
    if (const auto peer = std::exchange(while_moving, nullptr)) peer();
    return true;
  }
};

// Three ranks on the cores 0, 1 and 0 of four. Rank 0 is the thread that waits.
class Nudges : public testing::Test {
 protected:
  Nudges() {
    for (const std::uint32_t core : {1, 2, 1})
      lines_.push_back({.step = 0, .sequence = 0, .core = core, .echo = 0});
    for (StepLine& line : lines_) {
      PeerPort port{};
      port.steps = &line;
      ports_.push_back(port);
    }
    SimCores::on = 1;
    SimCores::mask = SimCores::online = mask_of({0, 1, 2, 3});
    SimCores::time = 1'000'000'000;
    SimCores::calls = 0;
    SimCores::meddle.reset();
    SimCores::while_moving = nullptr;
    nudge_.enable({});
  }
  void look(bool drives_others = false) { nudge_.look(ports_, 0, drives_others); }
  // Another rank comes to this rank's core.
  void meet_again() { lines_[2].core = SimCores::on; }

  using Tried = BasicNudge<SimCores>;
  std::vector<StepLine> lines_;
  std::vector<PeerPort> ports_;
  Tried nudge_;
};

TEST_F(Nudges, MoveTheRankThatWaitsToACoreWithoutPeersAndRestoreItsMask) {
  look();
  EXPECT_EQ(SimCores::on, 3u);
  EXPECT_EQ(SimCores::mask, mask_of({0, 1, 2, 3}));
  EXPECT_EQ(lines_[0].core, 3u) << "published, so that no peer comes there";
  EXPECT_EQ(lines_[2].core, 1u);
}

TEST_F(Nudges, AreOffUnlessEnabled) {
  Tried off;  // RONDO_NUDGE=0, or more ranks than cores
  off.look(ports_, 0, false);
  EXPECT_EQ(SimCores::on, 1u);
  EXPECT_EQ(SimCores::calls, 0);
}

TEST_F(Nudges, OnlyOneOfTwoRanksThatMeetMoves) {
  look();
  Tried other;
  other.enable({});
  SimCores::on = 1;  // rank 2's thread
  SimCores::calls = 0;
  other.look(ports_, 2, false);
  EXPECT_EQ(SimCores::on, 1u);
  EXPECT_EQ(SimCores::calls, 0);
}

TEST_F(Nudges, OnlyOneMovesWhereThePeerRunsDuringTheMove) {
  Tried other;
  other.enable({});
  std::uint32_t peers_core = 0;
  SimCores::while_moving = [&] {
    const std::uint32_t moved_to = std::exchange(SimCores::on, 1);
    const CoreMask during = std::exchange(SimCores::mask, mask_of({0, 1, 2, 3}));
    other.look(ports_, 2, false);
    peers_core = std::exchange(SimCores::on, moved_to);
    SimCores::mask = during;
  };
  look();
  EXPECT_EQ(SimCores::on, 3u);
  EXPECT_EQ(peers_core, 1u) << "rank 2";
}

TEST_F(Nudges, LeaveARankThatIsAloneOnItsCoreWithoutASystemCall) {
  lines_[2].core = 4;
  look();
  EXPECT_EQ(SimCores::on, 1u);
  EXPECT_EQ(SimCores::calls, 0);
}

TEST_F(Nudges, DoNotCountPeersWhoseCoreIsUnknown) {
  lines_[2].core = 0;
  SimCores::on = 0;
  look();
  EXPECT_EQ(SimCores::calls, 0);
}

TEST_F(Nudges, LeaveNoRankThatTheSameThreadDrives) {
  ports_[2].same_process = true;
  look(true);
  EXPECT_EQ(SimCores::on, 1u);
  EXPECT_EQ(SimCores::calls, 0);
  SimCores::time += Tried::kBetweenMoves;
  lines_[1].core = 1;  // of another process
  look(true);
  EXPECT_EQ(SimCores::on, 2u);
}

TEST_F(Nudges, LeaveRanksOfTheSameProcessThatOtherThreadsDrive) {
  ports_[2].same_process = true;
  look();
  EXPECT_EQ(SimCores::on, 3u);
}

TEST_F(Nudges, ComeOncePerInterval) {
  look();
  EXPECT_EQ(SimCores::on, 3u);
  meet_again();
  SimCores::time += Tried::kBetweenMoves - 1;
  look();
  EXPECT_EQ(SimCores::on, 3u);
  SimCores::time += 1;
  look();
  EXPECT_EQ(SimCores::on, 4u);
}

TEST_F(Nudges, PauseLongAfterAMoveThatTookLong) {
  constexpr std::int64_t kTook = 5'000'000;
  SimCores::while_moving = [] { SimCores::time += kTook; };
  look();
  meet_again();
  SimCores::time += Tried::kPausePerMove * kTook - 1;
  look();
  EXPECT_EQ(SimCores::on, 3u);
  SimCores::time += 1;
  look();
  EXPECT_EQ(SimCores::on, 4u);
}

TEST_F(Nudges, LookMoreOftenThanTheyMove) {
  lines_[2].core = 4;
  look();
  meet_again();
  look();
  EXPECT_EQ(SimCores::on, 1u) << "at once again";
  SimCores::time += Tried::kBetweenLooks;
  look();
  EXPECT_EQ(SimCores::on, 3u);
}

TEST_F(Nudges, MoveNobodyIfAllUsableCoresCarryPeers) {
  SimCores::mask = mask_of({0, 1});
  look();
  EXPECT_EQ(SimCores::on, 1u);
  EXPECT_EQ(SimCores::mask, mask_of({0, 1}));
  EXPECT_EQ(SimCores::calls, 1) << "only reads the mask";
}

// The machine of the next tests: CPUs by physical core, cache and node.
using topology::CpuPlace;
const std::vector<CpuPlace> kNeighbouringThreads = {{0, 0, 0}, {0, 0, 0}, {2, 0, 0}, {2, 0, 0}};

TEST_F(Nudges, PreferACoreOfWhichNoHardwareThreadCarriesAPeer) {
  lines_[1].core = 0;
  nudge_.enable(kNeighbouringThreads);
  look();
  EXPECT_EQ(SimCores::on, 3u) << "not 2, beside rank 2";
}

TEST_F(Nudges, TakeAHardwareThreadBesideAPeerIfThereIsNoOther) {
  SimCores::mask = mask_of({0, 1});
  lines_[1].core = 0;
  nudge_.enable(kNeighbouringThreads);
  look();
  EXPECT_EQ(SimCores::on, 2u);
}

TEST_F(Nudges, PreferTheSameCacheThenTheSameNode) {
  const std::vector<CpuPlace> machine = {{0, 0, 0}, {1, 1, 1}, {2, 2, 0}, {3, 0, 0}};
  lines_[1].core = 0;
  nudge_.enable(machine);
  look();
  EXPECT_EQ(SimCores::on, 4u) << "CPU 3: the same cache";
  meet_again();
  lines_[1].core = 1;
  SimCores::time += Tried::kBetweenMoves;
  look();
  EXPECT_EQ(SimCores::on, 3u) << "CPU 2: the same node";
}

TEST_F(Nudges, TakeAWholeCoreOfAnotherNodeRatherThanAThreadBesideAPeer) {
  const std::vector<CpuPlace> machine = {{0, 0, 0}, {0, 0, 0}, {2, 2, 2}};
  lines_[1].core = 0;
  nudge_.enable(machine);
  look();
  EXPECT_EQ(SimCores::on, 3u);
}

TEST_F(Nudges, GoByTheNumberWhereTheMachineIsUnknown) {
  const std::vector<CpuPlace> only_of_here = {{0, 0, 0}};
  lines_[1].core = 0;
  nudge_.enable(only_of_here);
  look();
  EXPECT_EQ(SimCores::on, 2u);
}

TEST_F(Nudges, StayInAMaskOfOneCore) {
  SimCores::mask = mask_of({0});
  look();
  EXPECT_EQ(SimCores::on, 1u);
}

TEST_F(Nudges, MayUseTheCoreThatThisRankItselfHasPublished) {
  SimCores::mask = mask_of({0, 1});
  SimCores::on = 2;  // the kernel has moved it to rank 1 since its call
  lines_[2].core = 3;
  look();
  EXPECT_EQ(SimCores::on, 1u);
}

TEST_F(Nudges, ReadTheMaskAnewAtEachMove) {
  look();
  meet_again();
  SimCores::time += Tried::kBetweenMoves;
  SimCores::mask = mask_of({0, 2});
  look();
  EXPECT_EQ(SimCores::on, 1u);
  EXPECT_EQ(SimCores::mask, mask_of({0, 2}));
}

TEST_F(Nudges, KeepAMaskThatAnotherProgramSetsDuringTheMove) {
  SimCores::meddle = mask_of({1, 3});
  look();
  EXPECT_EQ(SimCores::mask, mask_of({1, 3}));
}

TEST_F(Nudges, StayWhereTheChosenCoreIsOffline) {
  SimCores::online = mask_of({0, 1});
  look();
  EXPECT_EQ(SimCores::on, 1u);
  EXPECT_EQ(SimCores::mask, mask_of({0, 1, 2, 3}));
  EXPECT_EQ(lines_[0].core, 1u) << "published";
}

TEST_F(Nudges, KnowMoreThan1024Cores) {
  SimCores::mask = SimCores::online = mask_of({0, 1, 3000});
  look();
  EXPECT_EQ(SimCores::on, 3001u);
  EXPECT_EQ(SimCores::mask, mask_of({0, 1, 3000}));
}

TEST(CoreMask, GoesAroundFromEveryCore) {
  const CoreMask mask = mask_of({0, 63, 64, 200, 8191});
  EXPECT_EQ(mask.next(0), 63);
  EXPECT_EQ(mask.next(63), 64);
  EXPECT_EQ(mask.next(64), 200);
  EXPECT_EQ(mask.next(128), 200);
  EXPECT_EQ(mask.next(200), 8191);
  EXPECT_EQ(mask.next(8191), 0);
  EXPECT_EQ(mask_of({5}).next(5), -1);
  EXPECT_EQ(CoreMask{}.next(7), -1);
}

// The kernel may move the thread too, so the meeting is repeated until it lasts to the look.
TEST(HostCores, AThreadLeavesThePeersCoreAndKeepsItsMask) {
  std::thread([] {
    CoreMask all;
    ASSERT_TRUE(HostCores::read_mask(all));
    const int first = static_cast<int>(HostCores::core()) - 1, second = all.next(first);
    if (second < 0) GTEST_SKIP() << "one CPU";
    StepLine lines[2] = {};
    lines[1].core = static_cast<std::uint32_t>(first) + 1;
    std::vector<PeerPort> ports(2);
    for (int r : {0, 1}) ports[r].steps = &lines[r];
    const CoreMask both = mask_of({first, second});
    const std::int64_t over = now_ns() + 300'000'000'000;
    while (lines[0].core != static_cast<std::uint32_t>(second) + 1) {
      ASSERT_LT(now_ns(), over) << "it never moved";
      EXPECT_TRUE(HostCores::set_mask(mask_of({first})));
      EXPECT_TRUE(HostCores::set_mask(both));
      Nudge nudge;
      nudge.enable({});
      nudge.look(ports, 0, false);
      CoreMask now;
      EXPECT_TRUE(HostCores::read_mask(now));
      EXPECT_EQ(now, both);
    }
  }).join();
}

}  // namespace
}  // namespace rondo::host
