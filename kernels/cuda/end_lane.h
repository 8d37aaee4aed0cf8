// What DeviceEnd::lane holds: the connection's lane, and the position of the peer in the order of
// the channel, by which trees know it; rings know it by its number.
#pragma once

#include <cstdint>

namespace rondo::cuda {

inline constexpr int kTreeLanes = 2;
constexpr std::int32_t end_lane(int lane, int position) { return lane + kTreeLanes * position; }
constexpr int lane_of_end(std::int32_t end_lane) { return end_lane % kTreeLanes; }

}  // namespace rondo::cuda
