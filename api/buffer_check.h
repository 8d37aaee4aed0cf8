// NCCL_CHECK_MODE: whether the buffers of a call are memory of this process, asked before it runs,
// so that a wrong pointer or count is an error text and not a crash in the middle of a collective.
//
// Cost: off (the default), one flag; on, two to four system calls a buffer.
#pragma once

#include <cstddef>

#include "base/result.h"

namespace rondo::api {

// By NCCL_CHECK_MODE and its older name; a value that is none of NCCL's is logged and means off.
bool buffer_checks_wanted();

struct BufferUse {
  const void* at;
  std::size_t bytes;
  bool written;
  const char* argument;  // "sendbuff"
};

// The first and the last byte. A written one is written, with what it holds.
Status check_buffer(const BufferUse& use, const char* function);

}  // namespace rondo::api
