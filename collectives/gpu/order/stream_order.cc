#include "collectives/gpu/order/stream_order.h"

#include <algorithm>
#include <cassert>
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

// Call before the first capture. Earlier launches count as wide, and their event is kept: an event
// recorded now on the order's own stream could wait for unrelated work in its hardware queue.
void StreamOrder::begin_to_capture() { reports_wide_ |= devices_.size() > 1; }

// A launch on every device waits for its own device's launches, and for others that touched its
// ranks. It does not wait for other devices' parts of an earlier call: a kernel in this graph may
// have to serve those parts, so that wait would deadlock.
Status StreamOrder::begin_captured(const LaunchPosition& site) {
  begin_to_capture();
  assert(static_cast<std::size_t>(site.place) < devices_.size());
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
  // The first launch of a capture waits for all earlier ones, whatever they are at replay time.
  for (const Device& device : devices_) {
    const bool touched = !site.on_every_device || &device == &here;
    RONDO_CHECK_OK(hold(device, touched, site.stream, GpuEventUse::kExternal));
  }
  return ok_status();
}

Status StreamOrder::begin(const LaunchPosition& site) {
  if (capturing(site.capture)) return begin_captured(site);
  if (!any_plain_ && !any_capture_) return ok_status();
  // On the stream of the newest launch no wait is needed, unless a graph may have been launched on
  // another stream since. A launch on every device touches only its own device's ranks; any other
  // launch touches the ranks of all devices.
  const Device& here = devices_[static_cast<std::size_t>(site.place)];
  const auto newest = std::count_if(devices_.begin(), devices_.end(),
                                    [](const Device& device) { return device.newest; });
  if (!any_capture_ && here.newest && (site.on_every_device || newest == 1) &&
      same_stream(here.stream, site.stream))
    return ok_status();
  for (const Device& device : devices_) RONDO_CHECK_OK(hold(device, true, site.stream));
  return ok_status();
}

// For a device whose ranks the launch does not touch, only wide launches count.
Status StreamOrder::hold(const Device& device, bool touched, GpuStream stream,
                         GpuEventUse use) const {
  if (touched || !reports_wide_) RONDO_CHECK_OK(order_of(device).hold(stream, use));
  const bool order_is_enough = touched && device.is_renewed;
  return !reports_wide_ || order_is_enough ? ok_status() : wide_of(device).hold(stream, use);
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
  assert(static_cast<std::size_t>(site.place) < devices_.size());
  Device& device = devices_[static_cast<std::size_t>(site.place)];
  const bool in_capture = capturing(site.capture);
  const auto use = in_capture ? GpuEventUse::kExternal : GpuEventUse::kPlain;
  if (!in_capture) device.stream = site.stream;
  device.capture = in_capture ? site.capture.id : 0;
  device.newest_is_wide = !site.on_every_device;
  if (!site.on_every_device) set_newest(site);
  if (reports_wide_) device.is_renewed = true;
  if (device.newest_is_wide && reports_wide_)
    RONDO_CHECK_OK(wide_of(device).record(site.stream, use));
  RONDO_CHECK_OK(order_of(device).record(site.stream, use));
  // Later work of the capture depends on this record. Otherwise records on several streams would
  // have no order, and the order's own stream would not be joined into the capture.
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
  // Another rank has captured into another graph since. This rank's own captured calls are on this
  // stream, because ranks of different graphs share no launch.
  if (in_capture && served->capture != capture.id) return ok_status();
  if (in_capture) return served->captured.hold(stream);
  // Ranks of that device may have launched graphs since, whose kernels wait for this device's.
  return hold(*served, served == own, stream);
}

bool StreamOrder::is_over() const { return are_over(devices_); }

bool StreamOrder::are_over(const std::vector<Device>& devices) {
  return std::all_of(devices.begin(), devices.end(), [](const Device& device) {
    return device.events[0].is_over() && device.events[1].is_over();
  });
}

}  // namespace rondo::gpu
