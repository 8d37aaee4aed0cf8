// SPDX-License-Identifier: Apache-2.0
#include "transport/bootstrap/connect.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "transport/auth/handshake.h"
#include "transport/socket/tcp.h"

namespace rondo::bootstrap {
namespace {

using auth::Handshake;
using net::Clock;
using std::chrono::milliseconds;

constexpr auto kHeadStart = milliseconds(250);
constexpr auto kFirstPause = milliseconds(5);
constexpr auto kLongestPause = milliseconds(500);
constexpr auto kSecretGrace = std::chrono::seconds(2);    // another process may answer first
constexpr auto kWithoutSocket = std::chrono::seconds(1);  // others may close some
constexpr auto kConnectTime = std::chrono::seconds(5);

// One address: waits for its start time, connects, does the handshake; restarts after a failure.
class Attempt {
 public:
  Attempt(const net::SocketAddress& to, Clock::time_point start) : to_(to), next_(start) {}

  bool refused() const { return refused_; }
  bool other_secret() const { return other_secret_; }
  // No socket could be made for a while: this host's fault, not the network's.
  bool without_socket() const {
    return no_socket_since_ && Clock::now() >= *no_socket_since_ + kWithoutSocket;
  }
  bool untried() const { return trouble_.empty() && !handshake_; }
  std::string trouble() const { return handshake_ ? connected_text() : trouble_; }
  bool proven() const { return handshake_ && handshake_->state() == Handshake::State::kProven; }
  // The other end is proven and waits for the answer. Only one attempt answers: a rank joins once.
  bool at_turn() const { return handshake_ && handshake_->state() == Handshake::State::kTurn; }
  bool answered() const { return answered_; }

  // Next time to act without an event.
  Clock::time_point next() const { return handshake_ ? Clock::time_point::max() : next_; }
  pollfd entry() const {
    const bool reads = handshake_ && handshake_->unsent().empty();
    return {socket_.get(), static_cast<short>(reads ? POLLIN : POLLOUT), 0};  // -1 while idle
  }

  void advance(bool ready, const ConnectRequest& request) {
    if (!socket_.valid()) {
      if (Clock::now() >= next_) start();
    } else if (handshake_) {
      if (ready) shake();
    } else if (ready) {
      connected(request);
    } else if (Clock::now() >= next_) {
      fail_with("no answer", false);
    }
  }

  void answer(const Bytes& payload) {
    answered_ = true;
    handshake_->answer(payload);
    shake();
  }

  Result<FramedLink> take() {
    return FramedLink::make(std::move(socket_), handshake_->session_key(),
                            auth::Records::Side::kConnector);
  }

 private:
  void start() {
    started_ = Clock::now();
    bool no_socket = false;
    auto socket = net::start_connect(to_, &no_socket);
    if (!no_socket) no_socket_since_.reset();
    if (no_socket && !no_socket_since_) no_socket_since_ = started_;
    if (!socket.ok()) return fail_with(socket.error().text, false);
    socket_ = std::move(*socket);
    next_ = started_ + kConnectTime;
  }

  void connected(const ConnectRequest& request) {
    if (const int error = net::connect_outcome(socket_); error != 0)
      return fail_with(std::strerror(error), error == ECONNREFUSED);
    refused_ = false;
    handshake_ = Handshake::connector(request.key, request.endpoint, request.build);
    shake();
  }

  void shake() {
    const Status moved = auth::move(*handshake_, socket_.get());
    if (moved.ok()) return;
    if (handshake_->state() == Handshake::State::kRefused) {
      other_secret_ = handshake_->proof_failed();
      return fail_with(moved.error().text, false);
    }
    const std::string dropped = connected_text();
    fail_with("", false);
    trouble_ = dropped;
  }

  std::string connected_text() const {
    return to_.text() + ": connected, but no process serves this id there (not yet, or no longer)";
  }

  void fail_with(const std::string& why, bool refused) {
    socket_.reset();
    handshake_.reset();
    answered_ = false;
    refused_ = refused;
    trouble_ = fmt::format("{}: {}", to_.text(), why);
    const auto now = Clock::now();
    if (now - started_ > kLongestPause) pause_ = kFirstPause;  // it was connected for a while
    next_ = now + pause_;
    pause_ = std::min<Clock::duration>(pause_ * 2, kLongestPause);
  }

  net::SocketAddress to_;
  Clock::time_point next_;
  Clock::time_point started_{};
  Clock::duration pause_ = kFirstPause;
  net::Socket socket_;
  std::optional<Handshake> handshake_;  // once connected
  bool answered_ = false;
  bool refused_ = false;
  bool other_secret_ = false;  // the other end knows the id, but has another secret
  std::optional<Clock::time_point> no_socket_since_;
  std::string trouble_;
};

// All addresses in parallel.
class Connecting {
 public:
  Connecting(const ConnectRequest& request, const net::Deadline& deadline)
      : request_(request), deadline_(deadline) {
    auto start = Clock::now();
    for (const auto& address : request.place.addresses) {
      attempts_.emplace_back(address.with_port(request.place.port), start);
      start += kHeadStart;
    }
  }

