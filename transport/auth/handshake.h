// SPDX-License-Identifier: Apache-2.0
// Handshake: both ends of a connection prove to each other that they hold the same secret, without
// revealing it, and derive a key for this connection only.
//
//   connector -> acceptor: Hello      build, tag of the secret, nonce
//   acceptor -> connector: Challenge  build, nonce, proof
//   connector -> acceptor: Answer     the protocol's own bytes, proof
//   acceptor -> connector: Welcome    proof that the answer arrived in time: the visitor was not
//   dropped
// A proof is an HMAC over all bytes that both sides have sent so far, over the role of the prover,
// and over the endpoint: the name of the process that the connector wants to reach ("bootstrap rank
// 3"), which never travels. So no byte can be left out, changed, replayed, reflected or forwarded
// to another endpoint. The Handshake moves no bytes itself: its owner reads exactly what room()
// asks for and sends unsent(), so later bytes of the connection stay unread. Decoding refuses all
// bytes that the encoder would not write. Cost: eight hashes of about 200 bytes per side.
//
//   Handshake shake = Handshake::connector(secret, "bootstrap rank 3");
//   while (shake.talking()) move(shake, fd);
//   if (shake.state() == Handshake::State::kTurn) shake.answer(payload);
#pragma once

#include <bit>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "transport/auth/hmac.h"
#include "transport/socket/socket.h"

namespace rondo::auth {

// Properties that must be the same on all ranks. Their position is the same in all versions of the
// protocol, so that different versions can report the difference.
struct Build {
  // Incremented with every change of a message or of the shared memory layout.
  static constexpr std::uint16_t kProtocol = 5;

  std::uint16_t protocol = kProtocol;
  std::uint8_t endianness = std::endian::native == std::endian::little ? 1 : 2;
  std::uint8_t pointer_bytes = sizeof(void*);
  std::string text() const;  // "protocol 2, little-endian, 64 bits"
  friend bool operator==(const Build&, const Build&) = default;
};

// Identifies a secret without revealing it.
using Tag = std::array<std::byte, 16>;
Tag tag_of(const Digest& secret);

// The secret to prove, and the tag that names it. The tag may come from another secret: then
// holders of different secrets meet, and detect the difference.
struct Key {
  Key(const Digest& secret) : Key(secret, secret) {}  // NOLINT: the tag of the secret itself
  Key(const Digest& named, const Digest& secret) : tag(tag_of(named)), secret(secret) {}
  Tag tag;
  Digest secret;
};

class Handshake {
 public:
  enum class State {
    kTalking,  // waits for bytes, or has unsent bytes
    kTurn,     // acceptor: a tag arrived, challenge(). Connector: the peer is proven, answer()
    kProven,   // both sides have the session key
    kRefused,  // see why()
  };
  static constexpr std::size_t kMaxPayload = 512;
  static constexpr std::size_t kMaxBytes = 1024;  // no message is longer

  static Handshake connector(const Key& key, std::string_view endpoint, const Build& build = {});
  static Handshake acceptor(std::string_view endpoint, const Build& build = {});

  State state() const { return state_; }
  bool talking() const { return state_ == State::kTalking; }
  const std::string& why() const { return why_; }
  // Refused because the other side's proof is wrong, although it speaks the handshake.
  bool proof_failed() const { return proof_failed_; }

  // Input: the buffer for the next bytes, never beyond this handshake; then the number received.
  std::span<std::byte> room();
  void received(std::size_t count);
  // Output.
  ByteSpan unsent() const;
  void sent(std::size_t count);

  // Acceptor, at kTurn: the secret that tag() names.
  void challenge(const Digest& secret);
  // Connector, at kTurn: at most kMaxPayload bytes for the proven peer.
  void answer(ByteSpan payload);

  bool sent_hello() const { return sent_hello_; }  // acceptor: tag() and peer_build() are known
  const Tag& tag() const { return tag_; }
  const Build& peer_build() const { return peer_build_; }
  ByteSpan payload() const { return payload_; }  // acceptor: the peer's answer()
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
  Digest transcript() const { return sha256({transcript_}); }
  void refuse(std::string why, bool proof = false);

  Build build_;
  Build peer_build_;
  std::string endpoint_;
  bool connector_;
  State state_ = State::kTalking;
  bool sending_ = false;
  bool sent_hello_ = false;
  bool received_header_ = false;  // header of the incoming message
  Message message_ = kHello;      // current message, incoming or outgoing
  Digest secret_{};
  Tag tag_{};
  Bytes transcript_;       // the endpoint's name, then every message
  std::size_t begin_ = 0;  // start of the current message in transcript_; it ends with transcript_
  std::size_t moved_ = 0;  // end of its received or sent bytes in transcript_
  Bytes payload_;
  Digest session_key_{};
  std::string why_;
  bool proof_failed_ = false;
};

// Moves the bytes of a handshake over a socket, as far as possible now. kRemoteError: the
// connection ended or broke, or the handshake was refused; the text contains the reason.
Status move(Handshake& handshake, int socket);

// The whole handshake of a connector. Calls `payload` once the other side is proven.
Status complete(Handshake& handshake, int socket, const std::function<Bytes()>& payload,
                const net::Deadline& deadline, std::string_view what);

}  // namespace rondo::auth
