// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/agree/process_meeting.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>

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

int ProcessPeers::first_rank() const {
  return static_cast<int>(std::find(process_of.begin(), process_of.end(), process) -
                          process_of.begin());
}

Result<int> highest_of_all(const ProcessPeers& peers, int own) {
  if (!peers.leads()) {
    const int socket = peers.to_leader().get();
    RONDO_CHECK_OK(shm::send_fds(socket, own, {}, peers.deadline));
    RONDO_TRY(const shm::FdMessage all, shm::receive_fds(socket, peers.deadline));
    return all.value;
  }
  int highest = own;
  for (int p = 1; p < peers.processes(); ++p) {
    RONDO_TRY(const shm::FdMessage one,
              shm::receive_fds(peers.of_process(p).get(), peers.deadline));
    highest = std::max(highest, one.value);
  }
  for (int p = 1; p < peers.processes(); ++p)
    RONDO_CHECK_OK(shm::send_fds(peers.of_process(p).get(), highest, {}, peers.deadline));
  return highest;
}

Result<std::optional<Refusal>> refusal_of_any(const ProcessPeers& peers, const Status& own) {
  peers.note().put(own);
  RONDO_TRY(const int refused, highest_of_all(peers, own.ok() ? 0 : 1));
  if (refused == 0) return std::optional<Refusal>();
  return refusal_noted(*peers.segment);
}

std::optional<Refusal> refusal_noted(const ControlSegment& segment) {
  for (int place = 0; place < segment.ranks(); ++place) {
    const int rank = segment.rank_at(place);
    if (const MemoryNote& note = segment.offer(rank); note.status != 0)
      return Refusal{rank, {static_cast<StatusCode>(note.status), note.text}};
  }
  return std::nullopt;
}

}  // namespace rondo::gpu
