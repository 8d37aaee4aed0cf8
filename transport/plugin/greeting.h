// What the two ends of a plugin's link say of themselves on the side channel.
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
  std::uint64_t token = 0;  // that messages to this end carry: strangers do not know it
  // Where this end listens; what the plugin's connect() may keep its own state in.
  alignas(16) std::array<std::byte, abi::kHandleBytes> handle{};
  friend bool operator==(const Greeting&, const Greeting&) = default;
};

Bytes serialize(const Greeting& greeting);
// Nothing else than serialize() writes is read. kRemoteError.
Result<Greeting> parse_greeting(ByteSpan blob);

}  // namespace rondo::plugin
