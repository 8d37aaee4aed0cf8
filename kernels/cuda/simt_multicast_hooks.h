// SPDX-License-Identifier: Apache-2.0
// Accesses to multicast memory that an emulated GPU must provide (see simt_hooks.h): aligned, by
// one thread, relaxed at system scope; 16 bytes unless it says so.
#pragma once

#include <cstdint>

namespace rondo::simt {

enum class Summand : std::uint8_t { kFloat32, kFloat16, kBfloat16 };

// Stores to the memory that every device has bound there, in unspecified order.
void multicast_store(void* at, const void* from);
// The sum of all devices' values: accumulated in float32 in any order, rounded once.
void multicast_load_sum(void* to, const void* from, Summand type);

// Adds to a word of 4 bytes in every device's memory: an arrival, which others poll by ordinary
// loads. release: after all that this thread has stored.
void multicast_add(void* at, std::uint32_t value, bool release);

void fence_alias();  // between these and accesses of this thread at the devices' own addresses

}  // namespace rondo::simt
