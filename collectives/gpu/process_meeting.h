// Processes of a host meet, for what their ranks on GPUs share: each with the leader's, or all with
// all, over Unix sockets; and they map the segment that the leader makes.
//
// By one rank of each process. Cost: a meeting (unix_meeting.h) and a message for each process that
// this one meets.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "collectives/gpu/control_segment.h"
#include "transport/shm/unix_meeting.h"
#include "transport/socket/socket.h"

namespace rondo::gpu {

struct ProcessMeetingRequest {
  int ranks = 1, processes = 1;
  int process = 0;  // this process; 0 leads
  std::uint64_t staging_bytes = 0;
  const shm::UnixListener* listener = nullptr;  // this process's
  // Names of the processes' listeners; of the leader's alone: only it meets the others.
  std::vector<std::string> listeners;
  auth::Digest secret;  // of this meeting alone
  net::Deadline deadline;
};
// To another process: a socket for the questions of each side, so that answers stay apart.
struct ProcessSockets {
  net::Socket own, theirs;
};
struct ProcessMeeting {
  std::unique_ptr<ControlSegment> segment;
  std::vector<ProcessSockets> sockets;  // by process; empty where this one has not met it
};
// The device on which the segment is used must be current, and its context there.
Result<ProcessMeeting> meet_processes(const ProcessMeetingRequest& request);

}  // namespace rondo::gpu
