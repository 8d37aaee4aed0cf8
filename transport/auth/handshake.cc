// SPDX-License-Identifier: Apache-2.0
#include "transport/auth/handshake.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cassert>
#include <cerrno>

namespace rondo::auth {
namespace {

constexpr std::uint32_t kMagic = 0x41756f52;  // "RouA"; the same in all versions
constexpr std::size_t kHeader = 4 + 1 + 2;    // magic, type, number of following bytes
constexpr std::size_t kProof = sizeof(Digest);
constexpr std::string_view kAcceptor = "handshake acceptor";
constexpr std::string_view kConnector = "handshake connector";
constexpr std::string_view kWelcomer = "handshake welcome";
constexpr std::string_view kSession = "handshake session";

void write(ByteWriter& out, const Build& build) {
  out.put<std::uint16_t>(build.protocol);
  out.put<std::uint8_t>(build.endianness);
  out.put<std::uint8_t>(build.pointer_bytes);
}

Build read_build(ByteReader& in) {
  Build build;
  build.protocol = in.get<std::uint16_t>();
  build.endianness = in.get<std::uint8_t>();
  build.pointer_bytes = in.get<std::uint8_t>();
  return build;
}

}  // namespace

std::string Build::text() const {
  return fmt::format("protocol {}, {}, {} bits", protocol,
                     endianness == 1   ? "little-endian"
                     : endianness == 2 ? "big-endian"
                                       : "unknown byte order",
                     pointer_bytes * 8);
}

Tag tag_of(const Digest& secret) {
  const Digest whole = derive(secret, "handshake tag");
  Tag tag;
  std::copy_n(whole.begin(), tag.size(), tag.begin());
  return tag;
}

Handshake::Handshake(std::string_view endpoint, const Build& build, bool connector)
    : build_(build), endpoint_(endpoint), connector_(connector) {
  ByteWriter name;
  name.put_string(endpoint);
  transcript_ = name.take();
  transcript_.reserve(transcript_.size() + 3 * kMaxBytes);
}

Handshake Handshake::connector(const Key& key, std::string_view endpoint, const Build& build) {
  Handshake made(endpoint, build, true);
  made.secret_ = key.secret;
  made.tag_ = key.tag;
  ByteWriter body;
  write(body, build);
  body.put_raw(made.tag_);
  body.put_raw(random_digest());
  made.begin(kHello, body.written(), 0);
  return made;
}

Handshake Handshake::acceptor(std::string_view endpoint, const Build& build) {
  Handshake made(endpoint, build, false);
  made.expect(kHello);
  return made;
}

void Handshake::begin(Message type, ByteSpan body, std::size_t proof_bytes) {
  ByteWriter header;
  header.put<std::uint32_t>(kMagic);
  header.put<std::uint8_t>(type);
  header.put<std::uint16_t>(static_cast<std::uint16_t>(body.size() + proof_bytes));
  message_ = type;
  begin_ = moved_ = transcript_.size();
  transcript_.insert(transcript_.end(), header.written().begin(), header.written().end());
  transcript_.insert(transcript_.end(), body.begin(), body.end());
  state_ = State::kTalking;
  sending_ = true;
}

void Handshake::prove(std::string_view role) {
  const Digest proof = derive(secret_, role, transcript());
  transcript_.insert(transcript_.end(), proof.begin(), proof.end());
}

bool Handshake::proven_by(std::string_view role, ByteSpan proof) const {
  const ByteSpan before = ByteSpan(transcript_).first(transcript_.size() - kProof);
  return same_digest(derive(secret_, role, sha256({before})), proof);
}

std::size_t Handshake::least_after_header() const {
  constexpr std::size_t kBuild = 4;
  return message_ == kHello       ? kBuild + sizeof(Tag) + sizeof(Digest)
         : message_ == kChallenge ? kBuild + sizeof(Digest) + kProof
                                  : kProof;
}

void Handshake::expect(Message type) {
  message_ = type;
  sending_ = false;
  begin_ = moved_ = transcript_.size();
  received_header_ = false;
  transcript_.resize(begin_ + kHeader + least_after_header());
}

void Handshake::refuse(std::string why, bool proof) {
  proof_failed_ = proof;
  state_ = State::kRefused;
  why_ = std::move(why);
}

std::span<std::byte> Handshake::room() {
  if (sending_ || !talking()) return {};
  return std::span(transcript_).subspan(moved_);
}

ByteSpan Handshake::unsent() const {
  if (!sending_ || !talking()) return {};
  return ByteSpan(transcript_).subspan(moved_);
}

void Handshake::received(std::size_t count) {
  assert(!sending_ && count <= transcript_.size() - moved_);
  moved_ += count;
  if (talking() && !received_header_ && moved_ >= begin_ + kHeader) take_header();
  if (talking() && moved_ == transcript_.size()) take_message();
}

void Handshake::sent(std::size_t count) {
  assert(sending_ && count <= transcript_.size() - moved_);
  moved_ += count;
  if (moved_ != transcript_.size()) return;
  if (message_ == kWelcome) {
    state_ = State::kProven;
  } else {
    expect(static_cast<Message>(message_ + 1));
  }
}

void Handshake::take_header() {
  ByteReader in(ByteSpan(transcript_).subspan(begin_, kHeader));
  const auto magic = in.get<std::uint32_t>();
  const auto type = in.get<std::uint8_t>();
  const auto bytes = in.get<std::uint16_t>();
  const std::size_t minimum = least_after_header();
  const std::size_t maximum = message_ == kAnswer ? kMaxPayload + kProof : minimum;
  if (magic != kMagic || type != message_ || bytes < minimum || bytes > maximum)
    return refuse("it does not speak Rondo's handshake");
  received_header_ = true;
  transcript_.resize(begin_ + kHeader + bytes);
}

void Handshake::take_message() {
  ByteReader in(ByteSpan(transcript_).subspan(begin_ + kHeader));
  switch (message_) {
    case kHello:
      peer_build_ = read_build(in);
      in.fill(tag_);
      sent_hello_ = true;
      state_ = State::kTurn;
      return;
    case kChallenge:
      peer_build_ = read_build(in);
      if (!proven_by(kAcceptor, ByteSpan(transcript_).last(kProof)))
        return refuse(
            fmt::format("the process that answers does not hold the secret, or is not '{}'",
                        endpoint_),
            true);
      state_ = State::kTurn;
      return;
    case kAnswer: {
      if (!proven_by(kConnector, ByteSpan(transcript_).last(kProof)))
        return refuse("it could not prove that it holds the secret", true);
      const ByteSpan payload = in.raw(in.left() - kProof);
      payload_.assign(payload.begin(), payload.end());
      session_key_ = derive(secret_, kSession, transcript());
      begin(kWelcome, {}, kProof);
      return prove(kWelcomer);
    }
    case kWelcome:
      if (!proven_by(kWelcomer, ByteSpan(transcript_).last(kProof)))
        return refuse("its welcome was changed on its way", true);
      state_ = State::kProven;
  }
}

void Handshake::challenge(const Digest& secret) {
  assert(!connector_ && state_ == State::kTurn);
  secret_ = secret;
  ByteWriter body;
  write(body, build_);
  body.put_raw(random_digest());
  begin(kChallenge, body.written(), kProof);
  prove(kAcceptor);
}

void Handshake::answer(ByteSpan payload) {
  assert(connector_ && state_ == State::kTurn && payload.size() <= kMaxPayload);
  begin(kAnswer, payload, kProof);
  prove(kConnector);
  session_key_ = derive(secret_, kSession, transcript());
}

namespace {

// Connection errors count as errors of the other end (kRemoteError).
Status moved_or_broken(ssize_t count, bool receiving) {
  if (count > 0) return ok_status();
  if (count == 0 && receiving)
    return fail(StatusCode::kRemoteError, "the peer closed the connection during the handshake");
  Error error = fail_errno(errno, "the connection broke during the handshake");
  error.code = StatusCode::kRemoteError;
  return error;
}

bool would_block(ssize_t count) {
  return count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOTCONN);
}

}  // namespace

