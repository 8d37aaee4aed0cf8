// Bulk copies and the barriers that they arrive at, as an emulated GPU must provide them
// (simt_hooks.h says the rest). Nothing happens in order but what is waited for.
#pragma once

#include <cstdint>

namespace rondo::simt {

void mbarrier_init(std::uint32_t at, unsigned arrivals);
void mbarrier_end(std::uint32_t at);
// One arrival, and `bytes` more are awaited in this phase.
void mbarrier_expect(std::uint32_t at, unsigned bytes);
bool mbarrier_test(std::uint32_t at, unsigned parity);  // whether the phase of that parity is over

// Multiples of 16 bytes, aligned to 16. The load arrives at a barrier, stores belong to groups.
void bulk_load(std::uint32_t to, const void* from, unsigned bytes, std::uint32_t mbarrier);
void bulk_store(void* to, std::uint32_t from, unsigned bytes);
void bulk_commit();
void bulk_wait(unsigned groups_left, bool only_reads);

void fence_async();  // between ordinary accesses of this thread and bulk copies

}  // namespace rondo::simt
