// SPDX-License-Identifier: Apache-2.0
// JointGraph: calls of a rank as a graph; of all ranks, where they are threads that share a GPU,
// whose calls must be in one graph.
//
//   JointGraph graph(seat, layout);
//   graph.capture([&] { NCCL_OK(ncclAllReduce(...)); });
//   graph.replay();  // returns when it has run
#pragma once

#include <functional>

#include "tests/gpu/process_bodies.h"

namespace rondo::test {

class JointGraph {
 public:
  JointGraph(NcclRank& seat, const Layout& layout) : seat_(seat) {
    const std::vector<int>& devices = layout.processes.front();
    joint_ = layout.processes.size() == 1 && devices.size() > 1 && devices[0] == devices[1];
    if (joint_) {
      EXPECT_EQ(gpu_api()->create_event(&event_, kEventPlain), kGpuSuccess);
    }
  }
  ~JointGraph() {
    if (graph_ != nullptr) {
      EXPECT_EQ(gpu_api()->destroy_graph(graph_), kGpuSuccess);
    }
    if (joint_) {
      EXPECT_EQ(gpu_api()->destroy_event(event_), kGpuSuccess);
    }
  }
  JointGraph(const JointGraph&) = delete;
  JointGraph& operator=(const JointGraph&) = delete;

  void capture(const std::function<void()>& calls) {
    if (captures())
      GPU_OK(gpu_api()->begin_capture(
          seat_.stream, joint_ ? GpuCaptureMode::kRelaxed : GpuCaptureMode::kThreadLocal));
    fork();
    calls();
    join();
    if (captures()) GPU_OK(gpu_api()->end_capture(seat_.stream, &graph_));
    ASSERT_TRUE(seat_.board.meet());
  }
  void replay() {
    ASSERT_TRUE(seat_.board.meet());  // all inputs are there
    if (captures()) GPU_OK(gpu_api()->launch_graph(graph_, seat_.stream));
    if (captures()) GPU_OK(gpu_api()->synchronize_stream(seat_.stream));
    ASSERT_TRUE(seat_.board.meet());
  }

 private:
  bool captures() const { return !joint_ || seat_.rank == 0; }
  GpuEvent event_of(int rank) const {
    return reinterpret_cast<GpuEvent>(seat_.board.seats[rank].value.load());
  }
  // The other ranks' streams join the capture of rank 0.
  void fork() {
    if (!joint_) return;
    seat_.board.seats[seat_.rank].value = reinterpret_cast<std::uintptr_t>(event_);
    if (captures()) GPU_OK(gpu_api()->record_event(event_, seat_.stream, GpuEventUse::kPlain));
    ASSERT_TRUE(seat_.board.meet());
    if (!captures())
      GPU_OK(gpu_api()->stream_wait_event(seat_.stream, event_of(0), GpuEventUse::kPlain));
    ASSERT_TRUE(seat_.board.meet());
  }
  void join() {
    if (!joint_) return;
    if (!captures()) GPU_OK(gpu_api()->record_event(event_, seat_.stream, GpuEventUse::kPlain));
    ASSERT_TRUE(seat_.board.meet());
    for (int rank = 1; rank < seat_.size && captures(); ++rank)
      GPU_OK(gpu_api()->stream_wait_event(seat_.stream, event_of(rank), GpuEventUse::kPlain));
  }

  NcclRank& seat_;
  bool joint_ = false;
  GpuEvent event_ = nullptr;
  void* graph_ = nullptr;
};

}  // namespace rondo::test
