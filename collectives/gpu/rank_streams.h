// RankStreams: the streams that a rank's calls of one group use, and where they stood before them.
//
// Costs an event record a stream and group, and none for a rank that is alone in its process and
// uses one stream, or that posts last (TeamContext::note()).
#pragma once

#include <span>
#include <vector>

#include "base/gpu.h"
#include "base/result.h"
#include "transport/cuda/stream_event.h"

namespace rondo::gpu {

class RankStreams {
 public:
  struct Use {
    GpuStream stream = nullptr;
    GpuEvent ready = nullptr;
    GpuCaptureInfo capture;
  };

  // The rank's device must be current, and in add() for default streams. alone: in its process.
  Status open(int device, bool alone);
  void begin_group() { uses_.clear(); }
  // Null: the group uses the stream already. Else note() follows, once the stream waits for
  // whatever the rank's calls come after.
  Result<const Use*> add(GpuStream stream);
  Status note() const;

  const Use& of(GpuStream stream) const;
  std::span<const Use> all() const { return uses_; }

 private:
  int device_ = -1;
  bool alone_ = false;
  std::vector<Use> uses_;
  std::vector<StreamEvent> events_;  // as many as streams were ever used in one group
};

}  // namespace rondo::gpu
