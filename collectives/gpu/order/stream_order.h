// StreamOrder: keeps the launches of one process in the order in which they were made, on all
// streams, devices and graphs.
//
// Each device has an event after its newest launch, one after the newest launch that touched ranks
// of other devices (a wide launch), and one for captures. A launch waits for earlier launches of
// the ranks that it touches, and for nothing else: another rank may be ahead, and a wait for its
// later launches could deadlock. So either all ranks of the order take part in a launch, and
// begin() and end() enclose it; or the launch is outside of the order, and come_after() lets it
// wait for its ranks' launches. A rank's streams follow() the launch that served the rank.
//
// If the stream is a default one, its device must be current. Guarantees: the newest launch runs
// after all earlier ones, also in replays; within a capture the order is a capture dependency.
// Rondo's own memory is not freed while such a launch is unfinished, not even after the end of the
// order (deferred_free.h). Devices may be captured into separate graphs; the replay of one graph
// does not wait for other devices' parts of the same call. Cost: one event record a launch; a
// second one for a wide launch once there are graphs; none while all calls use one stream outside
// of captures.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/gpu.h"
#include "base/result.h"
#include "transport/cuda/deferred_free.h"
#include "transport/cuda/stream_event.h"

namespace rondo::gpu {

// Where a launch goes.
struct LaunchPosition {
  int place = 0;  // index of the device in the order
  GpuStream stream = nullptr;
  GpuCaptureInfo capture;
  GpuEvent ready = nullptr;  // recorded on the stream before the call; null: not recorded
  // One of several launches, one on each device, each of which touches only its device's ranks.
  bool on_every_device = false;
};

class StreamOrder {
 public:
  StreamOrder() = default;
  ~StreamOrder();
  StreamOrder(const StreamOrder&) = delete;
  StreamOrder& operator=(const StreamOrder&) = delete;

  // Records each event once, so that a graph may wait for it before the first launch: on `stream`
  // if there is one device, else on streams of its own.
  Status open(std::span<const int> devices, GpuStream stream = nullptr);

  // The order's own stream of a device. For ranks on default streams, whose handle names another
  // stream on another thread.
  GpuStream own_stream(int place) const { return devices_[static_cast<std::size_t>(place)].own; }

  Status begin(const LaunchPosition& site);
  Status end(const LaunchPosition& site);
  // Call after end() of launches on every device. Together they are the newest launch.
  void end_of_all(const LaunchPosition& any);

  // Makes the stream wait for earlier launches of ranks of these devices (bits: places), before
  // work that is outside of the order.
  Status come_after(const LaunchPosition& site, std::uint64_t places);

  // Makes the stream, of device `place`, wait for the newest launch.
  Status follow(int place, GpuStream stream, const GpuCaptureInfo& capture) const;
  bool is_over() const;  // whether all launches have ended

 private:
  struct Device {
    int number = -1;        // CUDA's
    StreamEvent events[2];  // order_of(), wide_of()
    StreamEvent captured;   // after its newest captured launch
    GpuStream own = nullptr;
    GpuStream stream = nullptr;  // of its newest launch outside of captures
    bool newest = false;         // it took part in the newest launch of the order
    bool newest_is_wide = false;
    bool is_renewed = false;    // order_of() was recorded since reports_wide_
    std::uint64_t capture = 0;  // of its newest launch; 0: outside of captures
  };
  // Events after its newest launch, and after its newest wide launch. Before reports_wide_ one
  // event serves both, and every launch counts as wide.
  const StreamEvent& order_of(const Device& device) const {
    return device.events[reports_wide_ ? 1 : 0];
  }
  static const StreamEvent& wide_of(const Device& device) { return device.events[0]; }
  void begin_to_capture();
  Status begin_captured(const LaunchPosition& site);
  Status hold(const Device& device, bool touched, GpuStream stream,
              GpuEventUse use = GpuEventUse::kPlain) const;
  void set_newest(const LaunchPosition& site);

  static bool are_over(const std::vector<Device>& devices);

  std::vector<Device> devices_;
  bool any_plain_ = false, any_capture_ = false;
  bool reports_wide_ = false;  // separate events for wide launches: several devices, and captures
  UnfinishedWork work_;
};

}  // namespace rondo::gpu
