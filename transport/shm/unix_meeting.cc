// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/unix_meeting.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "transport/auth/acceptor.h"
#include "transport/auth/handshake.h"

namespace rondo::shm {
namespace {

using net::Clock;
using State = auth::Handshake::State;

constexpr auto kComeAgain = std::chrono::milliseconds(20);
constexpr auto kBriefly = std::chrono::milliseconds(1);  // a full backlog empties soon

}  // namespace

UnixVisit::UnixVisit(const auth::Digest& secret, int self, const std::string& host,
                     UnixMeeting::Joined& meeting)
    : secret_(secret), self_(self), host_(host), meeting_(&meeting) {}

Clock::time_point UnixVisit::next_deadline() const {
  return over() || socket_ ? Clock::time_point::max() : again_;
}

pollfd UnixVisit::entry() const {
  const bool sends = shake_ && !shake_->unsent().empty();
  return {over() ? -1 : socket_.get(), static_cast<short>(sends ? POLLOUT : POLLIN), 0};
}

void UnixVisit::step() {
  if (over()) return;
  if (!socket_) {
    if (Clock::now() < again_) return;
    connect();
    if (!socket_) return;
  }
  Status moved = auth::move(*shake_, socket_.get());
  if (shake_->state() == State::kTurn) {
    shake_->answer(std::as_bytes(std::span(&self_, 1)));
    moved = auth::move(*shake_, socket_.get());
  }
  if (shake_->state() == State::kRefused) {
    refuse(shake_->why());
  } else if (!moved.ok()) {
    come_again(kComeAgain);  // a host drops slow guests
  } else if (shake_->state() == State::kProven) {
    meeting_->socket = std::move(socket_);
  }
}

void UnixVisit::connect() {
  UnixConnection made = connect_unix(host_);
  if (!made.fd) {
    if (made.error == EAGAIN) return come_again(kBriefly);
    if (is_shortage(made.error)) return come_again(kComeAgain);
    return refuse(fmt::format("connecting to its Unix socket: {}", std::strerror(made.error)));
  }
  if (const Status user = may_join(made.fd.get()); !user.ok()) return refuse(user.error().text);
  socket_ = std::move(made.fd);
  shake_ = auth::Handshake::connector(secret_, host_);
}

void UnixVisit::come_again(Clock::duration pause) {
  socket_.reset();
  again_ = Clock::now() + pause;
}

void UnixVisit::refuse(std::string why) {
  assert(!why.empty());
  socket_.reset();
  meeting_->why_not = std::move(why);
}

namespace {

using net::Clock;

// Period in which a host checks that the missing guests still listen.
constexpr auto kLookPeriod = std::chrono::milliseconds(20);

bool settled(const UnixMeeting::Joined& meeting) {
  return meeting.socket.valid() || !meeting.why_not.empty();
}

class Gathering {
 public:
  explicit Gathering(const UnixMeetingRequest& request)
      : request_(request), look_at_(Clock::now() + kLookPeriod) {
    meeting_.guests.resize(request.guests.size());
    meeting_.hosts.resize(request.hosts.size());
    watches_.resize(request.guests.size());
    for (std::size_t h = 0; h < request.hosts.size(); ++h)
      visits_.emplace_back(request.secret, request.self, request.hosts[h].listener,
                           meeting_.hosts[h]);
  }

  Result<UnixMeeting> run() {
    assert(request_.guests.empty() || request_.listener != nullptr);
    if (!request_.guests.empty()) RONDO_CHECK_OK(open());
    for (;;) {
      for (UnixVisit& visit : visits_) visit.step();
      if (guests_missing()) {
        receive();
        if (guests_missing()) RONDO_CHECK_OK(acceptor_->standing());
        look_for_guests();
      }
      if (!meeting_.refused.empty() || complete()) return std::move(meeting_);
      if (const Status waited = wait(); !waited.ok()) return cause_of(waited.error());
    }
  }

 private:
  bool guests_missing() const {
    return !std::all_of(meeting_.guests.begin(), meeting_.guests.end(), settled);
  }
  bool complete() const {
    return !guests_missing() && std::all_of(meeting_.hosts.begin(), meeting_.hosts.end(), settled);
  }

  // ---- as a host ----

