// RankOrder: the order of one rank's messages, on whatever streams they are and in graphs' replays,
// and what its streams have still to come after.
//
// A rank's messages come after its own calls and after no other rank's, but for those that share a
// launch with it: ranks are ahead of each other in messages and graphs, and a wait for what another
// rank did later may be one for what needs this rank. So a launch for several ranks is followed by
// a point that nothing records again while one of them has still to come after it.
// With the team's mutex; for default streams, the rank's device current. Cost: an event record a
// launch; once the rank has graphs, one more for each rank of it, and a wait a group.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/result.h"
#include "collectives/gpu/rank_streams.h"
#include "collectives/gpu/stream_order.h"
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

  // The stream comes after the rank's messages so far.
  Status begin(const RankStreams::Use& use);
  // After messages of this rank alone.
  Status end(const RankStreams::Use& use);
  // After messages of this rank and others on one of this rank's streams.
  Status end_for(const RankStreams::Use& use, std::span<RankOrder* const> others);
  // All streams of the rank's group come after its messages, the first of them first.
  Status join(std::span<const RankStreams::Use> uses);

 private:
  struct Point {
    StreamEvent event;
    int users = 0;  // ranks that have still to wait for it, or may have to
  };
  struct Points {
    std::mutex growing;  // against threads that ask whether all is over
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
  std::vector<Point*> newest_;  // after the newest messages, where order_ has nothing of them
  GpuStream on_ = nullptr;      // is after these
  bool has_graphs_ = false;
  bool is_ahead_ = false;       // of the group's streams but one
  std::vector<Point*> missed_;  // of launches of others for this rank
  std::unique_ptr<Points> points_ = std::make_unique<Points>();  // of launches of this rank
  UnfinishedWork work_;
};

}  // namespace rondo::gpu
