// SPDX-License-Identifier: Apache-2.0
// A memory file that processes share, mapped here, present, and registered with CUDA, so streams
// and kernels of this process can access it too. It is released once it has no holder and no
// communicator has unfinished work (deferred_free.h).
#pragma once

#include <memory>

#include "base/result.h"

namespace rondo::gpu {

// Maps and pins a whole file of `bytes` bytes. The caller keeps `file`. `what` names the use.
Result<std::shared_ptr<std::byte>> map_pinned(int file, std::size_t bytes, const char* what);
// Its address for streams and kernels of the current device.
Result<std::byte*> address_on_device(const std::shared_ptr<std::byte>& pinned);

}  // namespace rondo::gpu
