// Limits of launches over connections on one device (rings and trees: a station for each of its
// ranks).
#pragma once

#include <cstddef>

#include "base/gpu.h"
#include "base/result.h"

namespace rondo::gpu {

// CTAs of any connected kernel that the current device holds at once.
Result<int> resident_connected_ctas(const GpuApi& api, int device);

// Whether one launch can hold `calls` calls of `stations` ranks of its device.
bool has_room_connected(std::size_t stations, std::size_t calls);

}  // namespace rondo::gpu
