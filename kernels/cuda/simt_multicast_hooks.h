// Accesses to multicast memory, as an emulated GPU must provide them (simt_hooks.h says the rest):
// 16 bytes, aligned, by one thread, relaxed at system scope.
#pragma once

#include <cstdint>

namespace rondo::simt {

enum class Summand : std::uint8_t { kFloat32, kFloat16, kBfloat16 };

// To the memory that every device has bound there; nothing says to whose first.
void multicast_store(void* at, const void* from);
// The sum of what all of them hold: accumulated in float32 in any order, rounded once.
void multicast_load_sum(void* to, const void* from, Summand type);

void fence_alias();  // between these and accesses of this thread at the devices' own addresses

}  // namespace rondo::simt
