// SPDX-License-Identifier: Apache-2.0
// Checks of plain arguments, with NCCL's error messages where NCCL has one. `function` is the name
// without its prefix. Guarantees: the checks dereference no pointer, allocate nothing on success
// and do not wait.
#pragma once

#include <cmath>
#include <cstddef>

#include "base/result.h"
#include "base/seconds.h"
#include "transport/bootstrap/messages.h"

namespace rondo::api {

// No process can have a larger buffer: x86-64 and arm64 have addresses of 47 and 48 bits. Below
// this limit, rounding a size or adding two sizes cannot overflow.
inline constexpr std::size_t kMaxBufferBytes = std::size_t{1} << 48;
// Each rank of a process needs a thread during its initialisation, and a thread needs two memory
// mappings. The kernel's usual limit is 65,530 mappings (vm.max_map_count).
inline constexpr int kMaxRanksOfProcess = 1 << 14;

inline Status not_null(const void* pointer, const char* function, const char* argument) {
  if (pointer != nullptr) return ok_status();
  return fail(StatusCode::kInvalidArgument, "{} : {} argument is NULL", function, argument);
}

inline Status root_in_range(int root, int ranks, const char* function) {
  if (root >= 0 && root < ranks) return ok_status();
  return fail(StatusCode::kInvalidArgument,
              "{} : invalid root {} (root should be in the 0..{} range)", function, root,
              ranks - 1);
}

inline Status peer_in_range(int peer, int ranks, const char* function) {
  if (peer >= 0 && peer < ranks) return ok_status();
  return fail(StatusCode::kInvalidArgument, "{} : invalid peer {} (ranks are 0..{})", function,
              peer, ranks - 1);
}

inline Status ranks_in_range(int ranks) {
  if (ranks <= bootstrap::kMaxRanks) return ok_status();
  return fail(StatusCode::kInvalidArgument,
              "Invalid number of ranks requested : {} : a communicator has at most {}", ranks,
              bootstrap::kMaxRanks);
}

inline Status rank_in_range(int rank, int ranks) {
  RONDO_CHECK_OK(ranks_in_range(ranks));
  if (ranks >= 1 && rank >= 0 && rank < ranks) return ok_status();
  return fail(StatusCode::kInvalidArgument, "Invalid rank requested : {}/{}", rank, ranks);
}

// Size of a memory range that the caller gives: 1 to kMaxBufferBytes.
inline Status bytes_in_range(std::size_t bytes, const char* function, const char* argument) {
  if (bytes == 0) return fail(StatusCode::kInvalidArgument, "{} : {} is 0", function, argument);
  if (bytes <= kMaxBufferBytes) return ok_status();
  return fail(StatusCode::kInvalidArgument,
              "{} : {} {} is larger than any buffer: give bytes, {} at most", function, argument,
              bytes, kMaxBufferBytes);
}

// Time to wait: 0 and less mean not to wait; values beyond a clock's range are clamped to it.
inline Status seconds_to_wait(double seconds, const char* function, const char* argument) {
  if (!std::isnan(seconds)) return ok_status();
  return fail(StatusCode::kInvalidArgument,
              "{} : {} is {}: give a number of seconds, 0 to return at once", function, argument,
              seconds);
}

// A deadline must be in the future.
inline Status seconds_above_zero(double seconds, const char* function, const char* argument) {
  if (seconds > 0) return ok_status();
  return fail(StatusCode::kInvalidArgument, "{} : {} is {}: give a number of seconds above 0",
              function, argument, seconds);
}

// Whether NCCL_CHECK_MODE, or its older name NCCL_CHECK_POINTERS, asks to check before a call runs
// that its buffers are memory of this process. A wrong pointer or count is then an error, not a
// crash in the middle of a collective. An unknown value is logged once and means DEFAULT.
//
// Cost: off (the default), one flag; on, seven system calls per buffer.
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