  Result<FramedLink> run() {
    if (attempts_.empty())
      return fail(StatusCode::kInternalError, "no address to connect to while {}", request_.what);
    for (bool ready = false;;) {
      for (std::size_t i = 0; i < attempts_.size(); ++i) {
        attempts_[i].advance(ready && entries_[i].revents != 0, request_);
        if (attempts_[i].at_turn() && !any(&Attempt::answered)) attempts_[i].answer(join());
        if (attempts_[i].proven()) return attempts_[i].take();
      }
      if (request_.overseer != nullptr)
        if (auto error = error_from(*request_.overseer)) return *error;
      RONDO_CHECK_OK(somebody_answers());
      RONDO_TRY(ready, wait());
    }
  }

 private:
  bool any(bool (Attempt::*what)() const) const {
    return std::any_of(attempts_.begin(), attempts_.end(),
                       [&](const Attempt& attempt) { return (attempt.*what)(); });
  }

  Bytes join() const {
    Join join = request_.join;
    const auto left = std::max(Clock::duration::zero(), deadline_.at - Clock::now());
    join.timeout_ns = static_cast<std::uint64_t>(std::chrono::nanoseconds(left).count());
    return join.encode();
  }

  Status somebody_answers() {
    const bool all_refused =
        attempts_[0].refused() &&
        std::all_of(attempts_.begin(), attempts_.end(),
                    [](const Attempt& attempt) { return attempt.refused() || attempt.untried(); });
    if (!all_refused) refused_since_ = kNever;
    if (all_refused && refused_since_ == kNever) refused_since_ = Clock::now();
    if (all_refused && Clock::now() - refused_since_ >= request_.refusal_grace)
      return fail(StatusCode::kRemoteError, "no process listens any more while {} ({}){}",
                  request_.what, trouble(), remedy());
    if (any(&Attempt::without_socket))
      return fail(StatusCode::kSystemError, "{} ({})", request_.what, trouble());
    const bool differs = any(&Attempt::other_secret);
    if (differs && differs_since_ == kNever) differs_since_ = Clock::now();
    if (differs && Clock::now() - differs_since_ >= kSecretGrace)
      return fail(StatusCode::kInvalidUsage,
                  "no rank with the same secret answers while {}: RONDO_SECRET must be the same on "
                  "all ranks, set on all or on none ({})",
                  request_.what, trouble());
    return ok_status();
  }

  const char* remedy() const {
    const auto& all = request_.place.addresses;
    const bool loopback = std::all_of(all.begin(), all.end(),
                                      [](const net::SocketAddress& one) { return one.loopback(); });
    return loopback ? "; other hosts do not reach loopback addresses: a rank on another host needs "
                      "an interface that is up and that NCCL_SOCKET_IFNAME admits"
                    : "";
  }

  Result<bool> wait() {
    entries_.clear();
    auto next = kNever;
    for (const Attempt& attempt : attempts_) {
      entries_.push_back(attempt.at_turn() ? pollfd{-1, 0, 0} : attempt.entry());
      next = std::min(next, attempt.next());
    }
    if (request_.overseer != nullptr && request_.overseer->valid())
      entries_.push_back(request_.overseer->entry());
    auto waited = net::wait_until(entries_, next, deadline_, request_.what);
    if (waited.ok() || waited.code() != StatusCode::kTimeout) return waited;
    return fail(StatusCode::kTimeout, "{} ({})", waited.error().text, trouble());
  }

  std::string trouble() const {
    std::string all;
    for (const Attempt& attempt : attempts_)
      if (const auto why = attempt.trouble(); !why.empty()) all += (all.empty() ? "" : "; ") + why;
    return all.empty() ? std::string("no answer from ") + text_of(request_.place) : all;
  }

  static constexpr auto kNever = Clock::time_point::max();
  const ConnectRequest& request_;
  const net::Deadline& deadline_;
  std::vector<Attempt> attempts_;
  std::vector<pollfd> entries_;
  Clock::time_point refused_since_ = kNever;
  Clock::time_point differs_since_ = kNever;
};

}  // namespace

std::string endpoint_of(int rank) { return fmt::format("bootstrap rank {}", rank); }

std::optional<Error> error_from(FramedLink& overseer) {
  while (overseer.valid() && !overseer.closed()) {
    auto frame = overseer.receive();
    if (!frame.ok() || !*frame) break;
    if ((*frame)->type == kError) return decode_error((*frame)->payload);
  }
  if (overseer.closed()) overseer.close();
  return std::nullopt;
}

std::string text_of(const Endpoint& place) {
  std::string text;
  for (const auto& address : place.addresses) text += (text.empty() ? "" : " or ") + address.text();
  return text;
}

Result<FramedLink> connect(const ConnectRequest& request, const net::Deadline& deadline) {
  return Connecting(request, deadline).run();
}

}  // namespace rondo::bootstrap
