// How far a rank may be ahead of a stream of its own whose calls others take part in.
//
// A driver's queue holds about 1,000 commands (measured on one H200, driver 13.0). Where it is full
// the next launch waits inside the driver, where no deadline of ours reaches it. A small call takes
// up to 8 commands, so that this many calls leave half of the queue to the program.
#pragma once

#include <cstdint>

namespace rondo::gpu {

inline constexpr std::uint32_t kCallsAhead = 64;

}  // namespace rondo::gpu
