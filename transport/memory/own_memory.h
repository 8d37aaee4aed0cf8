// SPDX-License-Identifier: Apache-2.0
// Memory for Rondo itself: on a device, or pinned on the host. It is freed once it has no holder
// and no communicator has unfinished work (deferred_free.h), so destroying one communicator never
// waits for another one's kernels.
//
// Memory for other processes to map is from MemoryRegistry::allocate_own(), memory files are from
// map_pinned(); both are freed in the same way. Cost: the CUDA call.
#pragma once

#include <cstddef>
#include <memory>

#include "base/result.h"

namespace rondo::gpu {

using OwnMemory = std::shared_ptr<std::byte>;

// On the current device; uninitialized.
Result<OwnMemory> allocate_on_device(std::size_t bytes, const char* what);
// Accessible to kernels of all devices; uninitialized.
Result<OwnMemory> allocate_pinned(std::size_t bytes, const char* what);

}  // namespace rondo::gpu
