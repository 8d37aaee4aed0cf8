// Greeting: what the two ends of a link over UCX say of themselves on the side channel.
//
//   channels->connect(name, address, serialize({worker.number(), token, worker.address()}));
//   RONDO_TRY(const Greeting theirs, parse_greeting(channel->blob()));
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "base/result.h"

namespace rondo::ucx {

struct Greeting {
  std::uint64_t worker = 0;  // of all links of one rank's network: they share an endpoint
  std::uint64_t token = 0;   // that messages to this end carry: strangers do not know it
  Bytes address;             // of the worker, as UCX has it
  friend bool operator==(const Greeting&, const Greeting&) = default;
};

Bytes serialize(const Greeting& greeting);
// Nothing else than serialize() writes is read. kRemoteError.
Result<Greeting> parse_greeting(ByteSpan blob);

}  // namespace rondo::ucx
