// SPDX-License-Identifier: Apache-2.0
#include "transport/auth/acceptor.h"

#include <sys/epoll.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/log.h"
#include "transport/auth/handshake.h"
#include "transport/socket/tcp.h"

namespace rondo::auth {
namespace {

using std::chrono::milliseconds;

constexpr auto kProveWithin = std::chrono::seconds(1);
constexpr auto kPause = milliseconds(20);            // after the descriptors ran out
constexpr auto kShortage = std::chrono::seconds(1);  // ranks that start hold many for a moment
constexpr int kMaxAtOnce = 256;                      // max accepted per serve()

// The progress of a visitor, and how long it may stay at a stage while others wait. An honest
// visitor has sent Hello before it is accepted, and answers at once.
enum Stage { kSilent, kUnknown, kChallenged };
constexpr std::array<milliseconds, 3> kGrace = {milliseconds(10), milliseconds(100),
                                                milliseconds(250)};

}  // namespace

struct Acceptor::Visitor {
  net::Socket socket;
  net::SocketAddress from;
  Handshake handshake;
  Clock::time_point since;
  bool ready = true;
  bool challenged = false;
  bool gone = false;

  Stage stage() const {
    return challenged ? kChallenged : handshake.sent_hello() ? kUnknown : kSilent;
  }
  Clock::time_point may_go() const { return since + kGrace[stage()]; }
  std::string text() const { return from.valid() ? from.text() : "a process of this host"; }
};

std::size_t Acceptor::max_unproven() {
  constexpr rlim_t kMax = 64;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return kMax;
  return std::clamp<rlim_t>(limit.rlim_cur / 8, 1, kMax);
}

Acceptor::Acceptor(std::vector<net::Socket> listeners, Options options, net::Socket events)
    : listeners_(std::move(listeners)),
      options_(std::move(options)),
      max_(max_unproven()),
      events_(std::move(events)) {}

Acceptor::~Acceptor() = default;

Result<std::unique_ptr<Acceptor>> Acceptor::open(std::vector<net::Socket> listeners,
                                                 Options options) {
  net::Socket events(::epoll_create1(EPOLL_CLOEXEC));
  if (!events) return fail_errno(errno, "cannot create an epoll descriptor");
  std::unique_ptr<Acceptor> made(
      new Acceptor(std::move(listeners), std::move(options), std::move(events)));
  for (const net::Socket& listener : made->listeners_) {
    epoll_event event{};
    if (::epoll_ctl(made->events_.get(), EPOLL_CTL_ADD, listener.get(), &event) != 0)
      return fail_errno(errno, "cannot wait for connections");
  }
  made->listen(true);
  return made;
}

void Acceptor::listen(bool wanted) {
  if (wanted == listening_) return;
  listening_ = wanted;
  epoll_event event{};
  if (wanted) event.events = EPOLLIN;
  for (const net::Socket& listener : listeners_)
    ::epoll_ctl(events_.get(), EPOLL_CTL_MOD, listener.get(), &event);
}

std::vector<Arrival> Acceptor::serve(const SecretOf& secret_of) {
  std::vector<Arrival> arrivals;
  std::array<epoll_event, 128> events;
  const int count = ::epoll_wait(events_.get(), events.data(), events.size(), 0);
  bool waiting = false;
  for (int i = 0; i < count; ++i) {
    auto* const visitor = static_cast<Visitor*>(events[static_cast<std::size_t>(i)].data.ptr);
    waiting |= visitor == nullptr;
    if (visitor != nullptr) visitor->ready = true;
  }
  const auto now = Clock::now();
  for (const auto& visitor : visitors_) {
    receive(*visitor, secret_of, arrivals);
    visitor->gone |= now >= visitor->since + kProveWithin;
  }
  remove_gone();
  if (waiting || (accept_again_ != Clock::time_point() && now >= accept_again_))
    accept(secret_of, arrivals);
  const bool paused = accept_again_ != Clock::time_point();
  const bool room = visitors_.size() < max_ ||
                    std::any_of(visitors_.begin(), visitors_.end(),
                                [&](const auto& visitor) { return now >= visitor->may_go(); });
  listen(room && !paused);
  return arrivals;
}

Acceptor::Clock::time_point Acceptor::next_deadline() const {
  auto next = Clock::time_point::max();
  if (accept_again_ != Clock::time_point()) next = accept_again_;
  for (const auto& visitor : visitors_) {
    next = std::min(next, visitor->since + kProveWithin);
    if (!listening_ && visitors_.size() >= max_) next = std::min(next, visitor->may_go());
  }
  return next;
}

void Acceptor::receive(Visitor& visitor, const SecretOf& secret_of,
                       std::vector<Arrival>& arrivals) {
  Handshake& handshake = visitor.handshake;
  while (!visitor.gone) {
    if (handshake.state() == Handshake::State::kTurn) {
      const KnownSecret secret = secret_of(handshake.tag());
      if (secret.known == nullptr) {
        visitor.gone = !secret.may_come;
        visitor.ready = false;
        return;
      }
      handshake.challenge(*secret.known);
      visitor.challenged = visitor.ready = true;
    }
    if (!visitor.ready) return;
    visitor.ready = false;
    if (const Status moved = move(handshake, visitor.socket.get()); !moved.ok()) {
      RONDO_INFO(kBootstrap, "dropped {} at '{}': {}", visitor.text(), options_.endpoint,
                 moved.error().text);
      visitor.gone = true;
      if (visitor.challenged) doubted_ = handshake.tag();
      return;
    }
    if (handshake.state() != Handshake::State::kProven) continue;
    ::epoll_ctl(events_.get(), EPOLL_CTL_DEL, visitor.socket.get(), nullptr);
    const ByteSpan payload = handshake.payload();
    arrivals.push_back({std::move(visitor.socket), visitor.from, handshake.tag(),
                        handshake.peer_build(), Bytes(payload.begin(), payload.end()),
                        handshake.session_key()});
    visitor.gone = true;
  }
}

// Drops the visitor with the least progress, the oldest first. False: all may still stay.
bool Acceptor::make_room(Clock::time_point now) {
  Visitor* minimum = nullptr;
  for (const auto& visitor : visitors_)
    if (now >= visitor->may_go() && (minimum == nullptr || visitor->stage() < minimum->stage()))
      minimum = visitor.get();
  if (minimum == nullptr) return false;
  minimum->gone = true;
  remove_gone();
  return true;
}

bool Acceptor::doubted(const Tag& tag) {
  if (doubted_ != tag) return false;
  doubted_.reset();
  return true;
}

void Acceptor::drop_visitors() {
  visitors_.clear();
  accept_again_ = {};
  listen(true);
}

void Acceptor::remove_gone() {
  std::erase_if(visitors_, [](const auto& visitor) { return visitor->gone; });
}

// Drops a visitor, whatever its grace, for the one that could not be accepted.
void Acceptor::pause(Clock::time_point now, const Error& why, bool lasts) {
  RONDO_INFO(kBootstrap, "'{}' pauses: {}", options_.endpoint, why.text);
  accept_again_ = now + kPause;
  if (!lasts && make_room(Clock::time_point::max())) return refused_.reset();
  if (!refused_) refused_since_ = now;
  refused_ = why;
  refusal_lasts_ = lasts;
}

Status Acceptor::standing() const {
  if (!refused_ || (!refusal_lasts_ && Clock::now() < refused_since_ + kShortage))
    return ok_status();
  return fail(refused_->code, "{}: {}", options_.endpoint, refused_->text);
}

void Acceptor::accept(const SecretOf& secret_of, std::vector<Arrival>& arrivals) {
  accept_again_ = {};
  int accepted_now = 0;
  for (const net::Socket& listener : listeners_) {
    while (accepted_now < kMaxAtOnce) {
      const auto now = Clock::now();
      if (visitors_.size() >= max_ && !make_room(now)) return;
      bool lasts = false;
      auto accepted = net::accept_tcp(listener, &lasts);
      if (!accepted.ok()) return pause(now, accepted.error(), lasts);
      refused_.reset();
      if (!*accepted) break;
      ++accepted_now;
      if (options_.admits && !options_.admits((*accepted)->socket.get())) continue;
      auto visitor =
          std::make_unique<Visitor>(Visitor{std::move((*accepted)->socket), (*accepted)->peer,
                                            Handshake::acceptor(options_.endpoint), now});
      epoll_event event{};
      event.events = EPOLLIN | EPOLLOUT | EPOLLET;
      event.data.ptr = visitor.get();
      if (::epoll_ctl(events_.get(), EPOLL_CTL_ADD, visitor->socket.get(), &event) != 0) continue;
      receive(*visitor, secret_of, arrivals);
      if (!visitor->gone) visitors_.push_back(std::move(visitor));
    }
  }
}

}  // namespace rondo::auth
