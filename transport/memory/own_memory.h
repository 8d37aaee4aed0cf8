// Memory that Rondo makes for itself: on a device, or pinned on the host. It goes back when nobody
// holds it any more and no communicator's work is unfinished (deferred_free.h), so that ending one
// communicator never waits for another one's kernels.
//
// What other processes are to map comes from MemoryRegistry::allocate_own(), memory files from
// map_pinned(); both end in the same way. Cost: the CUDA call.
#pragma once

#include <cstddef>
#include <memory>

#include "base/result.h"

namespace rondo::gpu {

using OwnMemory = std::shared_ptr<std::byte>;

// On the current device; of any content.
Result<OwnMemory> allocate_on_device(std::size_t bytes, const char* what);
// Kernels of all devices reach it; of any content.
Result<OwnMemory> allocate_pinned(std::size_t bytes, const char* what);

}  // namespace rondo::gpu
