// The messages on a plugin's connection. Each message of a link is a header, then its body, each
// sent as one message of the plugin, also for an empty body. So both ends post them in the same
// order.
#pragma once

#include <array>
#include <cstdint>

#include "base/types.h"
#include "transport/plugin/abi.h"

namespace rondo::plugin {

struct Header {
  std::uint64_t token;  // Greeting::token of the receiver
  std::uint64_t number;
  std::uint64_t bytes;  // size of the body
  std::uint32_t tag;
  std::uint32_t unused;
  CallRecord record;
};
static_assert(sizeof(Header) == 48);

// Max messages in flight per direction. Each takes two requests; one more is for the flush.
inline constexpr std::uint64_t kWindow = (abi::kMaxRequests - 1) / 2;
using Headers = std::array<Header, kWindow>;

// One request of the plugin.
struct Part {
  void* request = nullptr;
  bool is_done = false;
  int bytes = -1;  // once done: size reported by the plugin; -1: not reported

  bool is_posted() const { return is_done || request != nullptr; }
};

}  // namespace rondo::plugin
