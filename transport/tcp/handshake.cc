#include "transport/tcp/handshake.h"

#include <string_view>

#include "transport/socket/wire.h"

namespace rondo::tcp {
namespace {

using net::WireReader;
using net::WireWriter;

constexpr std::uint64_t kHelloMagic = 0x31306c6c65486f52;      // changes with the protocol
constexpr std::uint64_t kChallengeMagic = 0x31306c6168436f52;  // likewise
constexpr std::uint64_t kAnswerMagic = 0x313077736e416f52;     // likewise

ByteSpan label(std::string_view text) { return std::as_bytes(std::span(text)); }

bool begins_with(WireReader& in, std::uint64_t magic) {
  return in.number<std::uint64_t>() == magic;
}

}  // namespace

Bytes encode(const Hello& hello) {
  WireWriter out;
  out.number<std::uint64_t>(kHelloMagic);
  out.bytes(hello.tag);
  out.number<std::uint32_t>(static_cast<std::uint32_t>(hello.name.from));
  out.number<std::uint32_t>(static_cast<std::uint32_t>(hello.name.to));
  out.number<std::uint32_t>(static_cast<std::uint32_t>(hello.name.lane));
  out.number<std::uint16_t>(hello.index);
  out.number<std::uint16_t>(hello.count);
  out.number<std::uint64_t>(hello.link_id);
  out.bytes(hello.nonce);
  return out.take();
}

std::optional<Hello> decode_hello(ByteSpan bytes) {
  WireReader in(bytes);
  if (!begins_with(in, kHelloMagic)) return std::nullopt;
  Hello hello;
  in.fill(hello.tag);
  hello.name.from = static_cast<std::int32_t>(in.number<std::uint32_t>());
  hello.name.to = static_cast<std::int32_t>(in.number<std::uint32_t>());
  hello.name.lane = static_cast<std::int32_t>(in.number<std::uint32_t>());
  hello.index = in.number<std::uint16_t>();
  hello.count = in.number<std::uint16_t>();
  hello.link_id = in.number<std::uint64_t>();
  in.fill(hello.nonce);
  const bool sound = in.finished() && hello.name.from >= 0 && hello.name.to >= 0 &&
                     hello.name.lane >= 0 && hello.name.lane < net::kMostLanes &&
                     hello.count >= 1 && hello.count <= kMostSockets && hello.index < hello.count;
  return sound ? std::optional(hello) : std::nullopt;
}

Bytes encode(const Challenge& challenge) {
  WireWriter out;
  out.number<std::uint64_t>(kChallengeMagic);
  out.bytes(challenge.nonce);
  out.bytes(challenge.proof);
  return out.take();
}

std::optional<Challenge> decode_challenge(ByteSpan bytes) {
  WireReader in(bytes);
  if (!begins_with(in, kChallengeMagic)) return std::nullopt;
  Challenge challenge;
  in.fill(challenge.nonce);
  in.fill(challenge.proof);
  return in.finished() ? std::optional(challenge) : std::nullopt;
}

Bytes encode(const Answer& answer) {
  WireWriter out;
  out.number<std::uint64_t>(kAnswerMagic);
  out.bytes(answer.proof);
  return out.take();
}

std::optional<Answer> decode_answer(ByteSpan bytes) {
  WireReader in(bytes);
  if (!begins_with(in, kAnswerMagic)) return std::nullopt;
  Answer answer;
  in.fill(answer.proof);
  return in.finished() ? std::optional(answer) : std::nullopt;
}

Digest tag_of(const Digest& secret) { return auth::hmac_sha256(secret, {label("rondo tcp tag")}); }

Digest acceptor_proof(const Digest& secret, ByteSpan hello, const Digest& nonce) {
  return auth::hmac_sha256(secret, {label("rondo tcp acceptor"), hello, nonce});
}

Digest connector_proof(const Digest& secret, ByteSpan hello, ByteSpan challenge) {
  return auth::hmac_sha256(secret, {label("rondo tcp connector"), hello, challenge});
}

}  // namespace rondo::tcp
