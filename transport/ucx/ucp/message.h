// SPDX-License-Identifier: Apache-2.0
// Headers of the UCX active messages between workers.
//
// A Header precedes a message's body, which is the active message's data. A Grant has no data; it
// carries the number of messages that the receiver has room for. UCX buffers all that arrives, so a
// sender must send only granted messages.
#pragma once

#include <cstdint>

#include "base/types.h"

namespace rondo::ucx {

inline constexpr unsigned kMessageId = 0, kGrantId = 1, kPingId = 2;

struct Header {
  std::uint64_t token;   // Greeting::token of the destination
  std::uint64_t number;  // message number
  std::uint32_t tag;
  std::uint32_t unused;
  CallRecord record;
};
static_assert(sizeof(Header) == 40);

struct Grant {
  std::uint64_t token;
  std::uint64_t offered;   // total number of receives
  std::uint64_t received;  // total number of messages received
};
static_assert(sizeof(Grant) == 24);

}  // namespace rondo::ucx
