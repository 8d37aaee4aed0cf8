// SPDX-License-Identifier: Apache-2.0
// UnixMeeting: connects processes of one host that hold the same secret, over Unix sockets.
//
// A process can be the host of some and the guest of others at once: a star around a leader, or
// all to all. Guarantees: both ends of a returned socket have proved the secret to each other and
// belong to permitted users; no descriptor is sent or accepted before that. Any other connection
// (silent, garbage, another user) is dropped within a second; this is no error, and the others do
// not wait for it. A guest whose index is not expected or arrives twice is dropped too. A guest
// that was dropped because it was slow connects again. If descriptors run out, it pauses. It ends
// when every party has connected or is known to be missing, at the deadline, or on abort. Cost:
// four small messages per connection.
//
//   RONDO_TRY(UnixMeeting met, meet_by_unix({secret, 0, &listener, {{1, ""}, {2, ""}}, {}, wait}));
//   send_fds(met.guests[0].socket.get(), ...);
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "transport/auth/handshake.h"
#include "transport/auth/hmac.h"
#include "transport/shm/unix_socket.h"
#include "transport/socket/socket.h"

namespace rondo::shm {

using net::Deadline;

struct UnixMeetingRequest {
  struct Party {
    int index = 0;
    std::string listener;  // its name; empty for a guest that is sure to connect
  };
  auth::Digest secret;                     // used for this meeting only
  int self = 0;                            // index of this process as a guest
  const UnixListener* listener = nullptr;  // guests connect here
  std::vector<Party> guests, hosts;
  Deadline deadline;
};

struct UnixMeeting {
  struct Joined {
    net::Socket socket;
    std::string why_not;  // no socket: it cannot be reached or has stopped listening
  };
  std::vector<Joined> guests, hosts;  // in the request's order
  std::string refused;                // reason, if this process can neither accept nor connect

  // Why the first missing party is missing; empty: none is missing.
  std::string missing() const;
};

Result<UnixMeeting> meet_by_unix(const UnixMeetingRequest& request);

// UnixVisit: a guest's connection attempt to one host of a UnixMeeting, with retries. It never
// waits: its owner polls and calls step().
class UnixVisit {
 public:
  // meeting: receives the result; must outlive the visit.
  UnixVisit(const auth::Digest& secret, int self, const std::string& host,
            UnixMeeting::Joined& meeting);

  bool over() const { return meeting_->socket.valid() || !meeting_->why_not.empty(); }
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
  UnixMeeting::Joined* meeting_;
  net::Socket socket_;
  std::optional<auth::Handshake> shake_;
  net::Clock::time_point again_{};
};

}  // namespace rondo::shm
