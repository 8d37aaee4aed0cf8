// UnixMeeting: processes of one host that hold a secret come together over Unix sockets.
//
// Each may be host to some and guest of others at once: a star around a leader, or all with all.
// Guarantees: both ends of a socket that comes out have proved the secret to each other and are of
// users that may join; no descriptor is sent or taken before that. Any other connection (silent,
// garbage, another user) is dropped within a second; the others do not wait for it, and it is no
// error. A process whose number comes twice or is not expected is dropped, too: its socket is
// closed. A guest that was dropped because it was slow connects again. Where descriptors run out it
// pauses. Ends when all have come or are known not to come, at the deadline, or on abort. Cost:
// four small messages each.
//
//   RONDO_TRY(UnixMeeting met, meet_by_unix({secret, 0, &listener, {{1, ""}, {2, ""}}, {}, wait}));
//   send_fds(met.guests[0].socket.get(), ...);
#pragma once

#include <string>
#include <vector>

#include "transport/auth/hmac.h"
#include "transport/shm/unix_socket.h"
#include "transport/socket/deadline.h"

namespace rondo::shm {

using net::Deadline;

struct UnixMeetingRequest {
  struct Party {
    int index = 0;
    std::string listener;  // its name; a guest's may be empty: it will surely come
  };
  auth::Digest secret;                     // of this meeting alone
  int self = 0;                            // what this process is called as a guest
  const UnixListener* listener = nullptr;  // where guests come
  std::vector<Party> guests, hosts;
  Deadline deadline;
};

struct UnixMeeting {
  struct Met {
    net::Socket socket;
    std::string why_not;  // where there is none: it cannot be reached, or listens no more
  };
  std::vector<Met> guests, hosts;  // in the order of the request's
  std::string refused;             // why this process can neither accept nor connect

  // The first one that was not met; empty: all were.
  std::string missing() const;
};

Result<UnixMeeting> meet_by_unix(const UnixMeetingRequest& request);

}  // namespace rondo::shm
