// SPDX-License-Identifier: Apache-2.0
// Ranks that nobody has bound leave a core that they share, on communicators of real threads.
#include "kernels/host/nudge.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <initializer_list>
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

void bind_to(std::initializer_list<int> cpus) {
  host::CoreMask mask;
  for (const int cpu : cpus) mask.set(cpu);
  ASSERT_TRUE(host::HostCores::set_mask(mask));
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

TEST(Nudge, RanksThatStartOnOneCoreComeToTwo) {
  const topology::CpuList cpus = topology::affinity_cpus();
  if (topology::usable_cores() < 2) GTEST_SKIP() << "one CPU";
  RankProcesses ranks(2, short_timeouts(), [&](EngineRank& seat) {
    SampleCall sample(Collective::kAllReduce, 16, 2);
    const auto call = [&] { seat.expect(seat.comm->run({&sample.call, 1}).ok(), "a call"); };
    bind_to({cpus[0]});
    call();
    seat.mark(1);
    seat.wait_flag(1);
    bind_to({cpus[0], cpus[1]});
    // Rank 0 decides when both stop.
    for (bool goes_on = true; goes_on;) {
      for (int i = 0; i < 100; ++i) call();
      if (seat.rank == 0) seat.mine().value.store(static_cast<unsigned>(seat.board.flag.load()));
      seat.board.meet();
      goes_on = seat.board.seats[0].value.load() < 2;
      seat.board.meet();
    }
  });
  ASSERT_TRUE(ranks.wait_stage(1));
  EXPECT_EQ(cores_of_ranks(ranks.pid(0)), (std::vector<int>{cpus[0], cpus[0]}));
  ranks.board().flag.store(1);
  EXPECT_TRUE(wait_until([&] {
    const std::vector<int> cores = cores_of_ranks(ranks.pid(0));
    return cores.size() == 2 && cores[0] != cores[1];
  }));
  ranks.board().flag.store(2);
  ranks.wait_exits();
  ranks.check_expectations();
}

// A rank of a communicator that waits while its peer's line says that it is on the same core.
class WaitOnAPeersCore {
 public:
  WaitOnAPeersCore() : comms_(make_communicators(2)) {
    run_ranks(comms_, [&](Communicator& comm) {
      boxes_[comm.rank()] = TaggedMessages::open(comms_[comm.rank()], 64).value();
    });
    state().supervisor.install(false);
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

TEST(Nudge, StaysByTheVariable) {
  const WithEnvironment off("RONDO_NUDGE", "0");
  WaitOnAPeersCore rank;
  for (int i = 0; i < 100; ++i) EXPECT_EQ(rank.wait().published, 0u);
}

}  // namespace
}  // namespace rondo::test
