// SPDX-License-Identifier: Apache-2.0
// The encoding of DeviceEnd::lane: the connection's lane, and the peer's position in the channel's
// order. Trees find the end by position; rings find it by the peer's number.
#pragma once

#include <cstdint>

namespace rondo::cuda {

inline constexpr int kTreeLanes = 2;
constexpr std::int32_t end_lane(int lane, int position) { return lane + kTreeLanes * position; }
constexpr int lane_of_end(std::int32_t end_lane) { return end_lane % kTreeLanes; }

}  // namespace rondo::cuda
