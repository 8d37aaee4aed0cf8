// Processes of a host meet, for what their ranks on GPUs share: each brings its own together with
// the leader's over a Unix socket, and maps the segment that the leader makes.
//
// By one rank of each process. Cost: a meeting (unix_meeting.h) and a message for each process but
// the leader.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "collectives/gpu/control_segment.h"
#include "transport/shm/unix_meeting.h"

namespace rondo::gpu {

struct ProcessMeetingRequest {
  int ranks = 1, processes = 1;
  int process = 0;  // this process; 0 leads
  std::uint64_t staging_bytes = 0;
  const shm::UnixListener* listener = nullptr;  // the leader's: its own
  std::string leader;                           // else: the name of the leader's listener
  auth::Digest secret;                          // of this meeting alone
  net::Deadline deadline;
};
struct ProcessMeeting {
  std::unique_ptr<ControlSegment> segment;
  std::vector<net::Socket> sockets;  // the leader's: one for each process; else: one, to the leader
};
// The device on which the segment is used must be current, and its context there.
Result<ProcessMeeting> meet_processes(const ProcessMeetingRequest& request);

}  // namespace rondo::gpu
