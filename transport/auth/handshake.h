// Handshake: two ends of a connection prove to each other that they hold a secret, without showing
// it, and get a key that belongs to this connection alone.
//
//   connector -> acceptor: Hello      build, tag of the secret, nonce
//   acceptor -> connector: Challenge  build, nonce, proof
//   connector -> acceptor: Answer     the protocol's own bytes, proof
//   acceptor -> connector: Welcome    proof that the answer came in time: the visitor was not
//   dropped
// A proof is an HMAC over every byte that either side said so far, over the role of who proves, and
// over the endpoint: the name of whom the connector wants to reach ("bootstrap rank 3"), which
// never travels. So nothing can be left out, changed, replayed, reflected or passed on to somebody
// else. It moves no bytes itself: its owner reads exactly what room() asks for and sends unsent(),
// so the connection's next bytes stay where they are. Decoding refuses all that encoding would not
// have written. Cost: eight hashes of about 200 bytes a side.
//
//   Handshake shake = Handshake::connector(secret, "bootstrap rank 3");
//   while (shake.talking()) move(shake, fd);                     // handshake_io.h
//   if (shake.state() == Handshake::State::kTurn) shake.answer(payload);
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "transport/auth/hmac.h"

namespace rondo::auth {

// What must be the same at all ranks. It stands at one place in all versions of the protocol, so
// that those which differ can say so.
struct Build {
  // Raised with every change of a message or of what ranks share in memory.
  static constexpr std::uint16_t kProtocol = 4;

  std::uint16_t protocol = kProtocol;
  std::uint8_t endianness = std::endian::native == std::endian::little ? 1 : 2;
  std::uint8_t pointer_bytes = sizeof(void*);
  std::string text() const;  // "protocol 2, little-endian, 64 bits"
  friend bool operator==(const Build&, const Build&) = default;
};

// Names a secret without giving it away.
using Tag = std::array<std::byte, 16>;
Tag tag_of(const Digest& secret);

// What both sides hold. The tag may be of another secret than the one that is proven: then holders
// of different secrets find each other, and learn that they differ.
struct Key {
  Key(const Digest& secret) : Key(secret, secret) {}  // NOLINT: a secret alone is its own name
  Key(const Digest& named, const Digest& secret) : tag(tag_of(named)), secret(secret) {}
  Tag tag;
  Digest secret;
};

class Handshake {
 public:
  enum class State {
    kTalking,  // bytes are awaited or unsent
    kTurn,     // acceptor: a tag came, challenge(). Connector: the other side is proven, answer()
    kProven,   // the key is there, and the other side knows it too
    kRefused,  // why() says what was wrong
  };
  static constexpr std::size_t kMaxPayload = 512;
  static constexpr std::size_t kMaxBytes = 1024;  // no message is longer

  static Handshake connector(const Key& key, std::string_view endpoint, const Build& build = {});
  static Handshake acceptor(std::string_view endpoint, const Build& build = {});

  State state() const { return state_; }
  bool talking() const { return state_ == State::kTalking; }
  const std::string& why() const { return why_; }
  // Refused because the other side did not prove what it had to, though it speaks the handshake.
  bool proof_failed() const { return proof_failed_; }

  // Bytes in: where the next ones go, never more than belong to this handshake; then how many came.
  std::span<std::byte> room();
  void received(std::size_t count);
  // Bytes out.
  ByteSpan unsent() const;
  void sent(std::size_t count);

  // An acceptor's turn: the secret that tag() names.
  void challenge(const Digest& secret);
  // A connector's turn: at most kMaxPayload bytes, for the one who has proved itself.
  void answer(ByteSpan payload);

  bool said_hello() const { return said_hello_; }  // acceptor: tag() and peer_build() are known
  const Tag& tag() const { return tag_; }
  const Build& peer_build() const { return peer_build_; }
  ByteSpan payload() const { return payload_; }  // acceptor: what came with the proof
  const Digest& session_key() const { return session_key_; }

 private:
  enum Message : std::uint8_t { kHello = 1, kChallenge = 2, kAnswer = 3, kWelcome = 4 };

  Handshake(std::string_view endpoint, const Build& build, bool connector);
  void begin(Message type, ByteSpan body, std::size_t proof_bytes);
  void prove(std::string_view role);
  void expect(Message type);
  std::size_t least_after_header() const;
  void take_header();
  void take_message();
  bool proven_by(std::string_view role, ByteSpan proof) const;
  Digest said() const { return sha256({said_}); }
  void refuse(std::string why, bool proof = false);

  Build build_;
  Build peer_build_;
  std::string endpoint_;
  bool connector_;
  State state_ = State::kTalking;
  bool sending_ = false;
  bool said_hello_ = false;
  bool heard_header_ = false;  // of the message that comes now
  Message message_ = kHello;   // that comes or goes now
  Digest secret_{};
  Tag tag_{};
  Bytes said_;             // the endpoint's name, then every message
  std::size_t begin_ = 0;  // of that message, which ends with said_
  std::size_t moved_ = 0;  // up to here it has
  Bytes payload_;
  Digest session_key_{};
  std::string why_;
  bool proof_failed_ = false;
};

}  // namespace rondo::auth
