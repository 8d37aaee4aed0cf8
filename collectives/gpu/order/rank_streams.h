// RankStreams: the streams that a rank's calls of one group use, each with an event recorded before
// these calls.
//
// Cost: an event record a stream and group; none for a rank that is alone in its process and uses
// one stream, or that posts last (TeamContext::note()).
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

  // The rank's device must be current; in add() only for default streams. alone: no other rank is
  // in the process.
  Status open(int device, bool alone);
  void begin_group() { uses_.clear(); }
  // Null: the group uses the stream already. Else call note() once the stream waits for the rank's
  // earlier calls.
  Result<const Use*> add(GpuStream stream);
  Status note() const;

  const Use& of(GpuStream stream) const;
  std::span<const Use> all() const { return uses_; }

 private:
  int device_ = -1;
  bool alone_ = false;
  std::vector<Use> uses_;
  std::vector<StreamEvent> events_;  // the maximum number of streams of one group
};

}  // namespace rondo::gpu
