// RankOrder: keeps the messages of one rank in order, on all its streams and in replays, and makes
// its streams wait for them.
//
// A rank's messages wait for the rank's own calls, and for other ranks' only if they share a
// launch: ranks may be ahead of each other, and a wait for another rank's later work could
// deadlock. A launch that serves several ranks records a point, an event that is not recorded again
// while one of these ranks still has to wait for it.
// Call with the team's mutex; for default streams the rank's device must be current. Cost: an event
// record a launch; once the rank has graphs, one more for each rank of the launch, and a wait a
// group.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/result.h"
#include "collectives/gpu/order/rank_streams.h"
#include "collectives/gpu/order/stream_order.h"
#include "transport/cuda/deferred_free.h"
#include "transport/cuda/stream_event.h"

namespace rondo::gpu {

class RankOrder {
 public:
  RankOrder();
  ~RankOrder();
  RankOrder(const RankOrder&) = delete;
  RankOrder& operator=(const RankOrder&) = delete;

  // stream: any of the device.
  Status open(int device, GpuStream stream);
  bool is_over() const { return order_.is_over() && points_->are_over(); }  // all messages

  // Makes the stream wait for the rank's messages so far.
  Status begin(const RankStreams::Use& use);
  // Call after messages that only this rank takes part in.
  Status end(const RankStreams::Use& use);
  // Call after messages of this rank and others, on one of this rank's streams.
  Status end_for(const RankStreams::Use& use, std::span<RankOrder* const> others);
  // Makes all streams of the rank's group wait for its messages, the first stream first.
  Status join(std::span<const RankStreams::Use> uses);

 private:
  struct Point {
    StreamEvent event;
    int users = 0;  // ranks that may still have to wait for it
  };
  struct Points {
    std::mutex growing;  // are_over() runs on other threads
    std::list<Point> all;
    bool are_over();
  };
  static LaunchPosition site_of(const RankStreams::Use& use) {
    return {0, use.stream, use.capture, use.ready, false};
  }
  Result<Point*> unused_point();
  Status end_with(const RankStreams::Use& use, std::vector<Point*> points);
  void forget_newest();

  int device_ = -1;
  StreamOrder order_;
  std::vector<Point*> newest_;  // points after the newest messages, if order_ does not know them
  GpuStream on_ = nullptr;      // the stream that has waited for these
  bool has_graphs_ = false;
  bool is_ahead_ = false;  // only one of the group's streams has waited for the newest messages
  std::vector<Point*> missed_;  // of other ranks' launches that served this rank
  std::unique_ptr<Points> points_ = std::make_unique<Points>();  // of this rank's launches
  UnfinishedWork work_;
};

}  // namespace rondo::gpu
