// The handshake of every TCP socket between two ranks: both prove that they hold the communicator's
// secret, without showing it.
//
//   connector -> acceptor: Hello      which communicator (a tag), link and socket; a nonce
//   acceptor -> connector: Challenge  a nonce, and an HMAC over Hello and it
//   connector -> acceptor: Answer     an HMAC over Hello and Challenge
// Proofs cover who proves, all that was said and both nonces: they can be neither replayed nor
// reflected. Sizes are fixed and nothing is read beyond them, so the link's data may follow at
// once. Decoders refuse whatever encoders would not have written.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "transport/auth/hmac.h"
#include "transport/net/net.h"

namespace rondo::tcp {

using Bytes = std::vector<std::byte>;
using ByteSpan = std::span<const std::byte>;
using auth::Digest;

inline constexpr int kMostSockets = 16;

struct Hello {
  Digest tag{};  // of the communicator; derived from its secret one way
  net::LinkName name;
  std::uint16_t index = 0;  // of this socket in its link
  std::uint16_t count = 1;
  std::uint64_t link_id = 0;  // the same for all sockets of one attempt to make a link
  Digest nonce{};
};
inline constexpr std::size_t kHelloBytes = 8 + 32 + 12 + 4 + 8 + 32;
Bytes encode(const Hello& hello);
std::optional<Hello> decode_hello(ByteSpan bytes);

struct Challenge {
  Digest nonce{};
  Digest proof{};
};
inline constexpr std::size_t kChallengeBytes = 8 + 32 + 32;
Bytes encode(const Challenge& challenge);
std::optional<Challenge> decode_challenge(ByteSpan bytes);

struct Answer {
  Digest proof{};
};
inline constexpr std::size_t kAnswerBytes = 8 + 32;
Bytes encode(const Answer& answer);
std::optional<Answer> decode_answer(ByteSpan bytes);

Digest tag_of(const Digest& secret);
Digest acceptor_proof(const Digest& secret, ByteSpan hello, const Digest& nonce);
Digest connector_proof(const Digest& secret, ByteSpan hello, ByteSpan challenge);

}  // namespace rondo::tcp
