// A memory file that processes share, mapped here, present, and registered with CUDA, so that
// streams and kernels of this process reach it, too. Undone when nobody holds it any more
// and no communicator's work is unfinished (deferred_free.h).
#pragma once

#include <memory>

#include "base/result.h"

namespace rondo::gpu {

// Maps and pins a whole file of `bytes` bytes, which stays the caller's. `what` names the use.
Result<std::shared_ptr<std::byte>> map_pinned(int file, std::size_t bytes, const char* what);
// Its address for streams and kernels of the current device.
Result<std::byte*> address_on_device(const std::shared_ptr<std::byte>& pinned);

}  // namespace rondo::gpu
