// SPDX-License-Identifier: Apache-2.0
// Properties of stream handles that a team needs.
#pragma once

#include "base/gpu.h"

namespace rondo::gpu {

// This handle names another stream in each thread.
inline const GpuStream kPerThreadStream = reinterpret_cast<GpuStream>(std::uintptr_t{2});

// True if the handle names another stream on each device.
inline bool is_default_stream(GpuStream stream) {
  return stream == kLegacyStream || reinterpret_cast<std::uintptr_t>(stream) == 1 ||
         stream == kPerThreadStream;
}

// True if work on both is ordered without events.
inline bool same_stream(GpuStream a, GpuStream b) { return a == b && a != kPerThreadStream; }

inline bool capturing(const GpuCaptureInfo& info) { return info.state != GpuCapture::kNone; }

inline bool same_capture(const GpuCaptureInfo& a, const GpuCaptureInfo& b) {
  return a.state == b.state && (a.state == GpuCapture::kNone || a.id == b.id);
}

}  // namespace rondo::gpu
