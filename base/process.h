// This process: an identity that no other process has, and whether it is a forked child.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace rondo {

// 128 random bits, drawn at first use. A forked child draws new ones.
using ProcessId = std::array<std::uint64_t, 2>;
const ProcessId& this_process();

// Number of forks between the process that loaded the library and this one. An object stores the
// value at its creation. If it differs later, the object belongs to the parent. Cost: one load.
extern std::atomic<std::uint32_t> forks_so_far;
inline std::uint32_t fork_generation() { return forks_so_far.load(std::memory_order_relaxed); }

}  // namespace rondo
