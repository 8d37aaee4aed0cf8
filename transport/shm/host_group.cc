#include "transport/shm/host_group.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <mutex>

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

namespace rondo::shm {
namespace {

// Groups made by a representative and not yet fetched by all ranks of its process.
struct Waiting {
  std::shared_ptr<HostGroup> group;
  int left = 0;
};
std::mutex waiting_mutex;
std::map<std::string, Waiting> waiting;  // by the leader's socket name

std::vector<ProcessId> processes_of(const std::vector<Member>& members) {
  std::vector<ProcessId> list;
  for (const Member& member : members)
    if (std::find(list.begin(), list.end(), member.process) == list.end())
      list.push_back(member.process);
  return list;
}

int index_of(const std::vector<ProcessId>& list, const ProcessId& id) {
  return static_cast<int>(std::find(list.begin(), list.end(), id) - list.begin());
}

struct OwnDescriptors {
  Fd pidfd;
  std::shared_ptr<Arena> arena;
};

Result<OwnDescriptors> own_descriptors() {
  OwnDescriptors own;
  own.pidfd = Fd(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)));
  if (!own.pidfd) return fail_errno(errno, "pidfd_open (Linux 5.3 or later is needed)");
  RONDO_TRY(own.arena, Arena::of_process());
  return own;
}

Done keep(HostGroup& group, int index, FdMessage&& message) {
  if (message.fds.size() != 2)
    return fail(Status::kInternalError, "a process of this host sent {} descriptors, not 2",
                message.fds.size());
  PeerProcess& process = group.processes[index];
  RONDO_TRY(process.neighbour,
            Neighbour::of(process.id, std::move(message.fds[0]), std::move(message.fds[1])));
  return done();
}

// The leader hears from every other process, then tells all about all.
Done lead(HostGroup& group, int own_index, const UnixListener& listener, const Patience& patience) {
  const int count = static_cast<int>(group.processes.size());
  if (count == 1) return done();
  std::vector<Fd> sockets(count);
  std::vector<Fd> arenas(count);
  for (int heard = 1; heard < count; ++heard) {
    RONDO_TRY(Fd socket, accept_unix(listener, patience));
    RONDO_TRY(FdMessage message, receive_fds(socket.get(), patience));
    const int index = message.value;
    if (index < 0 || index >= count || index == own_index || sockets[index] ||
        message.fds.size() != 2)
      return fail(Status::kInternalError, "process {} of {} on this host joined twice", index,
                  count);
    arenas[index] = Fd(dup(message.fds[1].get()));
    RONDO_CHECK_OK(keep(group, index, std::move(message)));
    sockets[index] = std::move(socket);
  }
  RONDO_TRY(OwnDescriptors own, own_descriptors());
  for (int to = 0; to < count; ++to) {
    if (to == own_index) continue;
    const int segment = group.segment->fd();
    RONDO_CHECK_OK(send_fds(sockets[to].get(), own_index, {&segment, 1}, patience));
    for (int about = 0; about < count; ++about) {
      if (about == to) continue;
      const int fds[2] = {
          about == own_index ? own.pidfd.get() : group.processes[about].neighbour->pidfd(),
          about == own_index ? own.arena->fd() : arenas[about].get()};
      RONDO_CHECK_OK(send_fds(sockets[to].get(), about, fds, patience));
    }
  }
  return done();
}

Done follow(HostGroup& group, int own_index, const std::string& leader, const SegmentShape& shape,
            const Patience& patience) {
  RONDO_TRY(Fd socket, connect_unix(leader, patience));
  RONDO_TRY(OwnDescriptors own, own_descriptors());
  const int fds[2] = {own.pidfd.get(), own.arena->fd()};
  RONDO_CHECK_OK(send_fds(socket.get(), own_index, fds, patience));
  RONDO_TRY(FdMessage first, receive_fds(socket.get(), patience));
  if (first.fds.size() != 1)
    return fail(Status::kInternalError, "the host's leader sent no shared memory");
  RONDO_TRY(group.segment, HostSegment::map(std::move(first.fds[0]), shape));
  for (std::size_t k = 1; k < group.processes.size(); ++k) {
    RONDO_TRY(FdMessage message, receive_fds(socket.get(), patience));
    const int about = message.value;
    if (about < 0 || about >= static_cast<int>(group.processes.size()) || about == own_index)
      return fail(Status::kInternalError, "the host's leader spoke of process {}", about);
    RONDO_CHECK_OK(keep(group, about, std::move(message)));
  }
  return done();
}

}  // namespace

bool HostGroup::is_representative(const std::vector<Member>& members, int mine) {
  for (int i = 0; i < mine; ++i)
    if (members[i].process == members[mine].process) return false;
  return true;
}

Result<std::shared_ptr<HostGroup>> HostGroup::meet(const std::vector<Member>& members, int mine,
                                                   const UnixListener& listener,
                                                   const SegmentShape& shape,
                                                   const Patience& patience) {
  auto group = std::make_shared<HostGroup>();
  const std::vector<ProcessId> ids = processes_of(members);
  for (const ProcessId& id : ids) group->processes.push_back({id, nullptr});
  for (const Member& member : members)
    group->process_of_member.push_back(index_of(ids, member.process));
  const int own_index = group->process_of_member[mine];
  if (mine == 0) {
    RONDO_TRY(group->segment, HostSegment::create(shape));
    RONDO_CHECK_OK(lead(*group, own_index, listener, patience));
  } else {
    RONDO_CHECK_OK(follow(*group, own_index, members[0].socket, shape, patience));
  }
  group->segment->settle();
  const auto own =
      std::count(group->process_of_member.begin(), group->process_of_member.end(), own_index);
  if (own > 1) {
    std::lock_guard lock(waiting_mutex);
    waiting[members[0].socket] = {group, static_cast<int>(own) - 1};
  }
  return group;
}

Result<std::shared_ptr<HostGroup>> HostGroup::fetch(const std::vector<Member>& members) {
  std::lock_guard lock(waiting_mutex);
  auto it = waiting.find(members[0].socket);
  if (it == waiting.end())
    return fail(Status::kInternalError, "this process's representative left no shared memory");
  auto group = it->second.group;
  if (--it->second.left == 0) waiting.erase(it);
  return group;
}

}  // namespace rondo::shm
