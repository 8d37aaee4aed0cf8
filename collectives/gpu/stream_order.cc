#include "collectives/gpu/stream_order.h"

#include <algorithm>
#include <memory>

#include "transport/cuda/streams.h"

namespace rondo::gpu {
Status StreamOrder::open(std::span<const int> devices, GpuStream stream) {
  for (const int number : devices) {
    const DeviceScope scope(number);
    RONDO_CHECK_OK(scope.entered());
    Device& device = devices_.emplace_back();
    device.number = number;
    if (stream == nullptr)
      RONDO_CHECK_OK(check(gpu_api()->create_stream(&device.own, 0), "cudaStreamCreate"));
    for (std::size_t i = 0; i < (devices.size() == 1 ? 1 : 2); ++i) {
      RONDO_CHECK_OK(device.events[i].open());
      RONDO_CHECK_OK(device.events[i].record(stream == nullptr ? device.own : stream));
    }
  }
  work_.watch([this] { return is_over(); });
  return ok_status();
}

StreamOrder::~StreamOrder() {
  for (const Device& device : devices_)
    if (device.own != nullptr) gpu_api()->destroy_stream(device.own);
  if (is_over()) return;
  work_.leave([this] {
    const auto left = std::make_shared<std::vector<Device>>(std::move(devices_));
    return [left] { return are_over(*left); };
  });
}

// Before the first capture: what was launched until then counts as wide, and the event after it is
// kept. One that would be recorded now, on a stream of our own, would come after whatever shares
// its hardware queue.
void StreamOrder::begin_to_capture() { tells_wide_ |= devices_.size() > 1; }

// What a launch on every device must come after: its own device's launches, and others' that
// touched its ranks. Another device's part of an earlier call is none of these; a graph of one
// device that waited for it would wait for what its own kernel waits for.
Status StreamOrder::begin_captured(const LaunchPosition& site) {
  begin_to_capture();
  const Device& here = devices_[static_cast<std::size_t>(site.place)];
  bool goes_on = false;
  for (const Device& device : devices_) {
    if (device.capture != site.capture.id) continue;
    if (site.on_every_device ? &device != &here && !device.newest_is_wide : !device.newest)
      continue;
    goes_on = true;
    RONDO_CHECK_OK(device.captured.hold(site.stream));
  }
  if (goes_on) return ok_status();
  // A graph waits whatever came before its capture: it may be replayed after anything.
  for (const Device& device : devices_) {
    const bool touched = !site.on_every_device || &device == &here;
    RONDO_CHECK_OK(hold(device, touched, site.stream, GpuEventUse::kExternal));
  }
  return ok_status();
}

Status StreamOrder::begin(const LaunchPosition& site) {
  if (capturing(site.capture)) return begin_captured(site);
  if (!any_plain_ && !any_capture_) return ok_status();
  // What runs on this very stream is in order already, unless a graph may have been launched on
  // another one since. A launch on every device touches nothing but its own device's ranks; another
  // one touches the ranks of all devices.
  const Device& here = devices_[static_cast<std::size_t>(site.place)];
  const auto newest = std::count_if(devices_.begin(), devices_.end(),
                                    [](const Device& device) { return device.newest; });
  if (!any_capture_ && here.newest && (site.on_every_device || newest == 1) &&
      same_stream(here.stream, site.stream))
    return ok_status();
  for (const Device& device : devices_) RONDO_CHECK_OK(hold(device, true, site.stream));
  return ok_status();
}

// Of a device whose ranks a launch does not touch, only what touched the launch's own ranks.
Status StreamOrder::hold(const Device& device, bool touched, GpuStream stream,
                         GpuEventUse use) const {
  if (touched || !tells_wide_) RONDO_CHECK_OK(order_of(device).hold(stream, use));
  const bool order_is_enough = touched && device.is_renewed;
  return !tells_wide_ || order_is_enough ? ok_status() : wide_of(device).hold(stream, use);
}

Status StreamOrder::come_after(const LaunchPosition& site, std::uint64_t places) {
  const bool in_capture = capturing(site.capture);
  if (!in_capture && !any_plain_ && !any_capture_) return ok_status();
  if (in_capture) begin_to_capture();
  for (std::size_t place = 0; place < devices_.size(); ++place) {
    const Device& device = devices_[place];
    const bool touched = (places >> place & 1) != 0;
    const bool newest_touches = touched || device.newest_is_wide;
    if (in_capture && device.capture != site.capture.id) {
      RONDO_CHECK_OK(hold(device, touched, site.stream, GpuEventUse::kExternal));
    } else if (in_capture) {
      if (newest_touches) RONDO_CHECK_OK(device.captured.hold(site.stream));
    } else if (any_capture_) {
      RONDO_CHECK_OK(hold(device, touched, site.stream));
    } else if (device.newest && newest_touches && !same_stream(device.stream, site.stream)) {
      RONDO_CHECK_OK(order_of(device).hold(site.stream));
    }
  }
  return ok_status();
}

Status StreamOrder::end(const LaunchPosition& site) {
  Device& device = devices_[static_cast<std::size_t>(site.place)];
  const bool in_capture = capturing(site.capture);
  const auto use = in_capture ? GpuEventUse::kExternal : GpuEventUse::kPlain;
  if (!in_capture) device.stream = site.stream;
  device.capture = in_capture ? site.capture.id : 0;
  device.newest_is_wide = !site.on_every_device;
  if (!site.on_every_device) set_newest(site);
  if (tells_wide_) device.is_renewed = true;
  if (device.newest_is_wide && tells_wide_)
    RONDO_CHECK_OK(wide_of(device).record(site.stream, use));
  RONDO_CHECK_OK(order_of(device).record(site.stream, use));
  // What follows in the capture follows this record, too: else the records of several streams would
  // have no order, and a stream of our own would not be joined again.
  if (!in_capture) return ok_status();
  if (device.captured.get() == nullptr) {
    const DeviceScope scope(device.number);
    RONDO_CHECK_OK(scope.entered());
    RONDO_CHECK_OK(device.captured.open());
  }
  return device.captured.record(site.stream);
}

void StreamOrder::end_of_all(const LaunchPosition& any) {
  set_newest(any);
  for (Device& device : devices_) device.newest = true;
}

void StreamOrder::set_newest(const LaunchPosition& site) {
  for (Device& device : devices_) device.newest = false;
  devices_[static_cast<std::size_t>(site.place)].newest = true;
  const bool in_capture = capturing(site.capture);
  any_plain_ |= !in_capture;
  any_capture_ |= in_capture;
}

Status StreamOrder::follow(int place, GpuStream stream, const GpuCaptureInfo& capture) const {
  const Device* const own = &devices_[static_cast<std::size_t>(place)];
  const Device* served = own;
  if (!served->newest)
    for (const Device& device : devices_)
      if (device.newest) served = &device;
  const bool in_capture = capturing(capture);
  if (!in_capture && same_stream(stream, served->stream)) return ok_status();
  // Another rank has captured since, into a graph of its own: what this one captured before is on
  // its own stream, as ranks of several graphs have no call in common.
  if (in_capture && served->capture != capture.id) return ok_status();
  if (in_capture) return served->captured.hold(stream);
  // That device's ranks may have launched graphs since, whose kernels wait for this one's.
  return hold(*served, served == own, stream);
}

bool StreamOrder::is_over() const { return are_over(devices_); }

bool StreamOrder::are_over(const std::vector<Device>& devices) {
  return std::all_of(devices.begin(), devices.end(), [](const Device& device) {
    return device.events[0].is_over() && device.events[1].is_over();
  });
}

}  // namespace rondo::gpu
