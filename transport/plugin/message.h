// What travels on a plugin's connection: for each message of a link a header, then its body, each
// a message of the plugin's own; a body without bytes, too. So both ends post them in one order.
#pragma once

#include <array>
#include <cstdint>

#include "base/types.h"
#include "transport/plugin/abi.h"

namespace rondo::plugin {

struct Header {
  std::uint64_t token;  // Greeting::token of whom it is for
  std::uint64_t number;
  std::uint64_t bytes;  // of the body
  std::uint32_t tag;
  std::uint32_t unused;
  CallRecord record;
};
static_assert(sizeof(Header) == 48);

// Messages that are with the plugin at once in one direction; each takes two requests, and one more
// flushes.
inline constexpr std::uint64_t kWindow = (abi::kMaxRequests - 1) / 2;
using Headers = std::array<Header, kWindow>;

// One of the plugin's requests.
struct Part {
  void* request = nullptr;
  bool is_done = false;
  int bytes = -1;  // once done, as the plugin says; -1: it does not

  bool is_posted() const { return is_done || request != nullptr; }
};

}  // namespace rondo::plugin
