// Greeting: what the two ends of a link over UCX say of themselves on the side channel; or, of an
// end that UCX gives no way to the other, why not.
//
//   channels->connect(name, address, serialize({worker.number(), token, worker.address()}));
//   RONDO_TRY(const Greeting theirs, parse_greeting(channel->blob()));
//   if (!endpoint.ok()) channel->answer(serialize_refusal(endpoint.error().text));
#pragma once

#include <cstdint>
#include <string_view>

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
Bytes serialize_refusal(std::string_view why);  // its first kMaxReason bytes
inline constexpr std::size_t kMaxReason = 1024;
// Nothing else than these two write is read: kRemoteError. kSystemError: a refusal, with its text.
Result<Greeting> parse_greeting(ByteSpan blob);

}  // namespace rondo::ucx
