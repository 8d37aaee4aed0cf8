// SPDX-License-Identifier: Apache-2.0
// Calls that only copy, between processes: peers read private buffers by process_vm_readv, so that
// bytes move once. Where this is forbidden, all ranks copy through shared memory.
//
// RONDO_TEST_KILLS=1000: 1000 killed ranks instead of a few.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>

#include "base/fd.h"
#include "tests/gpu/rank_logs.h"
#include "tests/support/check_call.h"
#include "tests/support/engine_rank.h"
#include "tests/support/processes.h"

namespace rondo::test {
namespace {

constexpr Collective kCopies[] = {Collective::kBroadcast, Collective::kAllGather,
                                  Collective::kAllToAll, Collective::kGather, Collective::kScatter};

Job with_reads(const char* value = "2") {
  Job job;
  job.comm = short_timeouts();
  job.environment = {{"RONDO_CMA", value}};
  return job;
}

Case case_of(Collective collective, int ranks, std::uint64_t count, unsigned seed = 1) {
  return {collective, DataType::kFloat32, RedOp::kSum, ranks, ranks - 1, count, seed};
}

// Blocks that a rank takes from peers.
std::uint64_t blocks_read(const Case& c, int rank) {
  switch (c.collective) {
    case Collective::kGather:
      return rank == c.root ? static_cast<std::uint64_t>(c.ranks) - 1 : 0;
    case Collective::kBroadcast:
    case Collective::kScatter:
      return rank == c.root ? 0 : 1;
    default:
      return static_cast<std::uint64_t>(c.ranks) - 1;
  }
}

class PeerReads : public testing::TestWithParam<int> {};

TEST_P(PeerReads, MoveEveryByteOnce) {
  RankProcesses ranks(GetParam(), with_reads(), [](EngineRank& seat) {
    for (const Collective collective : kCopies) {
      const Case c = case_of(collective, seat.size, 256 << 10);
      const std::string wrong = check_call(*seat.comm, c, false, 0);
      seat.expect(wrong.empty(), wrong);
      const LastPlan ran = seat.comm->last_plan();
      seat.expect(ran.protocol == Protocol::kRead && ran.staged_bytes == 0 &&
                      ran.read_bytes == blocks_read(c, seat.rank) * c.count * 4,
                  fmt::format("{}: {} bytes staged, {} read", name(collective), ran.staged_bytes,
                              ran.read_bytes));
    }
  });
  ASSERT_TRUE(ranks.wait_exits());
  ranks.check_expectations();
}

INSTANTIATE_TEST_SUITE_P(Of, PeerReads, testing::Values(2, 3, 5));

// Odd sizes and shifts, in place and not, memory of both kinds in one call. `layout`: with several
// ranks in a process too, which then copy from each other's buffers.
void check_results(const Layout& layout) {
  Job job = with_reads();
  job.processes = layout.processes;
  RankProcesses ranks(job, [](EngineRank& seat) {
    unsigned seed = 1;
    std::uint64_t read = 0;
    for (const Collective collective : kCopies)
      for (const std::uint64_t count : {1'001, 4'096, 300'007})
        for (const bool in_place : {false, true}) {
          if (in_place && collective == Collective::kAllToAll) continue;
          ++seed;
          const Case c = case_of(collective, seat.size, count, seed);
          const std::size_t shift = seed % 4 * 4 + (seat.rank % 2 == 0 ? 0 : 60);
          const auto memory = (seat.rank + seed) % 3 == 0 ? Memory::kMapped : Memory::kHeap;
          const std::string wrong = check_call(*seat.comm, c, in_place, shift, memory);
          seat.expect(wrong.empty(), wrong);
          read += seat.comm->last_plan().read_bytes;
        }
    seat.expect(read > 0, "nothing was read");
  });
  ASSERT_TRUE(ranks.wait_exits());
  ranks.check_expectations();
}

TEST(PeerReadResults, AreRightForAnySizeShiftAndMemory) { check_results(as_processes(3)); }
TEST(PeerReadResults, AreRightWithSeveralRanksInAProcess) {
  check_results({{{kHostMemory, kHostMemory}, {kHostMemory}, {kHostMemory, kHostMemory}}});
}

// An all-to-all in place overwrites its input while peers may still read it: such a rank stages it.
TEST(PeerReadResults, AreRightForAnAllToAllInPlaceOfOneRank) {
  RankProcesses ranks(3, with_reads(), [](EngineRank& seat) {
    const std::size_t count = 300'007, all = count * static_cast<std::size_t>(seat.size);
    std::vector<int> in(all), out(all);
    for (std::size_t i = 0; i < all; ++i) in[i] = seat.rank * 1000 + static_cast<int>(i / count);
    const bool in_place = seat.rank == 1;
    Call call;
    call.record = {count, Collective::kAllToAll, DataType::kInt32, RedOp::kSum, 0, -1};
    call.send = in.data();
    call.receive = in_place ? in.data() : out.data();
    const Status ran = seat.comm->run({&call, 1});
    seat.expect(ran.ok(), ran.ok() ? "" : ran.error().text);
    const std::vector<int>& found = in_place ? in : out;
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < all; ++i)
      wrong += found[i] != static_cast<int>(i / count) * 1000 + seat.rank;
    seat.expect(wrong == 0, fmt::format("{} wrong values", wrong));
    seat.expect((seat.comm->last_plan().staged_bytes > 0) == in_place, "staged by another rank");
  });
  ASSERT_TRUE(ranks.wait_exits());
  ranks.check_expectations();
}

// ---- where it is forbidden ----

// Refuses process_vm_readv to this process, or catches it with SIGSYS.
bool filter_reads(std::uint32_t action) {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, action),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{std::size(program), program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

struct Ban {
  const char* name;
  bool (*apply)();      // in one rank, before the communicator is made
  const char* answers;  // in the one line about it
  bool as_root;         // needs root
};

constexpr uid_t kOtherUser = 65534;
const Ban kBans[] = {
    {"Seccomp", [] { return filter_reads(SECCOMP_RET_ERRNO | EPERM); }, "a seccomp filter", false},
    {"Variable", [] { return setenv("RONDO_CMA", "0", 1) == 0; }, "has RONDO_CMA=0", false},
    {"User", [] { return setgid(kOtherUser) == 0 && setuid(kOtherUser) == 0; },
     "Operation not permitted; both processes must have one user", true},
};

class ForbiddenReads : public testing::TestWithParam<Ban> {};

TEST_P(ForbiddenReads, LeaveAllRanksStagingAndOneLine) {
  const Ban& ban = GetParam();
  if (ban.as_root && geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const RankLogs logs;
  const std::string first = logs.file(0);
  ASSERT_EQ(chmod(first.substr(0, first.rfind('/')).c_str(), 0777), 0);
  Job job = with_reads();
  job.create = false;
  job.environment.emplace_back("RONDO_UNIX_UIDS", fmt::format("0,{}", kOtherUser));
  RankProcesses ranks(3, job, [&](EngineRank& seat) {
    if (seat.rank == 1 && !ban.apply()) return seat.expect(false, "no such ban here");
    logs.use(seat.rank);
    const Status joined = seat.join(short_timeouts());
    seat.expect(joined.ok(), joined.ok() ? "" : joined.error().text);
    if (!joined.ok()) return;
    for (const Collective collective : kCopies) {
      const std::string wrong =
          check_call(*seat.comm, case_of(collective, seat.size, 100'003), false, 4);
      seat.expect(wrong.empty(), wrong);
      const LastPlan ran = seat.comm->last_plan();
      const bool gives = is_among(find_row(Algorithm::kDirect, collective)->inputs, seat.rank, 2);
      seat.expect(ran.read_bytes == 0 && (ran.staged_bytes > 0) == gives,
                  fmt::format("{} bytes read, {} staged", ran.read_bytes, ran.staged_bytes));
    }
  });
  ASSERT_TRUE(ranks.wait_exits());
  ranks.check_expectations();
  constexpr const char* kLine = "private buffers are copied through shared memory";
  std::string last;
  for (int r = 0; r < 3; ++r) EXPECT_EQ(logs.count(r, kLine, &last), r == 1 ? 1 : 0) << r;
  EXPECT_NE(last.find(ban.answers), std::string::npos) << last;
}

INSTANTIATE_TEST_SUITE_P(By, ForbiddenReads, testing::ValuesIn(kBans),
                         [](const auto& info) { return info.param.name; });

TEST(ForbiddenReads, OfAnUnknownKindAreAnError) {
  Job job = with_reads("3");
  job.create = false;
  RankProcesses ranks(1, job, [](EngineRank& seat) {
    const Status joined = seat.join(short_timeouts());
    seat.expect(joined.code() == StatusCode::kInvalidUsage &&
                    joined.error().text.find("RONDO_CMA=3") != std::string::npos,
                "it was accepted");
  });
  ASSERT_TRUE(ranks.wait_exits());
  ranks.check_expectations();
}

// ---- faults ----

std::size_t kills() {
  const char* asked = std::getenv("RONDO_TEST_KILLS");
  return asked == nullptr ? 6 : static_cast<std::size_t>(std::atoi(asked));
}

// All-gathers with new values in each call, checked in full, until a call fails.
void gather_until_fault(EngineRank& seat) {
  constexpr std::size_t kCount = 100'003;
  std::vector<int> in(kCount), out(kCount * static_cast<std::size_t>(seat.size));
  Call call;
  call.record = {kCount, Collective::kAllGather, DataType::kInt32, RedOp::kSum, 0, -1};
  call.send = in.data();
  call.receive = out.data();
  for (int turn = 0;; ++turn) {
    std::fill(in.begin(), in.end(), turn * 10 + seat.rank);
    const Status ran = seat.comm->run({&call, 1});
    if (turn == 2) seat.mark(1);
    if (!ran.ok()) return seat.report(ran);
    for (std::size_t i = 0; i < out.size(); ++i)
      if (out[i] != turn * 10 + static_cast<int>(i / kCount))
        return seat.expect(false, fmt::format("call {}: value {} is {}", turn, i, out[i]));
  }
}

TEST(PeerReadFaults, AKilledRankIsNamedAndNoResultIsWrong) {
  std::mt19937 random(testing::UnitTest::GetInstance()->random_seed());
  for (std::size_t kill = 0; kill < kills(); ++kill) {
    RankProcesses ranks(3, with_reads(), gather_until_fault);
    ASSERT_TRUE(ranks.wait_stage(1));
    nap(std::uniform_real_distribution<>(0, 0.004)(random));
    const int victim = static_cast<int>(random() % 3);
    ranks.send(victim, SIGKILL);
    ASSERT_TRUE(ranks.wait_reports({victim}));
    ranks.check_expectations();
    for (int r = 0; r < 3; ++r) {
      if (r == victim) continue;
      EXPECT_EQ(ranks.status(r), StatusCode::kRemoteError) << ranks.text(r);
      EXPECT_EQ(ranks.culprit(r), victim) << ranks.text(r);
      EXPECT_NE(ranks.text(r).find("ended"), std::string::npos) << ranks.text(r);
    }
  }
}

TEST(PeerReadFaults, MemoryThatIsNotThereIsNamed) {
  RankProcesses ranks(2, with_reads(), [](EngineRank& seat) {
    std::vector<int> data(100'000);
    Call call;
    call.record = {data.size(), Collective::kBroadcast, DataType::kInt32, RedOp::kSum, 0, 0};
    call.send = call.receive = seat.rank == 0 ? reinterpret_cast<int*>(4096) : data.data();
    seat.report(seat.comm->run({&call, 1}));
  });
  ASSERT_TRUE(ranks.wait_reports());
  for (int r = 0; r < 2; ++r) {
    EXPECT_EQ(ranks.status(r), StatusCode::kRemoteError) << ranks.text(r);
    EXPECT_NE(ranks.text(r).find("rank 1 could not read the buffer of rank 0"), std::string::npos)
        << ranks.text(r);
    EXPECT_NE(ranks.text(r).find("Bad address"), std::string::npos) << ranks.text(r);
    EXPECT_NE(ranks.text(r).find("RONDO_CMA=0"), std::string::npos) << ranks.text(r);
  }
}

#ifdef __x86_64__
// It stands still just before a read, until its peer has left the call and stored other data.
EngineRank* late_reader = nullptr;

// Makes the caught read later, from /proc.
void read_late(int, siginfo_t*, void* context) {
  greg_t* const registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const std::string path = "/proc/" + std::to_string(registers[REG_RDI]) + "/mem";
  const auto* here = reinterpret_cast<const iovec*>(registers[REG_RSI]);
  const auto* there = reinterpret_cast<const iovec*>(registers[REG_R10]);
  late_reader->mark(2);
  late_reader->expect(late_reader->wait_flag(1), "no flag");
  const Fd memory(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  ssize_t sum = 0;
  for (greg_t i = 0; i < registers[REG_RDX]; ++i)
    sum += pread(memory.get(), here[i].iov_base, here[i].iov_len,
                 reinterpret_cast<off_t>(there[i].iov_base));
  registers[REG_RAX] = sum;
}

TEST(PeerReadFaults, AReadAfterItsOwnerHasLeftIsNoResult) {
  constexpr std::size_t kCount = 100'000;
  RankProcesses ranks(2, with_reads(), [](EngineRank& seat) {
    std::vector<int> data(kCount, seat.rank == 0 ? 7 : 0);
    Call call;
    call.record = {kCount, Collective::kBroadcast, DataType::kInt32, RedOp::kSum, 0, 0};
    call.send = call.receive = data.data();
    std::thread deadline;
    if (seat.rank == 0) {
      deadline = std::thread([&] {  // once the read is about to begin
        wait_until([&] { return seat.board.seats[1].stage.load() == 2; });
        seat.comm->set_timeout(0.3);
      });
    } else {
      late_reader = &seat;
      struct sigaction action {};
      action.sa_sigaction = read_late;
      action.sa_flags = SA_SIGINFO;
      seat.expect(sigaction(SIGSYS, &action, nullptr) == 0 && filter_reads(SECCOMP_RET_TRAP),
                  "no seccomp here");
    }
    const Status ran = seat.comm->run({&call, 1});
    if (seat.rank == 0) {
      deadline.join();
      std::fill(data.begin(), data.end(), 8);
      seat.report(ran);
      seat.expect(seat.wait_flag(2), "no flag");
    } else {
      seat.expect(data[0] == 8 && data[kCount - 1] == 8, "the read was not late");
      seat.report(ran);
    }
  });
  ASSERT_TRUE(ranks.wait_reports({1}));
  EXPECT_EQ(ranks.status(0), StatusCode::kTimeout) << ranks.text(0);
  ranks.board().flag.store(1);
  ASSERT_TRUE(ranks.wait_reports());
  ranks.board().flag.store(2);
  EXPECT_NE(ranks.status(1), StatusCode::kSuccess);
  EXPECT_NE(ranks.text(1).find("waited"), std::string::npos) << ranks.text(1);
  ASSERT_TRUE(ranks.wait_exits());
  ranks.check_expectations();
}
#endif

}  // namespace
}  // namespace rondo::test
