// Device memory for ncclMemAlloc: shareable (a file descriptor can be made of it) where the driver
// can, plain cudaMalloc otherwise.
#pragma once

#include <cstddef>

#include "base/result.h"

namespace rondo::gpu {

Result<void*> allocate_shareable(std::size_t bytes, int device);
// Whether the pointer came from allocate_shareable(); then it is freed and `freed` says how.
bool free_shareable(void* pointer, Done* freed);

}  // namespace rondo::gpu
