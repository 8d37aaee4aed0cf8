// UnixVisit: a guest's connection attempt to one host of a UnixMeeting, with retries. It never
// waits: its owner polls and calls step().
#pragma once

#include <optional>

#include "transport/auth/handshake.h"
#include "transport/shm/unix_meeting.h"

namespace rondo::shm {

class UnixVisit {
 public:
  // met: receives the result; must outlive the visit.
  UnixVisit(const auth::Digest& secret, int self, const std::string& host, UnixMeeting::Met& met);

  bool over() const { return met_->socket.valid() || !met_->why_not.empty(); }
  net::Clock::time_point next_deadline() const;
  pollfd entry() const;
  void step();

 private:
  void connect();
  void come_again(net::Clock::duration pause);
  void refuse(std::string why);

  auth::Digest secret_;
  int self_;
  std::string host_;
  UnixMeeting::Met* met_;
  net::Socket socket_;
  std::optional<auth::Handshake> shake_;
  net::Clock::time_point again_{};
};

}  // namespace rondo::shm
