// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/call_groups.h"

#include <utility>

namespace rondo::test {

Group make_group(std::uint64_t seed, int ranks, std::size_t calls, bool large) {
  constexpr Collective kCollectives[] = {Collective::kAllReduce, Collective::kAllReduce,
                                         Collective::kAllGather, Collective::kReduceScatter,
                                         Collective::kBroadcast, Collective::kReduce,
                                         Collective::kAllToAll};
  constexpr DataType kTypes[] = {DataType::kFloat32, DataType::kFloat32, DataType::kInt32,
                                 DataType::kUint32, DataType::kUint8};
  constexpr RedOp kOps[] = {RedOp::kSum, RedOp::kSum, RedOp::kMax};
  constexpr std::size_t kCounts[] = {0, 1, 37, 500, 3001};
  Random random(seed);
  const auto any = [&random](const auto& of) { return of[random.below(std::size(of))]; };
  Group group{{}, seed};
  // Only consecutive calls of one kind are fused.
  Case c{any(kCollectives), any(kTypes), any(kOps), ranks, 0, 1, 0};
  while (group.cases.size() < calls) {
    if (random.one_in(3)) c.collective = any(kCollectives), c.type = any(kTypes), c.op = any(kOps);
    c.count = any(kCounts);
    if (large && random.one_in(3)) c.count = 20'001;
    c.root = static_cast<int>(random.below(static_cast<std::size_t>(ranks)));
    c.seed = static_cast<unsigned>(seed * 100 + group.cases.size());
    group.cases.push_back(c);
  }
  return group;
}

void end_after_fault(NcclRank& seat, ncclResult_t result, bool all_report) {
  seat.report(Error{static_cast<StatusCode>(result), ncclGetLastError(seat.comm)});
  // An abort is also a fault: no rank aborts before all have reported the first fault.
  if (all_report) {
    EXPECT_TRUE(seat.board.meet());
  }
  NCCL_OK(ncclCommAbort(seat.comm));
  seat.comm = nullptr;
  GPU_OK(gpu_api()->synchronize_device());
}

SymmetricWindow::SymmetricWindow(NcclRank& seat, DeviceBuffer& buffer) : comm_(seat.comm) {
  EXPECT_EQ(ncclCommWindowRegister(comm_, buffer.base(), buffer.size(), &window_,
                                   NCCL_WIN_COLL_SYMMETRIC),
            ncclSuccess)
      << ncclGetLastError(comm_);
}
SymmetricWindow::SymmetricWindow(SymmetricWindow&& other) noexcept
    : comm_(other.comm_), window_(std::exchange(other.window_, nullptr)) {}
SymmetricWindow::~SymmetricWindow() {
  if (window_ == nullptr) return;
  EXPECT_EQ(ncclCommWindowDeregister(comm_, window_), ncclSuccess);
}

namespace {

class GroupRun {
 public:
  GroupRun(NcclRank& seat, const Group& group, const GroupOptions& how)
      : seat_(seat),
        how_(how),
        random_(group.seed * 8 + static_cast<unsigned>(seat.rank)),
        streams_(static_cast<std::size_t>(how.streams), seat.stream) {
    for (std::size_t s = 1; s < streams_.size(); ++s)
      EXPECT_EQ(gpu_api()->create_stream(&streams_[s], 0), kGpuSuccess);
    Random agreed(group.seed);
    for (const Case& c : group.cases) {
      const bool in_window = how.windows == GroupOptions::kAll ||
                             (how.windows == GroupOptions::kHalf && agreed.one_in(2));
      Random& by = how.windows != GroupOptions::kNone ? agreed : random_;
      const bool in_place = c.collective != Collective::kAllToAll && by.one_in(2);
      const std::size_t shift = by.below(3) * size_of(c.type);
      parts_.emplace_back(seat.comm, streams_[random_.below(streams_.size())], c, seat.rank,
                          RankCase::Options{in_place, shift, in_window});
      if (!in_window) continue;
      windows_.emplace_back(seat, parts_.back().input());
      windows_.emplace_back(seat, parts_.back().output());
    }
  }
  ~GroupRun() {
    if (has_windows()) {
      EXPECT_TRUE(seat_.board.meet());  // no rank's calls still use them
    }
    windows_.clear();
    for (std::size_t s = 1; s < streams_.size(); ++s) gpu_api()->destroy_stream(streams_[s]);
  }
  GroupRun(const GroupRun&) = delete;
  GroupRun& operator=(const GroupRun&) = delete;

  void fill() {
    for (RankCase& part : parts_) part.fill_input();
    // Other ranks write into windows as soon as they can.
    if (has_windows()) {
      ASSERT_TRUE(seat_.board.meet());
    }
  }
  void call() {
    NCCL_OK(ncclGroupStart());
    for (RankCase& part : parts_) {
      NCCL_OK(part.call());
      if (!how_.cuts || !random_.one_in(3)) continue;
      NCCL_OK(ncclGroupEnd());
      NCCL_OK(ncclGroupStart());
    }
    NCCL_OK(ncclGroupEnd());
  }
  void check(std::uint64_t seed) {
    for (RankCase& part : parts_) ASSERT_EQ(part.check(), "") << "group of seed " << seed;
  }

 private:
  bool has_windows() const { return how_.windows != GroupOptions::kNone; }

  NcclRank& seat_;
  const GroupOptions how_;
  Random random_;
  std::vector<GpuStream> streams_;
  std::vector<RankCase> parts_;
  std::vector<SymmetricWindow> windows_;
};

}  // namespace

void run_group(NcclRank& seat, const Group& group, const GroupOptions& how) {
  GroupRun run(seat, group, how);
  run.fill();
  if (!how.captures) {
    run.call();
    return run.check(group.seed);
  }
  void* graph = nullptr;
  GPU_OK(gpu_api()->begin_capture(seat.stream, GpuCaptureMode::kThreadLocal));
  run.call();
  GPU_OK(gpu_api()->end_capture(seat.stream, &graph));
  for (int replay = 0; replay < 3 && !testing::Test::HasFatalFailure(); ++replay) {
    if (replay > 0) run.fill();
    GPU_OK(gpu_api()->launch_graph(graph, seat.stream));
    run.check(group.seed);
    if (how.windows != GroupOptions::kNone) {
      ASSERT_TRUE(seat.board.meet());  // before any rank fills again
    }
  }
  GPU_OK(gpu_api()->destroy_graph(graph));
}

}  // namespace rondo::test
