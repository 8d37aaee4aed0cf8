// What travels between workers as headers of UCX's active messages.
//
// A Header goes before a message's body, which is the active message's data. A Grant has no data:
// how many messages there is room for. UCX itself buffers whatever comes, so a sender sends what is
// granted, and nothing else.
#pragma once

#include <cstdint>

#include "base/types.h"

namespace rondo::ucx {

inline constexpr unsigned kMessageId = 0, kGrantId = 1, kPingId = 2;

struct Header {
  std::uint64_t token;   // Greeting::token of the end that it is for
  std::uint64_t number;  // of the message
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
