// SPDX-License-Identifier: Apache-2.0
// Ranks of one host that cannot share memory (a sandbox refuses a system call, or a network
// namespace hides a Unix socket) use TCP, and log it once.
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>

#include "tests/gpu/rank_logs.h"
#include "tests/support/engine_rank.h"
#include "tests/support/joined_namespaces.h"
#include "tests/support/processes.h"
#include "tests/support/sample_calls.h"
#include "transport/shm/arena.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

namespace rondo::test {
namespace {

// A system call that is refused to the process if argument number `argument` has this value. -1:
// refused in every case.
struct Refusal {
  const char* title;
  std::uint32_t call;
  int error;
  int argument = -1;
  std::uint32_t value = 0;
};

bool refuse(const Refusal& what) {
  const bool any = what.argument < 0;
  const auto argument = static_cast<std::uint32_t>(offsetof(seccomp_data, args)) +
                        static_cast<std::uint32_t>(any ? 0 : what.argument * 8);
  const auto error = static_cast<std::uint32_t>(what.error);
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, what.call, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, argument),
      BPF_JUMP(BPF_JMP | (any ? BPF_JGE : BPF_JEQ) | BPF_K, what.value, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{std::size(program), program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

constexpr const char* kMessage = "cannot share memory";

// Makes the communicator, checks a sum and a message around the ring, records the number of hosts.
void make_and_check(EngineRank& seat) {
  if (const Status joined = seat.join(short_timeouts()); !joined.ok()) return seat.report(joined);
  for (const std::size_t count : {std::size_t{1}, std::size_t{300'000}}) {
    SampleCall sample(Collective::kAllReduce, count, seat.size);
    std::fill_n(sample.input(), count, seat.rank + 1);
    const Status ran = seat.comm->run({&sample.call, 1});
    if (!ran.ok()) return seat.report(ran);
    const auto wrong = std::count_if(sample.output(), sample.output() + count, [&](int sum) {
      return sum != seat.size * (seat.size + 1) / 2;
    });
    seat.expect(wrong == 0 && sample.guards_intact(), fmt::format("{} wrong sums", wrong));
  }
  const auto arena = shm::Arena::of_process();
  const auto block = arena.ok() ? (*arena)->allocate(5000) : Result<void*>(arena.error());
  seat.expect(block.ok() && (*arena)->free(*block).ok(), "no memory of ncclMemAlloc");
  seat.report(ok_status());
}

Job without_communicator() {
  Job options;
  options.create = false;
  options.environment = {{"NCCL_SOCKET_IFNAME", "lo"}};
  return options;
}

const Refusal kRefusals[] = {
    {"memfd_create", SYS_memfd_create, EPERM},
    {"memfd_create of an old kernel", SYS_memfd_create, ENOSYS},
    {"pidfd_open", SYS_pidfd_open, EPERM},
    {"pidfd_open of gVisor", SYS_pidfd_open, ENOSYS},
    {"socket of AF_UNIX", SYS_socket, EACCES, 0, AF_UNIX},
    // Length of a meeting's address: a NUL, "rondo-", 32 digits.
    {"connect to a name", SYS_connect, EPERM, 2, sizeof(sa_family_t) + 1 + 6 + 32},
};

class RefusedCalls : public testing::TestWithParam<Refusal> {};

// refused: ranks whose processes are refused the call.
void check_refused(int ranks, const std::set<int>& refused, const Refusal& what) {
  const RankLogs logs;
  RankProcesses processes(ranks, without_communicator(), [&](EngineRank& seat) {
    logs.use(seat.rank);
    if (refused.count(seat.rank) != 0 && !refuse(what)) return seat.mark(1);
    make_and_check(seat);
  });
  ASSERT_TRUE(processes.wait_exits());
  for (int r = 0; r < ranks; ++r) {
    ASSERT_TRUE(processes.reported(r)) << "no seccomp here";
    EXPECT_EQ(processes.status(r), StatusCode::kSuccess)
        << "rank " << r << ": " << processes.text(r);
    EXPECT_EQ(logs.count(r, kMessage), refused.count(r)) << "rank " << r;
  }
  const auto hosts = std::min<std::size_t>(refused.size() + 1, ranks);
  EXPECT_EQ(logs.count(0, fmt::format(" {} hosts, ready", hosts)), 1);
  processes.check_expectations();
}

TEST_P(RefusedCalls, OfAllRanksLeaveThemTcp) { check_refused(3, {0, 1, 2}, GetParam()); }
TEST_P(RefusedCalls, OfTheLeaderLeaveTheOthersTogether) { check_refused(3, {0}, GetParam()); }
TEST_P(RefusedCalls, OfAnotherRankLeaveTheOthersTogether) { check_refused(3, {2}, GetParam()); }

INSTANTIATE_TEST_SUITE_P(Sandbox, RefusedCalls, testing::ValuesIn(kRefusals), [](const auto& info) {
  std::string name = info.param.title;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); },
      '_');
  return name;
});

// Ranks that are threads of one process share its memory without a memory file.
TEST(RefusedCallsOfThreads, LeaveThemTheirProcess) {
  const RankLogs logs;
  RankProcesses processes(1, without_communicator(), [&](EngineRank& seat) {
    logs.use(0);
    if (!refuse(kRefusals[0])) return;
    const auto comms = make_communicators(3);
    run_ranks(comms, [&](Communicator& comm) {
      SampleCall sample(Collective::kAllReduce, 10, comm.size());
      seat.expect(comm.run({&sample.call, 1}).ok() && *sample.output() == 3, "wrong sum");
    });
    seat.report(ok_status());
  });
  ASSERT_TRUE(processes.wait_exits());
  EXPECT_TRUE(processes.reported(0));
  EXPECT_EQ(logs.count(0, " 1 host, ready"), 3);
  EXPECT_EQ(logs.count(0, kMessage), 0);
  processes.check_expectations();
}

// Two hosts look identical. Ranks share memory on each host, and use TCP between them.
TEST(Clones, ShareMemoryWithWhomTheyReachAndUseTcpWithTheOthers) {
  const JoinedNamespaces clones;
  if (!clones) GTEST_SKIP() << "no network namespaces here";
  const RankLogs logs;
  Job options = without_communicator();
  options.environment = {{"NCCL_HOSTID", "one image"}, {"NCCL_SOCKET_IFNAME", "near,far"}};
  RankProcesses processes(4, options, [&](EngineRank& seat) {
    logs.use(seat.rank);
    if (seat.rank >= 2 && !clones.go_there()) return seat.mark(1);
    make_and_check(seat);
  });
  ASSERT_TRUE(processes.wait_exits());
  for (int r = 0; r < 4; ++r) {
    EXPECT_EQ(processes.status(r), StatusCode::kSuccess)
        << "rank " << r << ": " << processes.text(r);
    EXPECT_EQ(logs.count(r, kMessage), r >= 2 ? 1 : 0) << "rank " << r;
    EXPECT_EQ(logs.count(r, "2 ranks on this host, 2 hosts, ready"), 1) << "rank " << r;
  }
  processes.check_expectations();
}

}  // namespace
}  // namespace rondo::test
