#include "transport/shm/unix_visit.h"

#include <cerrno>
#include <cstring>

#include "transport/auth/handshake_io.h"

namespace rondo::shm {
namespace {

using net::Clock;
using State = auth::Handshake::State;

constexpr auto kComeAgain = std::chrono::milliseconds(20);
constexpr auto kBriefly = std::chrono::milliseconds(1);  // a full backlog empties soon

}  // namespace

UnixVisit::UnixVisit(const auth::Digest& secret, int self, const std::string& host,
                     UnixMeeting::Met& met)
    : secret_(secret), self_(self), host_(host), met_(&met) {}

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
    met_->socket = std::move(socket_);
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
  socket_.reset();
  met_->why_not = std::move(why);
}

}  // namespace rondo::shm
