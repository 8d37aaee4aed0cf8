// StreamOrder: keeps launches in the order in which they were made, whatever streams, graphs and
// devices of one process they go to: on each device an event after the newest of them, one after
// the newest that touched other devices' ranks, and one for captures.
//
// A launch comes after those of the ranks that it touches, and after no other: a rank may be ahead
// of another one, and waiting for the later launches of that one could deadlock. So
// either all ranks of the order take part in a launch, or it is none of the order's, and comes
// after what those ranks did (come_after()); and a rank follows the launch that it took part in.
//
// begin() before something is enqueued, end() after it; both for the stream that it is on, with its
// device current if that is a default one. Guarantees: everything launched before is before the
// newest launch, graphs' replays included; inside a capture the order is a capture dependency; no
// memory of Rondo's own is freed under these launches, also after the end of this
// (deferred_free.h). Devices may be captured into a graph each, whose replays wait for no other
// device's part of the same call. Cost: an event record a launch; once there are graphs, two of one
// that touches other devices' ranks; nothing more where one stream is used outside of captures.
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
  int place = 0;  // of the device among those of the order
  GpuStream stream = nullptr;
  GpuCaptureInfo capture;
  GpuEvent ready = nullptr;  // where the stream stands, if somebody noted it
  // One of several launches, one on each device, that touch no other device's ranks.
  bool on_every_device = false;
};

class StreamOrder {
 public:
  StreamOrder() = default;
  ~StreamOrder();
  StreamOrder(const StreamOrder&) = delete;
  StreamOrder& operator=(const StreamOrder&) = delete;

  // RankPlacement are indexes of the devices. Records all events once, so that a graph may wait for
  // them before any launch: on `stream` of the only device, or on streams of its own.
  Status open(std::span<const int> devices, GpuStream stream = nullptr);

  // A stream of the device for work of ranks whose stream other threads cannot name.
  GpuStream own_stream(int place) const { return devices_[static_cast<std::size_t>(place)].own; }

  Status begin(const LaunchPosition& site);
  Status end(const LaunchPosition& site);
  // After end() of launches on every device: together they are the newest.
  void end_of_all(const LaunchPosition& any);

  // Of something on the stream that touches ranks of these devices alone (bits: places), and
  // that others need not come after.
  Status come_after(const LaunchPosition& site, std::uint64_t places);

  // The stream waits for the newest launch; place: of its device.
  Status follow(int place, GpuStream stream, const GpuCaptureInfo& capture) const;
  bool is_over() const;  // whether all launches have ended

 private:
  struct Device {
    int number = -1;        // CUDA's
    StreamEvent events[2];  // see order_of(), wide_of()
    StreamEvent captured;   // after its last captured launch
    GpuStream own = nullptr;
    GpuStream stream = nullptr;  // of its last launch outside of captures
    bool newest = false;         // it took part in the newest launch
    bool newest_is_wide = false;
    bool is_renewed = false;    // order_of(), since wide ones are told
    std::uint64_t capture = 0;  // of its newest launch; 0: it was none
  };
  // After its last launch; and after the last that touched ranks of other devices, once that is
  // told. Before, all may have.
  const StreamEvent& order_of(const Device& device) const {
    return device.events[tells_wide_ ? 1 : 0];
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
  bool tells_wide_ = false;  // there are several devices, and captures
  UnfinishedWork work_;
};

}  // namespace rondo::gpu
