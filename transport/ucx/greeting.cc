// SPDX-License-Identifier: Apache-2.0
#include "transport/ucx/greeting.h"

#include "base/printable.h"

namespace rondo::ucx {
namespace {

constexpr std::uint32_t kUcxMagic = 0x31584355;      // "UCX1"
constexpr std::uint32_t kRefusalMagic = 0x52584355;  // "UCXR"

}  // namespace

Bytes serialize(const Greeting& greeting) {
  ByteWriter out;
  out.put(kUcxMagic);
  out.put(greeting.worker);
  out.put(greeting.token);
  out.put_bytes(greeting.address);
  return out.take();
}

Bytes serialize_refusal(std::string_view why) {
  ByteWriter out;
  out.put(kRefusalMagic);
  out.put_string(why.substr(0, kMaxReason));
  return out.take();
}

Result<Greeting> parse_greeting(ByteSpan blob) {
  ByteReader in(blob);
  Greeting greeting;
  const auto magic = in.get<std::uint32_t>();
  if (magic == kRefusalMagic) {
    const std::string why = in.get_string();
    if (in.finished() && why.size() <= kMaxReason)
      return fail(StatusCode::kSystemError, "it cannot reach this rank by UCX: {}", printable(why));
  }
  greeting.worker = in.get<std::uint64_t>();
  greeting.token = in.get<std::uint64_t>();
  greeting.address = in.get_bytes();
  if (!in.finished() || magic != kUcxMagic || greeting.address.empty())
    return fail(StatusCode::kRemoteError, "its greeting does not belong to this network");
  return greeting;
}

}  // namespace rondo::ucx
