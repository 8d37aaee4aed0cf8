#include "collectives/gpu/process_meeting.h"

namespace rondo::gpu {

Result<ProcessMeeting> meet_processes(const ProcessMeetingRequest& request) {
  ProcessMeeting met;
  if (request.party != 0) {
    RONDO_TRY(Fd socket, shm::connect_unix(request.leader, request.patience));
    RONDO_CHECK_OK(shm::send_fds(socket.get(), request.party, {}, request.patience));
    RONDO_TRY(const shm::FdMessage reply, shm::receive_fds(socket.get(), request.patience));
    if (reply.fds.size() != 1)
      return fail(Status::kInternalError, "the leader's process sent no shared memory");
    RONDO_TRY(met.board, ProcessBoard::open(reply.fds[0].get(), request.ranks, request.parties));
    met.sockets.push_back(std::move(socket));
    return met;
  }
  RONDO_TRY(met.board,
            ProcessBoard::create({request.ranks, request.parties, request.staging_bytes}));
  met.sockets.resize(static_cast<std::size_t>(request.parties));
  for (int heard = 1; heard < request.parties; ++heard) {
    RONDO_TRY(Fd socket, shm::accept_unix(*request.listener, request.patience));
    RONDO_TRY(const shm::FdMessage hello, shm::receive_fds(socket.get(), request.patience));
    if (hello.value < 1 || hello.value >= request.parties ||
        met.sockets[static_cast<std::size_t>(hello.value)])
      return fail(Status::kInternalError, "process {} of {} on GPUs of this host joined twice",
                  hello.value, request.parties);
    const int fd = met.board->fd();
    RONDO_CHECK_OK(shm::send_fds(socket.get(), 0, {&fd, 1}, request.patience));
    met.sockets[static_cast<std::size_t>(hello.value)] = std::move(socket);
  }
  return met;
}

}  // namespace rondo::gpu
