// SPDX-License-Identifier: Apache-2.0
#include "transport/streams/connector.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transport/socket/tcp.h"

namespace rondo::net {

Bytes encode(const SocketOfLink& socket) {
  ByteWriter out;
  out.put<std::uint32_t>(static_cast<std::uint32_t>(socket.name.from));
  out.put<std::uint32_t>(static_cast<std::uint32_t>(socket.name.to));
  out.put<std::uint32_t>(static_cast<std::uint32_t>(socket.name.lane));
  out.put<std::uint16_t>(socket.index);
  out.put<std::uint16_t>(socket.count);
  out.put<std::uint64_t>(socket.link_id);
  return out.take();
}

std::optional<SocketOfLink> decode_socket(ByteSpan bytes) {
  ByteReader in(bytes);
  SocketOfLink socket;
  socket.name.from = static_cast<std::int32_t>(in.get<std::uint32_t>());
  socket.name.to = static_cast<std::int32_t>(in.get<std::uint32_t>());
  socket.name.lane = static_cast<std::int32_t>(in.get<std::uint32_t>());
  socket.index = in.get<std::uint16_t>();
  socket.count = in.get<std::uint16_t>();
  socket.link_id = in.get<std::uint64_t>();
  const bool sound = in.finished() && socket.name.from >= 0 && socket.name.to >= 0 &&
                     socket.name.lane >= 0 && socket.name.lane < kMaxLanes && socket.count >= 1 &&
                     socket.count <= kMaxSockets && socket.index < socket.count;
  return sound ? std::optional(socket) : std::nullopt;
}

std::string endpoint_of(std::string_view network, std::string_view purpose, int rank) {
  return fmt::format("{} {} rank {}", network, purpose, rank);
}

namespace {

using auth::Handshake;
using std::chrono::milliseconds;

constexpr milliseconds kFirstPatience{3000};  // for one address, if the peer has others; doubles
constexpr milliseconds kMaxPatience{60000};
constexpr milliseconds kPause{200};            // before the first address is retried
constexpr milliseconds kWithoutSockets{5000};  // no descriptors, or no network
constexpr std::size_t kRounds = 2;             // of refusals at every address: the peer has gone

std::uint64_t random_number() {
  const auth::Digest random = auth::random_digest();
  std::uint64_t number;
  std::memcpy(&number, random.data(), sizeof(number));
  return number;
}

}  // namespace

Connector::Connector(Poller& poller, const auth::Digest& secret, std::string endpoint,
                     WantedLink wanted, std::vector<SocketAddress> candidates)
    : poller_(poller),
      secret_(secret),
      endpoint_(std::move(endpoint)),
      wanted_(std::move(wanted)),
      candidates_(std::move(candidates)),
      deadline_(kFirstPatience) {
  socket_.name = wanted_.name;
  socket_.count = static_cast<std::uint16_t>(wanted_.sockets);
  start_round();
}

void Connector::start_round() {
  socket_.link_id = random_number();
  reached_ = false;
  give_up_at_ = Clock::now() + deadline_;
  start_socket();
}

void Connector::start_socket() {
  auto socket = start_connect(candidates_[candidate_]);
  if (!socket.ok()) {
    if (!no_socket_since_) no_socket_since_ = Clock::now();
    if (Clock::now() - *no_socket_since_ > kWithoutSockets) failure_ = socket.error().text;
    return give_up_candidate(false, socket.error().text);
  }
  no_socket_since_.reset();
  socket_.index = static_cast<std::uint16_t>(attempts_.size());
  attempts_.push_back({std::make_unique<Stream>(poller_, std::move(*socket)),
                       Handshake::connector(secret_, endpoint_), socket_});
}

void Connector::give_up_candidate(bool refused, const std::string& why) {
  const std::string last = fmt::format("{}: {}", candidates_[candidate_].text(), why);
  attempts_.clear();
  refusals_ = refused ? refusals_ + 1 : 0;
  if (refusals_ >= kRounds * candidates_.size()) {
    failure_ = fmt::format("no process listens there any more ({})", last);
    return;
  }
  candidate_ = (candidate_ + 1) % candidates_.size();
  start_at_ = Clock::now() + (candidate_ == 0 ? kPause : milliseconds(0));
}

bool Connector::advance(Attempt& attempt) {
  if (attempt.agreed || (!attempt.stream->readable() && !attempt.stream->writable())) return false;
  Handshake& handshake = attempt.handshake;
  IoOutcome outcome = move(handshake, *attempt.stream);
  if (handshake.state() == Handshake::State::kTurn) {
    if (const Status answered = answer(attempt); !answered.ok()) {
      failure_ = answered.error().text;
      return true;
    }
    outcome = move(handshake, *attempt.stream);
  }
  if (attempt.records && !outcome.over() && handshake.unsent().empty()) outcome = greet(attempt);
  if (handshake.state() == Handshake::State::kProven && attempt.greeting.empty()) {
    if (attempt.records) attempt.stream->seal(std::move(*attempt.records));
    return attempt.agreed = true;
  }
  if (outcome.over()) {
    give_up_candidate(outcome.error == ECONNREFUSED, text_of(outcome));
    return true;
  }
  if (handshake.state() != Handshake::State::kRefused) return false;
  give_up_candidate(false, handshake.why());
  return true;
}

Status Connector::answer(Attempt& attempt) {
  attempt.handshake.answer(encode(attempt.socket));
  reached_ = true;
  if (!wanted_.sealed) return ok_status();
  RONDO_TRY(attempt.records,
            auth::Records::make(attempt.handshake.session_key(), auth::Records::Side::kConnector));
  return attempt.records->seal(wanted_.greeting, attempt.greeting);
}

IoOutcome Connector::greet(Attempt& attempt) {
  while (!attempt.greeting.empty() && attempt.stream->writable()) {
    iovec rest{attempt.greeting.data(), attempt.greeting.size()};
    const IoOutcome outcome = attempt.stream->write({&rest, 1});
    if (outcome.over()) return outcome;
    attempt.greeting.erase(attempt.greeting.begin(),
                           attempt.greeting.begin() + static_cast<std::ptrdiff_t>(outcome.bytes));
  }
  return {};
}

bool Connector::progress() {
  if (finished_ || failure_) return false;
  if (attempts_.empty()) {
    if (Clock::now() < start_at_) return false;
    start_round();
    return true;
  }
  for (std::size_t i = 0; i < attempts_.size(); ++i) {
    if (advance(attempts_[i]) && (attempts_.empty() || failure_)) return true;
  }
  // The other sockets use the address that accepted the first one.
  if (attempts_[0].agreed && attempts_.size() < socket_.count) {
    start_socket();
    return true;
  }
  finished_ = std::all_of(attempts_.begin(), attempts_.end(),
                          [](const Attempt& attempt) { return attempt.agreed; });
  if (finished_) return true;
  // After this side has answered (agreed), the peer may count the link as made. Leaving now because
  // of a late Welcome would look like this side's death.
  if (candidates_.size() > 1 && !reached_ && Clock::now() > give_up_at_) {
    deadline_ = std::min(deadline_ * 2, kMaxPatience);
    give_up_candidate(false, "no answer");
  }
  return false;
}

std::vector<std::unique_ptr<Stream>> Connector::take() {
  std::vector<std::unique_ptr<Stream>> streams;
  streams.reserve(attempts_.size());  // all or none
  for (Attempt& attempt : attempts_) streams.push_back(std::move(attempt.stream));
  attempts_.clear();
  return streams;
}

}  // namespace rondo::net
