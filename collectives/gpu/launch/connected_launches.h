// What launches over connections need of a device (rings and trees: a station for every rank of
// it).
#pragma once

#include <cstddef>

#include "base/gpu.h"
#include "base/result.h"

namespace rondo::gpu {

// CTAs of any connected kernel that the current device holds at once.
Result<int> resident_connected_ctas(const GpuApi& api, int device);

// Whether one launch takes `calls` calls of `stations` ranks of its device.
bool has_room_connected(std::size_t stations, std::size_t calls);

}  // namespace rondo::gpu
