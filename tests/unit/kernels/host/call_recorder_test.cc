// SPDX-License-Identifier: Apache-2.0
// The black box holds the newest calls, also one that has not ended, and its totals.
#include "kernels/host/call_recorder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

namespace rondo::host {
namespace {

class Recorder : public testing::Test {
 protected:
  Recorder() { start(recorder_); }
  void start(CallRecorder& recorder, bool brief = false) {
    CallRecorder::Setup setup;
    setup.brief = brief;
    setup.ring = ring_.get();
    setup.commit = [](void*, std::size_t) { return true; };
    setup.origin.communicator = 7;
    recorder.set_up(setup);
  }
  CallTrace trace(std::uint64_t number) const {
    return load_trace(ring_->lines[number % kTracedCalls]);
  }
  static CallRecord sum(std::uint64_t count) {
    return {count, Collective::kAllReduce, DataType::kFloat32, RedOp::kSum, 0, -1};
  }

  std::unique_ptr<TraceRing> ring_ = std::make_unique<TraceRing>();
  CallRecorder recorder_;
};

TEST_F(Recorder, ShowsACallThatHasNotEnded) {
  EXPECT_EQ(ring_->origin.communicator, 0u);
  recorder_.choose(3, 4);
  recorder_.begin(sum(5), 9);
  EXPECT_EQ(ring_->origin.communicator, 7u);
  const CallTrace open = trace(1);
  EXPECT_EQ(open.number, 1u);
  EXPECT_EQ(open.sequence, 9u);
  EXPECT_EQ(open.call, sum(5));
  EXPECT_EQ(open.ended, 0u);
  EXPECT_EQ(open.algorithm, 3);
  EXPECT_EQ(open.protocol, 4);
  recorder_.end(StatusCode::kTimeout);
  const CallTrace ended = trace(1);
  EXPECT_GE(ended.ended, ended.entered);
  EXPECT_EQ(ended.result, static_cast<int>(StatusCode::kTimeout));
  recorder_.begin(sum(1), 10);
  EXPECT_EQ(trace(2).algorithm, 0xff);  // of this call none was chosen
}

struct Observer : CallObserver {
  void on_begin(std::uint8_t algorithm, std::uint8_t protocol) override {
    seen += "begin " + std::to_string(algorithm) + " " + std::to_string(protocol) + ", ";
  }
  void on_end() override { seen += "end, "; }
  std::string seen;
};

TEST_F(Recorder, ShowsCallsToItsObserverWithAndWithoutARing) {
  Observer beside, alone;
  CallRecorder without;
  without.observe_by(alone);
  recorder_.observe_by(beside);
  for (CallRecorder* recorder : {&recorder_, &without}) {
    recorder->choose(3, 4);
    recorder->begin(sum(5), 1);
    recorder->end(StatusCode::kSuccess);
    recorder->end(StatusCode::kSuccess);  // nothing has begun
    recorder->begin(sum(5), 2);
    recorder->begin(sum(6), 0);
    recorder->end(StatusCode::kTimeout);
  }
  const std::string all = "begin 3 4, end, begin 255 255, begin 255 255, end, ";
  EXPECT_EQ(beside.seen, all);
  EXPECT_EQ(alone.seen, all);
  EXPECT_EQ(trace(3).result, static_cast<int>(StatusCode::kTimeout));
  EXPECT_FALSE(without.records());
}

TEST_F(Recorder, KeepsTheNewestCalls) {
  for (int i = 1; i <= kTracedCalls + 3; ++i) {
    recorder_.begin(sum(1), static_cast<std::uint64_t>(i));
    recorder_.end(StatusCode::kSuccess);
  }
  EXPECT_EQ(trace(3).number, std::uint64_t{kTracedCalls + 3});
  EXPECT_EQ(trace(4).number, 4u);
}

TEST_F(Recorder, EndsTheMessagesOfAGroupTogether) {
  recorder_.begin({8, Collective::kSend, DataType::kInt8, RedOp::kSum, 0, 1}, 0);
  recorder_.begin({8, Collective::kRecv, DataType::kInt8, RedOp::kSum, 0, 2}, 0);
  EXPECT_EQ(trace(1).ended, 0u);
  recorder_.end(StatusCode::kSuccess);
  EXPECT_NE(trace(1).ended, 0u);
  EXPECT_EQ(trace(1).ended, trace(2).ended);
  EXPECT_EQ(trace(1).call.root, 1);
}

TEST_F(Recorder, KeepsTheLongestWaitAndItsRank) {
  constexpr std::uint64_t kLong = 1 << 20;
  const auto wait = [&](int rank, std::uint64_t minimum) {  // returns the ticks that it took
    const std::uint64_t begun = ticks();
    recorder_.begin_wait();
    while (ticks() < begun + minimum) {
    }
    recorder_.end_wait(rank);
    return ticks() - begun;
  };
  std::uint64_t calls = 0, longest_other = 0;
  do {
    recorder_.begin(sum(1), ++calls);
    longest_other = wait(4, 0);
    wait(5, kLong);
    longest_other = std::max(longest_other, wait(6, 0));
    recorder_.end(StatusCode::kSuccess);
  } while (longest_other >= kLong && calls < 1000);  // the thread lost its core in a short wait
  EXPECT_EQ(trace(calls).waits, 3);
  EXPECT_EQ(trace(calls).longest_wait_for, 5);
  EXPECT_GE(trace(calls).longest_wait, kLong >> 10);
  EXPECT_EQ(ring_->waits, 3 * calls);
}

TEST_F(Recorder, CountsCallsByKindAndSize) {
  for (const std::uint64_t count : {1u, 256u, 257u, 1u << 20}) {
    recorder_.begin(sum(count), 1);
    recorder_.end(StatusCode::kSuccess);
  }
  const auto& totals = ring_->totals[static_cast<int>(Collective::kAllReduce)];
  EXPECT_EQ(totals[0].calls, 2u);
  EXPECT_EQ(totals[0].bytes, 1028u);
  EXPECT_EQ(totals[0].finished, 2u);
  EXPECT_EQ(totals[1].calls, 1u);
  EXPECT_EQ(totals[3].bytes, 4u << 20);
}

// Where calls are as short as these, a second look at the clock and the sums would cost too much.
TEST_F(Recorder, ThatIsBriefTimesNoEndWithinABurst) {
  CallRecorder brief;
  start(brief, true);
  std::uint64_t number = 0;
  const auto pause = [] {
    for (const std::uint64_t until = ticks() + 2 * kBurstTicks; ticks() < until;) {
    }
  };
  const auto run = [&](const CallRecord& call, std::uint64_t sequence = 1) {
    brief.choose(3, 4);
    brief.begin(call, sequence);
    brief.end_finished();
    return trace(++number);
  };
  EXPECT_NE(run(sum(1)).ended, 0u) << "the first call commits the ring";
  bool untimed = false;  // two calls with nothing between them, unless the thread loses its core
  for (int i = 0; i < 1000 && !untimed; ++i) untimed = run(sum(1)).ended == 0;
  EXPECT_TRUE(untimed);
  const CallTrace in_burst = trace(number);
  EXPECT_EQ(in_burst.call, sum(1));
  EXPECT_EQ(in_burst.algorithm, 3);
  EXPECT_EQ(in_burst.protocol, 4);
  pause();
  EXPECT_NE(run(sum(1)).ended, 0u) << "follows no other call at once";
  EXPECT_NE(run(sum(kBurstElements)).ended, 0u) << "is large";
  EXPECT_NE(run(sum(1), 0).ended, 0u) << "is a message, which nobody announces";
  brief.begin(sum(1), 1);
  brief.begin_wait();
  brief.end_wait(5);
  brief.end_finished();
  EXPECT_NE(trace(++number).ended, 0u) << "has waited";
  EXPECT_EQ(trace(number).longest_wait_for, 5);
  brief.begin(sum(1), 1);
  brief.end(StatusCode::kTimeout);
  EXPECT_EQ(trace(++number).result, static_cast<int>(StatusCode::kTimeout));
  EXPECT_NE(trace(number).ended, 0u) << "has failed";
  EXPECT_EQ(ring_->totals[static_cast<int>(Collective::kAllReduce)][0].calls, 0u);
}

TEST_F(Recorder, ThatIsBriefShowsItsObserverEachCall) {
  Observer observer;
  CallRecorder brief;
  brief.observe_by(observer);
  start(brief, true);
  for (int i = 0; i < 3; ++i) {
    brief.begin(sum(1), 1);
    brief.end_finished();
  }
  EXPECT_EQ(observer.seen, "begin 255 255, end, begin 255 255, end, begin 255 255, end, ");
}

TEST(RecorderWithoutMemory, RecordsNothing) {
  CallRecorder recorder;
  recorder.begin({}, 1);  // was not set up
  recorder.end(StatusCode::kSuccess);
  TraceRing* const none = reinterpret_cast<TraceRing*>(alignof(TraceRing));  // never touched
  CallRecorder::Setup setup;
  setup.ring = none;
  setup.commit = [](void*, std::size_t) { return false; };
  recorder.set_up(setup);
  recorder.begin({}, 2);
  recorder.end_wait(1);
  recorder.end(StatusCode::kSuccess);
  EXPECT_FALSE(recorder.records());
}

TEST(LoadTrace, TakesNoRecordThatIsBeingWritten) {
  TraceLine line{};
  line.words[1] = 5;
  EXPECT_EQ(load_trace(line).number, 0u);
}

}  // namespace
}  // namespace rondo::host
