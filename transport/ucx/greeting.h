// SPDX-License-Identifier: Apache-2.0
// Greeting: the blob by which each end of a UCX link identifies itself on the side channel. An end
// that UCX cannot connect to the other one sends a refusal with the reason instead.
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
  std::uint64_t worker = 0;  // number of the rank's Worker; its links share an endpoint
  std::uint64_t token = 0;   // messages to this end carry it; secret to other processes
  Bytes address;             // the worker's, in UCX's format
  friend bool operator==(const Greeting&, const Greeting&) = default;
};

Bytes serialize(const Greeting& greeting);
Bytes serialize_refusal(std::string_view why);  // its first kMaxReason bytes
inline constexpr std::size_t kMaxReason = 1024;
// kSystemError: a refusal, with its text. kRemoteError: anything that serialize() and
// serialize_refusal() do not write.
Result<Greeting> parse_greeting(ByteSpan blob);

}  // namespace rondo::ucx