  Status open() {
    std::vector<net::Socket> listeners(1);
    listeners[0] = net::Socket(Fd::duplicate_of(request_.listener->fd.get()).release());
    if (!listeners[0]) return fail_errno(errno, "cannot accept on a Unix socket (ulimit -n)");
    RONDO_TRY(acceptor_, auth::Acceptor::open(
                             std::move(listeners),
                             {request_.listener->name, [](int fd) { return may_join(fd).ok(); }}));
    return ok_status();
  }

  void receive() {
    const auto secret_of = [this](const auth::Tag& tag) {
      return auth::KnownSecret{tag == auth::tag_of(request_.secret) ? &request_.secret : nullptr,
                               false};
    };
    for (auth::Arrival& arrival : acceptor_->serve(secret_of)) let_in(arrival);
  }

  // Drops a guest that is not expected or has already connected.
  void let_in(auth::Arrival& arrival) {
    int index = -1;
    if (arrival.payload.size() == sizeof(index))
      std::memcpy(&index, arrival.payload.data(), sizeof(index));
    const auto& guests = request_.guests;
    const auto found = std::find_if(guests.begin(), guests.end(),
                                    [&](const auto& guest) { return guest.index == index; });
    const auto at = static_cast<std::size_t>(found - guests.begin());
    if (found == guests.end() || settled(meeting_.guests[at])) {
      RONDO_INFO(kShm, "process {} connected to a Unix socket {}", index,
                 found == guests.end() ? "that does not expect it" : "twice");
      return;
    }
    meeting_.guests[at].socket = std::move(arrival.socket);
    watches_[at].reset();
  }

  // A guest that gives up closes its listener; that closes this host's connection to it.
  void look_for_guests() {
    if (Clock::now() < look_at_) return;
    look_at_ = Clock::now() + kLookPeriod;
    for (std::size_t g = 0; g < watches_.size(); ++g) {
      const auto& guest = request_.guests[g];
      if (settled(meeting_.guests[g]) || guest.listener.empty()) continue;
      if (watches_[g]) {
        pollfd entry{watches_[g].get(), POLLIN, 0};
        if (poll(&entry, 1, 0) > 0) miss(g, "it gave up");
        continue;
      }
      UnixConnection made = connect_unix(guest.listener);
      if (made.error == ECONNREFUSED) {
        miss(g, "no process listens at its Unix socket");
      } else if (made.error != 0) {
        if (made.error != EAGAIN && !is_shortage(made.error))
          meeting_.refused =
              fmt::format("connecting to a Unix socket: {}", std::strerror(made.error));
      } else if (const Status user = may_join(made.fd.get()); !user.ok()) {
        miss(g, user.error().text);
      } else {
        watches_[g] = std::move(made.fd);
      }
    }
  }

  void miss(std::size_t guest, const std::string& why) {
    assert(!settled(meeting_.guests[guest]) && !why.empty());
    meeting_.guests[guest].why_not =
        fmt::format("process {}: {}", request_.guests[guest].index, why);
    watches_[guest].reset();
  }

  // ---- waiting ----

  Status wait() {
    std::vector<pollfd> entries;
    auto until = Clock::time_point::max();
    for (const UnixVisit& visit : visits_) {
      entries.push_back(visit.entry());
      until = std::min(until, visit.next_deadline());
    }
    if (guests_missing()) {
      entries.push_back({acceptor_->poll_fd(), POLLIN, 0});
      until = std::min({until, look_at_, acceptor_->next_deadline()});
    }
    RONDO_TRY([[maybe_unused]] const bool ready,
              net::wait_until(entries, until, request_.deadline,
                              "waiting for processes of this host to meet over Unix sockets"));
    return ok_status();
  }

  static Error cause_of(const Error& error) {
    if (error.code != StatusCode::kTimeout) return error;
    const net::Socket any(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (any) return error;
    return fail(StatusCode::kSystemError, "{}: {} (is ulimit -n too low?)", error.text,
                std::strerror(errno));
  }

  const UnixMeetingRequest& request_;
  UnixMeeting meeting_;
  std::vector<UnixVisit> visits_;
  std::unique_ptr<auth::Acceptor> acceptor_;
  std::vector<net::Socket> watches_;  // one per guest
  Clock::time_point look_at_;
};

}  // namespace

std::string UnixMeeting::missing() const {
  if (!refused.empty()) return refused;
  for (const auto* list : {&guests, &hosts})
    for (const Joined& meeting : *list)
      if (!meeting.socket) return meeting.why_not;
  return {};
}

Result<UnixMeeting> meet_by_unix(const UnixMeetingRequest& request) {
  return Gathering(request).run();
}

}  // namespace rondo::shm
