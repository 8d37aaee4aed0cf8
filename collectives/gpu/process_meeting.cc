#include "collectives/gpu/process_meeting.h"

#include "transport/shm/fd_passing.h"

namespace rondo::gpu {

Result<ProcessMeeting> meet_processes(const ProcessMeetingRequest& request) {
  ProcessMeeting met;
  shm::UnixMeetingRequest asked;
  asked.secret = request.secret;
  asked.self = request.process;
  asked.listener = request.listener;
  asked.deadline = request.deadline;
  if (request.process == 0) {
    RONDO_TRY(met.segment,
              ControlSegment::create({request.ranks, request.processes, request.staging_bytes}));
    for (int process = 1; process < request.processes; ++process)
      asked.guests.push_back({process, ""});
  } else {
    asked.hosts.push_back({0, request.leader});
  }
  RONDO_TRY(shm::UnixMeeting came, shm::meet_by_unix(asked));
  if (const std::string missing = came.missing(); !missing.empty())
    return fail(Status::kRemoteError, "processes with GPUs of this host could not meet: {}",
                missing);
  if (request.process != 0) {
    net::Socket& leader = came.hosts[0].socket;
    RONDO_TRY(const shm::FdMessage reply, shm::receive_fds(leader.get(), request.deadline));
    if (reply.fds.size() != 1)
      return fail(Status::kRemoteError, "the leader's process sent no shared memory");
    RONDO_TRY(met.segment,
              ControlSegment::open(reply.fds[0].get(), request.ranks, request.processes));
    met.sockets.push_back(std::move(leader));
    return met;
  }
  met.sockets.emplace_back();
  for (auto& guest : came.guests) {
    const int fd = met.segment->fd();
    RONDO_CHECK_OK(shm::send_fds(guest.socket.get(), 0, {&fd, 1}, request.deadline));
    met.sockets.push_back(std::move(guest.socket));
  }
  return met;
}

}  // namespace rondo::gpu
