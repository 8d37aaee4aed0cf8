// SPDX-License-Identifier: Apache-2.0
// Connects the processes of a host by Unix sockets, all with all, for what their ranks on GPUs
// share. All map the segment that the leader makes. Each GPU of a program counts as a process
// (gpu_plan.h).
//
// One rank of each process calls it. Cost: a meeting (unix_meeting.h) and a message for each other
// process.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "collectives/gpu/agree/control_segment.h"
#include "transport/shm/unix_meeting.h"
#include "transport/socket/socket.h"

namespace rondo::gpu {

struct ProcessMeetingRequest {
  int ranks = 1;
  int process = 0;  // this process; 0 is the leader
  std::uint64_t staging_bytes = 0;
  const shm::UnixListener* listener = nullptr;  // this process's
  std::vector<std::string> listeners;           // names of all processes' listeners
  auth::Digest secret;                          // for this meeting only
  net::Deadline deadline;
};
// Sockets to another process: one for the requests of each side, so that answers stay apart.
struct ProcessSockets {
  net::Socket own, theirs;
};
struct ProcessMeeting {
  std::unique_ptr<ControlSegment> segment;
  std::vector<ProcessSockets> sockets;  // [process]; empty for this one
};
// The device on which the segment is used must be current, with its context.
Result<ProcessMeeting> meet_processes(const ProcessMeetingRequest& request);

}  // namespace rondo::gpu
