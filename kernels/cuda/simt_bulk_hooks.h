// Bulk copies that an emulated GPU must provide (see simt_hooks.h). Only waits order them.
#pragma once

#include <cstdint>

namespace rondo::simt {

// Sizes are multiples of 16 bytes, addresses aligned to 16. A load arrives at an mbarrier that
// expects it; stores belong to groups.
void bulk_load(std::uint32_t to, const void* from, unsigned bytes, std::uint32_t mbarrier);
void bulk_store(void* to, std::uint32_t from, unsigned bytes);
void bulk_commit();
void bulk_wait(unsigned groups_left, bool only_reads);

void fence_async();  // between ordinary accesses of this thread and bulk copies

}  // namespace rondo::simt
