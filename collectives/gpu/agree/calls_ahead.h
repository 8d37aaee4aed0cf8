// Number of calls that a rank may be ahead of its own stream, for calls that other ranks take part
// in.
//
// A driver's queue holds about 1,000 commands (measured on one H200, driver 13.0). If it is full,
// the next launch blocks inside the driver, where no deadline of Rondo applies. A small call takes
// up to 8 commands, so this limit leaves half of the queue to the program.
#pragma once

#include <cstdint>

namespace rondo::gpu {

inline constexpr std::uint32_t kCallsAhead = 64;

}  // namespace rondo::gpu
