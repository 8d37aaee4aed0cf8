// SPDX-License-Identifier: Apache-2.0
// The black box of each rank names the late rank while the job lives, and survives its death in
// files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "base/log.h"
#include "base/poll_until.h"
#include "collectives/messages/tagged_messages.h"
#include "collectives/status/inspect.h"
#include "collectives/trace/call_skew.h"
#include "collectives/trace/trace_file.h"
#include "tests/support/engine_rank.h"
#include "tests/support/enough_time.h"
#include "tests/support/environment.h"
#include "tests/support/one_sided.h"
#include "tests/support/processes.h"
#include "tests/support/sample_calls.h"
#include "tests/support/temporary_folder.h"

namespace rondo::test {
namespace {

using testing::HasSubstr;
using trace::RankTrace;
using trace::TracedCall;

// Until all ranks but `late` wait for it in this call; in earlier ones too they may have waited.
bool all_wait_for(int pid, int late, std::uint64_t call) {
  const auto waits = [&] {
    const auto views = inspect_process(pid);
    return views.ok() && std::all_of(views->front().ranks.begin(), views->front().ranks.end(),
                                     [&](const RankView& rank) {
                                       return rank.rank == late ||
                                              (rank.call == call && rank.waits_for == late);
                                     });
  };
  return wait_until(waits);
}

void make_calls(EngineRank& seat, int calls, std::size_t count) {
  SampleCall sample(Collective::kAllReduce, count, seat.size);
  for (int i = 0; i < calls; ++i)
    seat.expect(seat.comm->run({&sample.call, 1}).ok(), fmt::format("call {}", i));
}

class BlackBoxOf : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Record, BlackBoxOf, testing::Values("brief", "1"));

// Rank 2 is late in call 21, by more than `seconds`. *longest: whom each rank that waited in that
// call waited for longest.
void be_late(std::size_t count, double seconds, std::vector<int>* longest) {
  RankProcesses ranks(3, short_timeouts(), [&](EngineRank& seat) {
    make_calls(seat, 20, count);
    if (seat.rank == 2) seat.wait_flag(1);
    make_calls(seat, 1, count);
    seat.mark(1);
    seat.wait_flag(2);
  });
  ASSERT_TRUE(all_wait_for(ranks.pid(0), 2, 21));
  const std::string open = fmt::format(
      "call 21, AllReduce(count {}, int32, sum), has not ended: ranks 0, 1 in it; rank 2 not "
      "entered",
      count);
  std::string text;
  const auto hangs = [&] {
    const auto traces = trace::traces_of_process(ranks.pid(1));
    text = traces.ok() ? trace::summary_of(trace::comms_of(*traces)[0]) : traces.error().text;
    return text.find(open) != std::string::npos;
  };
  EXPECT_TRUE(wait_until(hangs)) << text;
  nap(seconds);
  ranks.board().flag.store(1);
  ASSERT_TRUE(ranks.wait_stage(1));
  const auto traces = trace::traces_of_process(ranks.pid(0));
  ASSERT_TRUE(traces.ok()) << traces.error().text;
  ASSERT_EQ(traces->size(), 3u);
  for (const RankTrace& rank : *traces) {
    EXPECT_EQ(rank.pid, ranks.pid(rank.rank));
    ASSERT_EQ(rank.calls.size(), 21u);
    const TracedCall& last = rank.calls.back();
    EXPECT_EQ(last.sequence, 21u);
    EXPECT_EQ(last.call.count, count);
    EXPECT_TRUE(last.ended() && last.end_is_timed);
    EXPECT_NE(last.algorithm, "");
    if (rank.rank == 2) continue;
    EXPECT_GT(last.waits, 0);
    longest->push_back(last.longest_wait_for);
  }
  const auto skews = trace::skews_of(trace::comms_of(*traces)[0]);
  EXPECT_EQ(skews.back().sequence, 21u);
  EXPECT_EQ(skews.back().late_rank, 2);
  EXPECT_GE(skews.back().moving_ns, 0);
  ranks.board().flag.store(2);
  ASSERT_TRUE(ranks.wait_exits());
  ranks.check_expectations();
}

TEST_P(BlackBoxOf, NamesTheLateRankAndThoseThatWaitedForIt) {
  const WithEnvironment record("RONDO_RECORD", GetParam());
  for (const std::size_t count : {1u, 5000u, 300'000u}) {
    with_enough_time(std::chrono::milliseconds(500), [&](auto time) -> std::string {
      std::vector<int> longest;
      be_late(count, std::chrono::duration<double>(time).count(), &longest);
      if (HasFailure() || longest == std::vector<int>{2, 2}) return "";
      return fmt::format("count {}: longest waits for ranks {}", count, fmt::join(longest, ", "));
    });
  }
}

// Calls of a burst have ended, each before the next one began, though nobody timed that.
TEST(BlackBox, OfABurstThatIsRecordedBrieflyHasNoOpenCalls) {
  const WithEnvironment record("RONDO_RECORD", "brief");
  const Communicators comms = make_communicators(2);
  run_ranks(comms, [](Communicator& comm) {
    int value = 1;
    for (int i = 0; i < 3000; ++i) {
      Call call;
      call.record = {1, Collective::kAllReduce, DataType::kInt32, RedOp::kSum, 0, -1};
      call.send = call.receive = &value;
      EXPECT_TRUE(comm.run({&call, 1}).ok());
    }
  });
  const auto traces = trace::traces_of_process(getpid());
  ASSERT_TRUE(traces.ok()) << traces.error().text;
  int untimed = 0;
  for (const RankTrace& rank : *traces) {
    if (rank.calls.size() != 3000) continue;  // of another test's communicator
    for (std::size_t i = 0; i < rank.calls.size(); ++i) {
      const TracedCall& call = rank.calls[i];
      ASSERT_TRUE(call.ended()) << i;
      ASSERT_GE(call.ended_ns, call.entered_ns);
      untimed += !call.end_is_timed;
      if (i + 1 < rank.calls.size() && !call.end_is_timed) {
        ASSERT_LE(call.ended_ns, rank.calls[i + 1].entered_ns);
      }
    }
  }
  RecordProperty("untimed", untimed);
}

TEST(BlackBox, RecordsMessagesWithTheirPeers) {
  const WithEnvironment record("RONDO_RECORD", "1");
  const Communicators comms = make_communicators(2);
  run_ranks(comms, [](Communicator& comm) {
    std::vector<int> out(8), in(8);
    const Call calls[] = {message(Collective::kSend, 1 - comm.rank(), out.data(), 8),
                          message(Collective::kRecv, 1 - comm.rank(), in.data(), 8)};
    EXPECT_TRUE(comm.run(calls).ok());
  });
  const auto traces = trace::traces_of_process(getpid());
  ASSERT_TRUE(traces.ok()) << traces.error().text;
  const auto of = [&](int rank) -> const RankTrace& {
    return *std::find_if(traces->begin(), traces->end(), [&](const RankTrace& one) {
      return one.rank == rank && one.size == 2 && one.calls.size() == 2;
    });
  };
  for (const int rank : {0, 1}) {
    for (const TracedCall& call : of(rank).calls) {
      EXPECT_EQ(call.sequence, 0u);
      EXPECT_EQ(call.call.root, 1 - rank);
      EXPECT_TRUE(call.ended());
    }
  }
}

TEST(BlackBox, RecordsPutsAndSignalsWithTheirPeers) {
  const WithEnvironment record("RONDO_RECORD", "1");
  const Communicators comms = make_communicators(2);
  std::vector<int> memory[2] = {std::vector<int>(16), std::vector<int>(16)};
  run_ranks(comms, [&](Communicator& comm) {
    const auto window = comm.register_window(memory[comm.rank()].data(), 64);
    ASSERT_TRUE(window.ok()) << window.error().text;
    const std::vector<int> out(8);
    const Call calls[] = {put(1 - comm.rank(), *window, 0, out.data(), 8, 0),
                          wait_for(1 - comm.rank(), 1, 0)};
    EXPECT_TRUE(comm.run(calls).ok());
  });
  const auto traces = trace::traces_of_process(getpid());
  ASSERT_TRUE(traces.ok()) << traces.error().text;
  std::vector<std::string> seen[2];
  for (const RankTrace& rank : *traces)
    for (const TracedCall& call : rank.calls) {
      if (call.sequence != 0 || rank.size != 2) continue;
      EXPECT_TRUE(call.ended());
      EXPECT_EQ(call.call.root, 1 - rank.rank);
      seen[rank.rank].emplace_back(name(call.call.collective));
    }
  const std::vector<std::string> expected{name(Collective::kPut), name(Collective::kWaitSignal)};
  EXPECT_EQ(seen[0], expected);
  EXPECT_EQ(seen[1], expected);
}

// They overlap, and enter the record in the order in which they end.
TEST(BlackBox, RecordsMessagesWithTagsOnceTheyHaveEnded) {
  const WithEnvironment record("RONDO_RECORD", "1");
  const Communicators comms = make_communicators(2);
  std::shared_ptr<TaggedMessages> box[2];
  run_ranks(comms, [&](Communicator& comm) {
    box[comm.rank()] = TaggedMessages::open(comms[comm.rank()], 64).value();
  });
  const std::vector<std::byte> out(1000);
  std::vector<std::byte> in(1000), small(8);
  const auto deadline = seconds_from_now(kLongestWait);
  const auto late =
      box[1]->receive({.peer = TaggedMessages::kAnySource, .tag = 2}, in.data(), 1000);
  const auto first = box[1]->receive({.peer = 0, .tag = 1}, small.data(), 8);
  ASSERT_TRUE(box[0]->send({.peer = 1, .tag = 1}, out.data(), 8).ok());
  ASSERT_TRUE((*first)->wait_until(deadline));
  const auto sent = box[0]->send({.peer = 1, .tag = 2}, out.data(), 1000);
  ASSERT_TRUE((*late)->wait_until(deadline) && (*sent)->wait_until(deadline));
  std::vector<std::string> seen[2];
  // The thread that ends a message records it just after that.
  const bool all_recorded = wait_until([&] {
    const auto traces = trace::traces_of_process(getpid());
    if (!traces.ok()) return false;
    for (auto& of_rank : seen) of_rank.clear();
    for (const RankTrace& rank : *traces)
      for (const TracedCall& call : rank.calls) {
        EXPECT_TRUE(call.ended());
        if (call.sequence != 0) continue;  // of open()
        EXPECT_EQ(call.call.root, 1 - rank.rank) << "also of a receive from any rank";
        seen[rank.rank].push_back(fmt::format("{} {}", name(call.call.collective), call.bytes()));
      }
    return seen[0].size() >= 2 && seen[1].size() >= 2;
  });
  EXPECT_TRUE(all_recorded);
  EXPECT_EQ(seen[0], (std::vector<std::string>{"Send 8", "Send 1000"}));
  EXPECT_EQ(seen[1], (std::vector<std::string>{"Recv 8", "Recv 1000"}));
}

Job into(const std::string& folder, Environment more = {}) {
  Job job;
  job.comm = short_timeouts();
  job.leave_by_exit = true;
  job.environment = {{"RONDO_TRACE", folder}};
  job.environment.insert(job.environment.end(), more.begin(), more.end());
  return job;
}

const RankTrace* trace_of_rank(const std::vector<RankTrace>& traces, int rank) {
  const auto at = std::find_if(traces.begin(), traces.end(),
                               [&](const RankTrace& one) { return one.rank == rank; });
  return at == traces.end() ? nullptr : &*at;
}

TEST(BlackBox, OfADeadRankIsWrittenByTheSurvivors) {
  const TemporaryFolder folder;
  RankProcesses ranks(3, into(folder.path()), [](EngineRank& seat) {
    make_calls(seat, 5, 100);
    seat.board.meet();  // a death may also end a call that a rank has not noticed to be over
    if (seat.rank == 1) raise(SIGKILL);
    SampleCall sample(Collective::kAllReduce, 100, seat.size);
    seat.report(seat.comm->run({&sample.call, 1}));
  });
  ASSERT_TRUE(ranks.wait_reports({1}));
  EXPECT_EQ(ranks.status(0), StatusCode::kRemoteError);
  ASSERT_TRUE(ranks.wait_exits({1}));
  const auto traces = trace::read_traces(folder.path());
  ASSERT_TRUE(traces.ok()) << traces.error().text;
  ASSERT_EQ(traces->size(), 3u);
  const RankTrace *dead = trace_of_rank(*traces, 1), *survivor = trace_of_rank(*traces, 0);
  EXPECT_EQ(dead->state, "ended");
  EXPECT_EQ(dead->calls.size(), 5u);
  EXPECT_THAT(survivor->fault, HasSubstr("rank 1"));
  EXPECT_EQ(survivor->culprit, 1);
  ASSERT_EQ(survivor->calls.size(), 6u);
  EXPECT_EQ(survivor->calls.back().result, static_cast<int>(StatusCode::kRemoteError));
}

TEST(BlackBox, IsWrittenAtTheSignalAndAtTheEnd) {
  const TemporaryFolder folder;
  RankProcesses ranks(2, into(folder.path(), {{"RONDO_TRACE_SIGNAL", "SIGUSR2"}}),
                      [](EngineRank& seat) {
                        make_calls(seat, 5, 100);
                        if (seat.rank == 1) seat.wait_flag(1);
                        make_calls(seat, 1, 100);
                      });
  ASSERT_TRUE(all_wait_for(ranks.pid(0), 1, 6));
  ranks.send(0, SIGUSR2);
  std::vector<RankTrace> traces;
  const auto written = [&] {
    auto read = trace::read_traces(folder.path());
    if (read.ok()) traces = std::move(*read);
    return !traces.empty();
  };
  ASSERT_TRUE(wait_until(written));
  ASSERT_EQ(traces.size(), 1u);  // of the process that got the signal
  EXPECT_EQ(traces[0].waits_for, 1);
  EXPECT_FALSE(traces[0].calls.back().ended());
  ranks.board().flag.store(1);
  ASSERT_TRUE(ranks.wait_exits());
  ranks.check_expectations();
  const auto last = trace::read_traces(folder.path());
  ASSERT_TRUE(last.ok()) << last.error().text;
  ASSERT_EQ(last->size(), 2u);
  for (const RankTrace& rank : *last) EXPECT_TRUE(rank.calls.back().ended());
}

TEST(BlackBox, AFolderThatCannotBeWrittenCostsOneLine) {
  const TemporaryFolder folder;
  const std::string log = folder.path() + "/log.%p";
  Job job =
      into("/proc/none",
           {{"NCCL_DEBUG", "WARN"}, {"NCCL_DEBUG_FILE", log}, {"RONDO_TRACE_SIGNAL", "KILL"}});
  job.create = false;
  RankProcesses ranks(2, job, [](EngineRank& seat) {
    log::reset();  // this process has read the variables of the test's
    seat.expect(seat.join(short_timeouts()).ok(), "create");
    make_calls(seat, 3, 100);
  });
  ASSERT_TRUE(ranks.wait_exits());
  ranks.check_expectations();
  for (const int rank : {0, 1}) {
    std::ifstream file(fmt::format("{}/log.{}", folder.path(), ranks.pid(rank)));
    std::stringstream text;
    text << file.rdbuf();
    const auto count = [&](const std::string& what) {
      int found = 0;
      for (std::size_t at = 0; (at = text.str().find(what, at)) != std::string::npos; ++at) ++found;
      return found;
    };
    EXPECT_EQ(count("RONDO_TRACE=/proc/none: cannot make the folder"), 1) << text.str();
    EXPECT_EQ(count("RONDO_TRACE_SIGNAL=KILL: no trace is written at a signal"), 1) << text.str();
  }
}

// Hosts of a test share a clock, so the true offset is 0.
TEST(BlackBox, OfSeveralHostsHasOneClock) {
  const TemporaryFolder folder;
  Job job = into(folder.path());
  job.hosts = {"a", "b", "b"};
  RankProcesses ranks(3, job, [](EngineRank& seat) { make_calls(seat, 3, 100); });
  ASSERT_TRUE(ranks.wait_exits());
  ranks.check_expectations();
  const auto traces = trace::read_traces(folder.path());
  ASSERT_TRUE(traces.ok()) << traces.error().text;
  ASSERT_EQ(traces->size(), 3u);
  EXPECT_EQ(trace_of_rank(*traces, 0)->clock_error_ns, 0);
  for (const int rank : {1, 2}) {
    const RankTrace& far = *trace_of_rank(*traces, rank);
    EXPECT_GT(far.clock_error_ns, 0);
    EXPECT_LE(std::abs(far.wall_ns - trace_of_rank(*traces, 0)->wall_ns),
              far.clock_error_ns + 1'000'000);
  }
}

// All ranks measure the clocks, or none: also where one rank alone keeps a record.
TEST(BlackBox, OfOneRankAloneIsAgreedOn) {
  Job job;
  job.create = false;
  job.leave_by_exit = true;
  job.hosts = {"a", "b", "b"};
  job.environment = {{"RONDO_RECORD", "0"}};
  RankProcesses ranks(3, job, [](EngineRank& seat) {
    if (seat.rank == 1) setenv("RONDO_RECORD", "1", 1);
    seat.expect(seat.join(short_timeouts()).ok(), "create");
    make_calls(seat, 3, 100);
    const auto traces = trace::traces_of_process(getpid());
    const RankTrace* own = traces.ok() ? trace_of_rank(*traces, 1) : nullptr;
    if (seat.rank == 0) seat.expect(!traces.ok(), "rank 0 has a record");
    if (seat.rank == 1) seat.expect(own != nullptr && own->clock_error_ns > 0, "no clock");
  });
  ASSERT_TRUE(ranks.wait_exits());
  ranks.check_expectations();
}

}  // namespace
}  // namespace rondo::test