Status move(Handshake& handshake, int socket) {
  while (handshake.talking()) {
    const bool receiving = !handshake.room().empty();
    const ssize_t count =
        receiving ? ::recv(socket, handshake.room().data(), handshake.room().size(), MSG_DONTWAIT)
                  : ::send(socket, handshake.unsent().data(), handshake.unsent().size(),
                           MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (would_block(count)) return ok_status();
    RONDO_CHECK_OK(moved_or_broken(count, receiving));
    if (receiving) {
      handshake.received(static_cast<std::size_t>(count));
    } else {
      handshake.sent(static_cast<std::size_t>(count));
    }
  }
  if (handshake.state() != Handshake::State::kRefused) return ok_status();
  return fail(StatusCode::kRemoteError, "{}", handshake.why());
}

Status complete(Handshake& handshake, int socket, const std::function<Bytes()>& payload,
                const net::Deadline& deadline, std::string_view what) {
  for (;;) {
    RONDO_CHECK_OK(move(handshake, socket));
    if (handshake.state() == Handshake::State::kProven) return ok_status();
    if (handshake.state() == Handshake::State::kTurn) {
      handshake.answer(payload());
      continue;
    }
    const bool receiving = handshake.unsent().empty();
    pollfd entry{socket, static_cast<short>(receiving ? POLLIN : POLLOUT), 0};
    RONDO_CHECK_OK(net::wait_ready({&entry, 1}, deadline, what));
  }
}

}  // namespace rondo::auth
