// This process: an identity that no other process has, and whether it is a forked child.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace rondo {

// 128 random bits, drawn at first use; a forked child draws its own.
using ProcessId = std::array<std::uint64_t, 2>;
const ProcessId& this_process();

// Counts the forks between the process that loaded the library and the present one. Objects keep
// the value of their making; where it differs now, they belong to the parent. Costs one load.
extern std::atomic<std::uint32_t> forks_so_far;
inline std::uint32_t fork_generation() { return forks_so_far.load(std::memory_order_relaxed); }

}  // namespace rondo
