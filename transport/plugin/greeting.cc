#include "transport/plugin/greeting.h"

namespace rondo::plugin {
namespace {

constexpr std::uint32_t kGreetingMagic = 0x31474c50;  // "PLG1"

}  // namespace

Bytes serialize(const Greeting& greeting) {
  ByteWriter out;
  out.put(kGreetingMagic);
  out.put(greeting.token);
  out.put_raw(greeting.handle);
  return out.take();
}

Result<Greeting> parse_greeting(ByteSpan blob) {
  ByteReader in(blob);
  Greeting greeting;
  const auto magic = in.get<std::uint32_t>();
  greeting.token = in.get<std::uint64_t>();
  in.fill(greeting.handle);
  if (!in.finished() || magic != kGreetingMagic)
    return fail(StatusCode::kRemoteError, "its greeting does not belong to this network");
  return greeting;
}

}  // namespace rondo::plugin
