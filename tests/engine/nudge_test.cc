// SPDX-License-Identifier: Apache-2.0
// Ranks that nobody has bound leave a core that they share, on communicators of real threads.
#include "kernels/host/nudge.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <limits>

#include "collectives/status/inspect.h"
#include "tests/support/engine_rank.h"
#include "tests/support/environment.h"
#include "tests/support/processes.h"
#include "tests/support/sample_calls.h"
#include "tests/support/tagged_messages_seam.h"
#include "topology/cpu_budget.h"

namespace rondo::test {
namespace {

void bind_to(int cpu) {
  host::CoreMask only;
  only.set(cpu);
  ASSERT_TRUE(host::HostCores::set_mask(only));
}

// The CPUs of the ranks' newest calls; empty: not all are known.
std::vector<int> cores_of_ranks(int pid) {
  const auto views = inspect_process(pid);
  std::vector<int> cores;
  if (!views.ok()) return cores;
  for (const RankView& rank : views->front().ranks)
    if (rank.core >= 0) cores.push_back(rank.core);
  return cores.size() == views->front().ranks.size() ? cores : std::vector<int>{};
}

TEST(Nudge, RanksShowTheCoreToWhichTheyAreBound) {
  const int cpu = topology::affinity_cpus().front();
  RankProcesses ranks(2, short_timeouts(), [&](EngineRank& seat) {
    SampleCall sample(Collective::kAllReduce, 16, 2);
    bind_to(cpu);
    seat.expect(seat.comm->run({&sample.call, 1}).ok(), "a call");
    seat.mark(1);
    seat.wait_flag(1);
  });
  ASSERT_TRUE(ranks.wait_stage(1));
  EXPECT_EQ(cores_of_ranks(ranks.pid(0)), (std::vector<int>{cpu, cpu}));
  ranks.board().flag.store(1);
  ranks.wait_exits();
  ranks.check_expectations();
}

// A rank of a communicator that waits while its peer's line says that it is on the same core.
class WaitOnAPeersCore {
 public:
  explicit WaitOnAPeersCore(bool is_fiber = false) : comms_(make_communicators(2)) {
    run_ranks(comms_, [&](Communicator& comm) {
      boxes_[comm.rank()] = TaggedMessages::open(comms_[comm.rank()], 64).value();
    });
    state().supervisor.install(is_fiber);
    // However long its yield takes.
    state().host.waiter.set_budget({0, 1, std::numeric_limits<std::int64_t>::max()});
  }

  struct Cores {
    std::uint32_t published, of_peer;  // + 1; published: by the wait, 0: it has not moved
  };
  // A wait whose condition holds when it is checked after the spins and a yield.
  Cores wait() {
    const std::uint32_t here = host::HostCores::core();
    HostAtomics::store_relaxed(own(), std::uint32_t{0});
    HostAtomics::store_relaxed(state().host.peers[1].steps->core, here);
    int looks = 0;
    EXPECT_TRUE(state().host.waiter.until([&] { return ++looks == 2; }, {1, 0}));
    return {HostAtomics::load_relaxed(own()), here};
  }

 private:
  CommunicatorState& state() { return TaggedMessagesSeam::state(*boxes_[0]); }
  std::uint32_t& own() { return state().host.self().steps->core; }

  const Communicators comms_;
  std::shared_ptr<TaggedMessages> boxes_[2];
};

TEST(Nudge, AWaitThatIsNotOverWithinItsSpinsLeavesThePeersCore) {
  if (topology::usable_cores() < 2) GTEST_SKIP() << "one CPU";
  WaitOnAPeersCore rank;
  // The kernel may move the thread before it looks; then there is no peer on its core.
  EXPECT_TRUE(wait_until([&] {
    const auto cores = rank.wait();
    return cores.published != 0 && cores.published != cores.of_peer;
  }));
}

// A call in which the ranks announce no core: only a move of the thread publishes one.
TEST(Nudge, AThreadStaysWithTheRanksThatItDrives) {
  if (topology::usable_cores() < 2) GTEST_SKIP() << "one CPU";
  const Communicators comms = make_communicators(2);
  std::shared_ptr<TaggedMessages> boxes[2];
  run_ranks(comms, [&](Communicator& comm) {
    boxes[comm.rank()] = TaggedMessages::open(comms[comm.rank()], 64).value();
  });
  host::HostRank& view = TaggedMessagesSeam::state(*boxes[0]).host;
  for (int i = 0; i < 100; ++i) {
    SampleCall samples[] = {{Collective::kAllReduce, 16, 2}, {Collective::kAllReduce, 16, 2}};
    const Communicator::Work both[] = {{comms[0].get(), {&samples[0].call, 1}},
                                       {comms[1].get(), {&samples[1].call, 1}}};
    const std::uint32_t here = host::HostCores::core();
    for (const PeerPort& peer : view.peers) HostAtomics::store_relaxed(peer.steps->core, here);
    ASSERT_TRUE(Communicator::run_together(both).ok());
    if (view.sequence % 4 == 1) continue;  // see shared_core.h
    for (const PeerPort& peer : view.peers)
      EXPECT_EQ(HostAtomics::load_relaxed(peer.steps->core), here);
  }
}

// As in the wait of a rank that is one of several fibers.
TEST(Nudge, AWaitOfAFiberStaysWithThePeersOfItsProcess) {
  WaitOnAPeersCore rank(true);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(rank.wait().published, 0u);
}

TEST(Nudge, StaysByTheVariable) {
  const WithEnvironment off("RONDO_NUDGE", "0");
  WaitOnAPeersCore rank;
  for (int i = 0; i < 100; ++i) EXPECT_EQ(rank.wait().published, 0u);
}

}  // namespace
}  // namespace rondo::test
