// NCCL_CHECK_MODE: checks before a call runs that its buffers are memory of this process. A wrong
// pointer or count is then an error, not a crash in the middle of a collective.
//
// Cost: off (the default), one flag; on, seven system calls per buffer.
#pragma once

#include <cstddef>

#include "base/result.h"

namespace rondo::api {

// Reads NCCL_CHECK_MODE and its older name NCCL_CHECK_POINTERS. An unknown value is logged once and
// means DEFAULT.
bool buffer_checks_wanted();

struct BufferUse {
  const void* at;
  std::size_t bytes;
  bool written;
  const char* argument;  // "sendbuff"
};

// Checks access to the first and the last byte. If `written`, it also writes them, with their own
// values.
Status check_buffer(const BufferUse& use, const char* function);

}  // namespace rondo::api
