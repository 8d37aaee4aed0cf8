// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/agree/process_meeting.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cassert>
#include <chrono>

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

MemoryExchange::MemoryExchange(ControlSegment& segment, int process, std::vector<int> process_of,
                               std::vector<ProcessSockets> sockets)
    : segment_(segment),
      process_(process),
      process_of_(std::move(process_of)),
      sockets_(std::move(sockets)),
      open_(sockets_.size()) {}

Result<MemoryExchange::Reply> MemoryExchange::ask(int process, const Question& question,
                                                  const MemoryHandle& with,
                                                  const net::Deadline& deadline) {
  assert(process != process_ && static_cast<std::size_t>(process) < sockets_.size());
  std::lock_guard lock(mutex_);
  const auto rank =
      std::find(process_of_.begin(), process_of_.end(), process) - process_of_.begin();
  net::Socket& socket = sockets_[process].own;
  if (!socket)
    return fail(StatusCode::kRemoteError,
                "rank {} did not answer when it was asked for memory to share before", rank);
  MemoryNote& note = segment_.question(process_, process);
  note.kind = question.kind;
  note.what = question.what;
  note.address = question.address;
  note.handle = with.plain;
  const Status sent = send_files(socket.get(), {&with}, deadline);
  auto received = sent.ok() ? receive_handles(socket.get(), {&note.handle}, deadline)
                            : Result<std::vector<MemoryHandle>>(sent.error());
  if (!received.ok()) socket.reset();  // a late answer would be taken for that to the next question
  if (received.code() == StatusCode::kRemoteError)
    return fail(StatusCode::kRemoteError,
                "rank {} ended; its process keeps memory through which ranks on GPUs share data",
                rank);
  if (received.code() == StatusCode::kTimeout)
    return fail(StatusCode::kTimeout,
                "rank {} did not answer when asked for memory to share; is its process stopped?",
                rank);
  RONDO_TRY(std::vector<MemoryHandle> reply, std::move(received));
  if (note.status != 0) return fail(static_cast<StatusCode>(note.status), "{}", note.text);
  return Reply{std::move(reply[0]), note.address};
}

void MemoryExchange::close() {
  for (ProcessSockets& sockets : sockets_) sockets.theirs.reset();
}

void MemoryExchange::serve(int process, const Answer& answer) {
  constexpr auto kBriefly = std::chrono::seconds(5);  // the asker waits for the answer
  const net::Deadline deadline = net::Deadline::of(kBriefly);
  net::Socket& socket = sockets_[process].theirs;
  assert(process != process_ && static_cast<std::size_t>(process) < sockets_.size());
  MemoryNote& note = segment_.question(process, process_);
  std::optional<MemoryHandle>& with = open_[process];
  if (!with) {
    auto question = receive_handles(socket.get(), {&note.handle}, deadline);
    if (!question.ok()) return socket.reset();  // its process left, perhaps without notice
    with = std::move(question->front());
  }
  const auto result = answer(note, *with);
  if (!result) return;
  with.reset();
  note.put(*result);
  const MemoryHandle none;
  const MemoryHandle& given = result->ok() ? **result : none;
  note.handle = given.plain;
  if (!send_files(socket.get(), {&given}, deadline).ok()) socket.reset();
}

}  // namespace rondo::gpu
