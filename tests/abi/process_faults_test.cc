// SPDX-License-Identifier: Apache-2.0
// Faults, shrinking and revoking through the C API; ranks are processes.
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include "api/rondo.h"
#include "tests/support/nccl_rank.h"

namespace rondo::test {
namespace {

Status as_done(ncclResult_t result) {
  if (result == ncclSuccess) return ok_status();
  return fail(static_cast<StatusCode>(result), "{}", ncclGetLastError(nullptr));
}

// A rank's process, with the communicator that the C API made.
struct ApiRank {
  // The body destroys it, or leaves it to the end of the process.
  explicit ApiRank(NcclRank& of) : seat(of), comm(std::exchange(of.comm, nullptr)) {}
  static std::string last_error() { return ncclGetLastError(nullptr); }

  ncclResult_t sum(ncclComm_t on, std::size_t count = 1000) {
    in.assign(count, 1);
    out.assign(count, 0);
    return ncclAllReduce(in.data(), out.data(), count, ncclInt32, ncclSum, on, nullptr);
  }
  // Checks that the communicator works and has `ranks` ranks.
  void expect_works(ncclComm_t on, int ranks) {
    int count = 0;
    seat.expect(ncclCommCount(on, &count) == ncclSuccess && count == ranks,
                fmt::format("{} ranks, not {}", count, ranks));
    const ncclResult_t summed = sum(on);
    seat.expect(summed == ncclSuccess, last_error());
    seat.expect(out.front() == ranks && out.back() == ranks,
                fmt::format("a sum of {}, not {}", out.front(), ranks));
  }
  ncclComm_t shrink_without(int excluded, int flags) {
    ncclComm_t child = nullptr;
    const ncclResult_t made = ncclCommShrink(comm, &excluded, 1, &child, nullptr, flags);
    seat.expect(made == ncclSuccess, "shrink: " + last_error());
    return child;
  }

  NcclRank& seat;
  ncclComm_t comm;
  std::vector<int> in, out;
};

void expect_named(const RankProcesses& ranks, int rank, StatusCode status,
                  const std::string& part) {
  EXPECT_EQ(ranks.status(rank), status) << "rank " << rank << ": " << ranks.text(rank);
  EXPECT_NE(ranks.text(rank).find(part), std::string::npos) << ranks.text(rank);
}

TEST(ProcessShrink, LeavesOutARankThatIsWell) {
  RankProcesses ranks(4, {}, [](NcclRank& seat) {
    ApiRank me(seat);
    me.expect_works(me.comm, 4);
    if (seat.rank != 1) {
      ncclComm_t child = me.shrink_without(1, NCCL_SHRINK_DEFAULT);
      int rank = -1;
      seat.expect(ncclCommUserRank(child, &rank) == ncclSuccess, me.last_error());
      seat.expect(rank == (seat.rank > 1 ? seat.rank - 1 : seat.rank), "a wrong number");
      me.expect_works(child, 3);
      seat.expect(ncclCommDestroy(child) == ncclSuccess, me.last_error());
    }
    me.expect_works(me.comm, 4);
    seat.report(as_done(ncclCommDestroy(me.comm)));
  });
  ASSERT_TRUE(ranks.wait_exits());
  ranks.check_expectations();
}

// After the fault, the newest failure is that of the shrink; then the next call's.
TEST(ProcessShrink, ThatFailedIsTheLastErrorOfItsParent) {
  RankProcesses ranks(3, {}, [](NcclRank& seat) {
    ApiRank me(seat);
    me.expect_works(me.comm, 3);
    if (seat.rank == 2) return seat.report(as_done(ncclCommDestroy(me.comm)));
    const auto last = [&] { return std::string(ncclGetLastError(me.comm)); };
    const auto is_fault = [&] { return last().find("before it finished") != std::string::npos; };
    seat.expect(me.sum(me.comm) == ncclRemoteError && is_fault(), "the fault: " + last());
    ncclComm_t child = nullptr;
    int* const nobody = nullptr;
    const auto shrunk = ncclCommShrink(me.comm, nobody, 0, &child, nullptr, NCCL_SHRINK_DEFAULT);
    seat.expect(shrunk == ncclRemoteError, "rank 2 is there");
    seat.expect(last().find("leave it out, too") != std::string::npos, "the shrink: " + last());
    seat.expect(me.sum(me.comm) == ncclRemoteError && is_fault(), "the next call: " + last());
    int gone = 2;
    const auto again = [&] {
      return ncclCommShrink(me.comm, &gone, 1, &child, nullptr, NCCL_SHRINK_ABORT) == ncclSuccess;
    };
    seat.expect(wait_until(again), "without rank 2: " + last());
    me.expect_works(child, 2);
    seat.report(as_done(ncclCommDestroy(child)));
  });
  ASSERT_TRUE(ranks.wait_exits());
  ranks.check_expectations();
}

// A call on a stream hangs; NCCL_SHRINK_ABORT ends it.
TEST(ProcessShrink, EndsCallsThatHang) {
  RankProcesses ranks(3, {}, [](NcclRank& seat) {
    ApiRank me(seat);
    me.expect_works(me.comm, 3);
    if (seat.rank == 2) {
      seat.mark(1);
      raise(SIGSTOP);
      return;
    }
    rondoStream_t stream = nullptr;
    seat.expect(rondoStreamCreate(&stream) == ncclSuccess, me.last_error());
    std::vector<int> data(100'000, 1);
    seat.expect(ncclAllReduce(data.data(), data.data(), data.size(), ncclInt32, ncclSum, me.comm,
                              rondoStreamHandle(stream)) == ncclSuccess,
                me.last_error());
    nap(0.1);
    ncclComm_t child = me.shrink_without(2, NCCL_SHRINK_ABORT);
    const ncclResult_t ended = rondoStreamSynchronize(stream);
    seat.expect(ended == ncclInvalidUsage || ended == ncclRemoteError,
                fmt::format("the call that hung returned {}", static_cast<int>(ended)));
    me.expect_works(child, 2);
    seat.mark(2);
  });
  ASSERT_TRUE(ranks.wait_stage(2, {2}));
  ranks.check_expectations();
}

// Rank 0 is blocked, and another of its threads revokes the communicator; rank 2 never calls.
TEST(ProcessFaults, ARevokedCallEndsAndTheCommunicatorCanShrink) {
  RankProcesses ranks(3, {}, [&](NcclRank& seat) {
    ApiRank me(seat);
    me.expect_works(me.comm, 3);
    if (seat.rank == 2) {
      seat.expect(seat.wait_flag(1), "the others did not report");
      return;
    }
    std::thread other;
    if (seat.rank == 0)
      other = std::thread([&] {
        nap(0.1);
        seat.expect(ncclCommRevoke(me.comm, 0) == ncclSuccess, "revoke failed");
      });
    seat.report(as_done(me.sum(me.comm)));
    if (other.joinable()) other.join();
    ncclComm_t child = me.shrink_without(2, NCCL_SHRINK_DEFAULT);
    me.expect_works(child, 2);
    seat.mark(1);
  });
  ASSERT_TRUE(ranks.wait_reports({2}));
  ASSERT_TRUE(ranks.wait_stage(1, {2}));
  ranks.board().flag.store(1);
  ASSERT_TRUE(ranks.wait_exits());
  expect_named(ranks, 0, StatusCode::kInvalidUsage, "revoked");
  expect_named(ranks, 1, StatusCode::kRemoteError, "rank 0 revoked");
  ranks.check_expectations();
}

}  // namespace
}  // namespace rondo::test
