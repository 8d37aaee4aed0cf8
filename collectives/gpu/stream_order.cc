#include "collectives/gpu/stream_order.h"

#include <algorithm>
#include <memory>

#include "transport/cuda/streams.h"

namespace rondo::gpu {
Done StreamOrder::open(std::span<const int> devices) {
  for (const int number : devices) {
    const DeviceScope scope(number);
    RONDO_CHECK_OK(scope.entered());
    Device& device = devices_.emplace_back();
    RONDO_CHECK_OK(device.order.open());
    RONDO_CHECK_OK(device.captured.open());
    RONDO_CHECK_OK(check(gpu_api()->create_stream(&device.own, 0), "cudaStreamCreate"));
    RONDO_CHECK_OK(device.order.record(device.own));
  }
  work_.watch([this] { return is_over(); });
  return done();
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

Done StreamOrder::begin(const LaunchSite& site) const {
  if (capturing(site.capture)) {
    // A graph waits whatever came before its capture: it may be replayed after anything.
    const bool goes_on = last_capture_ == site.capture.id;
    for (const Device& device : devices_) {
      if (goes_on && !device.newest) continue;
      RONDO_CHECK_OK(goes_on ? device.captured.hold(site.stream)
                             : device.order.hold(site.stream, GpuEventUse::kExternal));
    }
    return done();
  }
  if (!any_plain_ && !any_capture_) return done();
  // What runs on this very stream is in order already, unless a graph may have been launched on
  // another one since. A launch on every device touches nothing but its own device's ranks; another
  // one touches everybody's.
  const Device& here = devices_[static_cast<std::size_t>(site.place)];
  const auto newest = std::count_if(devices_.begin(), devices_.end(),
                                    [](const Device& device) { return device.newest; });
  if (!any_capture_ && here.newest && (site.on_every_device || newest == 1) &&
      same_stream(here.stream, site.stream))
    return done();
  for (const Device& device : devices_) RONDO_CHECK_OK(device.order.hold(site.stream));
  return done();
}

Done StreamOrder::end(const LaunchSite& site) {
  Device& device = devices_[static_cast<std::size_t>(site.place)];
  const bool in_capture = capturing(site.capture);
  if (!in_capture) device.stream = site.stream;
  if (!site.on_every_device) set_newest(site);
  RONDO_CHECK_OK(
      device.order.record(site.stream, in_capture ? GpuEventUse::kExternal : GpuEventUse::kPlain));
  // What follows in the capture follows this record, too: else the records of several streams would
  // have no order, and a stream of our own would not be joined again.
  return in_capture ? device.captured.record(site.stream) : done();
}

void StreamOrder::end_of_all(const LaunchSite& any) {
  set_newest(any);
  for (Device& device : devices_) device.newest = true;
}

void StreamOrder::set_newest(const LaunchSite& site) {
  for (Device& device : devices_) device.newest = false;
  devices_[static_cast<std::size_t>(site.place)].newest = true;
  const bool in_capture = capturing(site.capture);
  any_plain_ |= !in_capture;
  any_capture_ |= in_capture;
  last_capture_ = in_capture ? site.capture.id : 0;
}

Done StreamOrder::follow(int place, GpuStream stream, const GpuCaptureInfo& capture) const {
  const Device* served = &devices_[static_cast<std::size_t>(place)];
  if (!served->newest)
    for (const Device& device : devices_)
      if (device.newest) served = &device;
  const bool in_capture = capturing(capture);
  if (!in_capture && same_stream(stream, served->stream)) return done();
  return (in_capture ? served->captured : served->order).hold(stream);
}

bool StreamOrder::is_over() const { return are_over(devices_); }

bool StreamOrder::are_over(const std::vector<Device>& devices) {
  return std::all_of(devices.begin(), devices.end(),
                     [](const Device& device) { return device.order.is_over(); });
}

}  // namespace rondo::gpu
