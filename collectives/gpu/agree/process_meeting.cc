// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/agree/process_meeting.h"

#include <fcntl.h>
#include <sys/socket.h>

#include "transport/shm/unix_socket.h"

namespace rondo::gpu {
namespace {

// Sends the guest the other end of a new socket, and the segment if this is the leader.
Result<net::Socket> welcome(const net::Socket& guest, const ControlSegment* segment,
                            const net::Deadline& deadline) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
    return fail_errno(errno, "socketpair (is ulimit -n too low?)");
  net::Socket own(ends[0]);
  const net::Socket given(ends[1]);
  std::vector<int> fds{given.get()};
  if (segment != nullptr) fds.push_back(segment->fd());
  RONDO_CHECK_OK(shm::send_fds(guest.get(), 0, fds, deadline));
  return own;
}

}  // namespace

Result<ProcessMeeting> meet_processes(const ProcessMeetingRequest& request) {
  ProcessMeeting meeting;
  const int processes = static_cast<int>(request.listeners.size());
  shm::UnixMeetingRequest asked;
  asked.secret = request.secret;
  asked.self = request.process;
  asked.listener = request.listener;
  asked.deadline = request.deadline;
  if (request.process == 0) {
    RONDO_TRY(meeting.segment,
              ControlSegment::create({request.ranks, processes, request.staging_bytes}));
  }
  for (int p = request.process + 1; p < processes; ++p)
    asked.guests.push_back({p, request.listeners[p]});
  for (int p = 0; p < request.process; ++p) asked.hosts.push_back({p, request.listeners[p]});
  RONDO_TRY(shm::UnixMeeting came, shm::meet_by_unix(asked));
  if (const std::string missing = came.missing(); !missing.empty())
    return fail(StatusCode::kRemoteError, "processes with GPUs of this host could not meet: {}",
                missing);
  meeting.sockets.resize(request.listeners.size());
  for (std::size_t i = 0; i < asked.guests.size(); ++i) {
    ProcessSockets& guest = meeting.sockets[asked.guests[i].index];
    guest.theirs = std::move(came.guests[i].socket);
    RONDO_TRY(guest.own, welcome(guest.theirs, meeting.segment.get(), request.deadline));
  }
  for (std::size_t i = 0; i < asked.hosts.size(); ++i) {
    ProcessSockets& host = meeting.sockets[i];
    host.own = std::move(came.hosts[i].socket);
    RONDO_TRY(shm::FdMessage reply, shm::receive_fds(host.own.get(), request.deadline));
    if (reply.fds.size() != (i == 0 ? 2U : 1U))
      return fail(StatusCode::kRemoteError, "process {} of this host sent no sockets for GPUs", i);
    host.theirs = net::Socket(reply.fds[0].release());
    if (i > 0) continue;
    RONDO_TRY(meeting.segment, ControlSegment::open(reply.fds[1].get(), request.ranks, processes));
  }
  return meeting;
}

}  // namespace rondo::gpu
