// SPDX-License-Identifier: Apache-2.0
// librondo-watch.so in jobs of Rondo's own libnccl.so.2, which loads it as NCCL does and knows
// nothing of it. Its own status service is off, else such a job is left to it.
#include <gtest/gtest.h>
#include <signal.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "base/log.h"
#include "collectives/status/ask.h"
#include "collectives/status/diagnosis.h"
#include "tests/support/nccl_rank.h"
#include "tests/support/status_job.h"
#include "transport/shm/host_segment.h"

namespace rondo::test {
namespace {

class WatchedJob {
 public:
  WatchedJob(int ranks, const std::function<void(NcclRank&)>& body) : ranks_(job(ranks), body) {}
  RankProcesses* operator->() { return &ranks_; }
  std::vector<Blame> blamed(int asked) const {
    const auto view = ask_process(ranks_.pid(asked), false);
    return view.ok() ? diagnose(*view) : std::vector<Blame>();
  }
  JobView view(int asked) const {
    auto view = ask_process(ranks_.pid(asked), false);
    return view.ok() ? std::move(*view) : JobView();
  }

 private:
  Job job(int ranks) const {
    log::reset();
    return as_processes(ranks)
        .under(status_.environment())
        .under({{"NCCL_PROFILER_PLUGIN", RONDO_TEST_WATCH_PLUGIN},
                {"NCCL_RAS_ENABLE", "0"},
                {"RONDO_RECORD", "0"}});
  }
  const StatusJob status_;
  RankProcesses ranks_;
};

void reduce(NcclRank& seat, std::size_t count = 100) {
  std::vector<float> in(count), out(count);
  NCCL_OK(ncclAllReduce(in.data(), out.data(), count, ncclFloat32, ncclSum, seat.comm, nullptr));
}

void expect_blamed(WatchedJob& job, int culprit, Blame::Kind kind) {
  std::vector<Blame> blamed;
  wait_until([&] {
    blamed = job.blamed((culprit + 1) % job->size());
    return !blamed.empty();
  });
  ASSERT_FALSE(blamed.empty());
  EXPECT_EQ(blamed[0].rank, culprit) << blamed[0].text;
  EXPECT_EQ(blamed[0].kind, kind) << blamed[0].text;
}

TEST(WatchOfRondo, NamesTheRankThatDoesNotEnter) {
  WatchedJob job(4, [](NcclRank& seat) {
    for (int call = 0; call < 10; ++call) reduce(seat);
    seat.mark(1);
    if (seat.rank == 2) seat.wait_flag(1);
    reduce(seat);
  });
  ASSERT_TRUE(job->wait_stage(1));
  expect_blamed(job, 2, Blame::kNotEntered);
  const JobView view = job.view(0);
  ASSERT_EQ(view.communicators.size(), 1u) << "the job is shown once";
  EXPECT_EQ(view.communicators[0].ranks.size(), 4u);
  EXPECT_EQ(view.communicators[0].ranks.at(0).call, 11u);
  EXPECT_EQ(view.communicators[0].ranks.at(2).call, 10u);
  job->board().flag = 1;
  EXPECT_TRUE(job->wait_exits());
  job->check_expectations();
}

TEST(WatchOfRondo, NamesAStoppedRank) {
  WatchedJob job(3, [](NcclRank& seat) {
    for (int call = 0;; ++call) {
      if (call == 10) seat.mark(1);
      reduce(seat, 5000);
    }
  });
  ASSERT_TRUE(job->wait_stage(1));
  // The one that is asked, and the one that is stopped, have the memory files of all ranks.
  for (const int rank : {1, 0})
    ASSERT_TRUE(wait_until([&] {
      const auto files = shm::segments_of(job->pid(rank));
      return files.ok() && files->size() == 3;
    }));
  job->send(0, SIGSTOP);
  expect_blamed(job, 0, Blame::kStopped);
  // The stopped process is asked itself: its memory files show its host.
  const JobView view = job.view(0);
  ASSERT_EQ(view.communicators.size(), 1u);
  EXPECT_EQ(view.communicators[0].ranks.size(), 3u);
}

TEST(WatchOfRondo, NamesTheRankWhoseMessageDoesNotCome) {
  WatchedJob job(3, [](NcclRank& seat) {
    std::array<float, 8> data{};
    reduce(seat);
    seat.mark(1);
    if (seat.rank == 0) {
      NCCL_OK(ncclRecv(data.data(), data.size(), ncclFloat32, 1, seat.comm, nullptr));
    }
    if (seat.rank == 1) {
      seat.wait_flag(1);
      NCCL_OK(ncclSend(data.data(), data.size(), ncclFloat32, 0, seat.comm, nullptr));
    }
  });
  ASSERT_TRUE(job->wait_stage(1));
  std::vector<Blame> blamed;
  EXPECT_TRUE(wait_until([&] { return !(blamed = job.blamed(0)).empty(); }));
  EXPECT_EQ(blamed.at(0).rank, 1) << blamed[0].text;
  job->board().flag = 1;
}

TEST(WatchOfRondo, LeavesAJobToRondosOwnStatus) {
  const StatusJob status;
  log::reset();
  const Job job = as_processes(2)
                      .under(status.environment())
                      .under({{"NCCL_PROFILER_PLUGIN", RONDO_TEST_WATCH_PLUGIN}});
  RankProcesses ranks(job, [](NcclRank& seat) {
    reduce(seat);
    seat.mark(1);
    seat.wait_flag(1);
  });
  ASSERT_TRUE(ranks.wait_stage(1));
  const auto jobs = list_jobs();
  ASSERT_TRUE(jobs.ok());
  EXPECT_EQ(jobs->size(), 1u);
  const auto view = ask_process(ranks.pid(0), false);
  ASSERT_TRUE(view.ok());
  EXPECT_EQ(view->communicators.size(), 1u);
  EXPECT_FALSE(view->communicators[0].ranks.at(0).watched.has_value());
  ranks.board().flag = 1;
}

}  // namespace
}  // namespace rondo::test
