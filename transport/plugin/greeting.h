// The blob that each end of a plugin's link sends on the side channel.
//
//   channels->connect(name, address, serialize({token, handle}));
//   RONDO_TRY(const Greeting theirs, parse_greeting(channel->blob()));
#pragma once

#include <array>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"
#include "transport/plugin/abi.h"

namespace rondo::plugin {

struct Greeting {
  std::uint64_t token = 0;  // carried by messages to this end; unknown to strangers
  // The address of this end's listener. The plugin's connect() may keep state in it.
  alignas(16) std::array<std::byte, abi::kHandleBytes> handle{};
  friend bool operator==(const Greeting&, const Greeting&) = default;
};

Bytes serialize(const Greeting& greeting);
// kRemoteError for bytes that serialize() would not write.
Result<Greeting> parse_greeting(ByteSpan blob);

}  // namespace rondo::plugin
