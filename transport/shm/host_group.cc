// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/host_group.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>

#include "base/shared_by_key.h"
#include "transport/shm/unix_socket.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

namespace rondo::shm {
namespace {

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

Fd own_pidfd() { return Fd(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0))); }

struct OwnDescriptors {
  Fd pidfd;
  std::shared_ptr<Arena> arena;
};

Result<OwnDescriptors> own_descriptors() {
  OwnDescriptors own;
  own.pidfd = own_pidfd();
  if (!own.pidfd) return fail_errno(errno, "pidfd_open (is ulimit -n too low?)");
  RONDO_TRY(own.arena, Arena::of_process());
  return own;
}

class Meeting {
 public:
  explicit Meeting(const HostMeetingRequest& request)
      : request_(request), group_(std::make_shared<HostGroup>()) {
    const std::vector<ProcessId> ids = processes_of(request.members);
    for (const ProcessId& id : ids) group_->processes.push_back({id, nullptr});
    for (const Member& member : request.members)
      group_->process_of_member.push_back(index_of(ids, member.process));
    own_index_ = group_->process_of_member[request.mine];
  }

  Result<HostMeeting> run() {
    auto joined = own_index_ == 0 ? lead() : follow();
    if (joined.ok() || joined.code() != StatusCode::kRemoteError) return joined;
    return HostMeeting{HostMeeting::kAgain, nullptr, joined.error().text};
  }

 private:
  int count() const { return static_cast<int>(group_->processes.size()); }

  UnixMeetingRequest meeting() const {
    UnixMeetingRequest meeting;
    meeting.secret = request_.secret;
    meeting.self = own_index_;
    meeting.listener = request_.listener;
    meeting.deadline = request_.deadline;
    return meeting;
  }

  HostMeeting joined() {
    group_->segment->settle();
    return {HostMeeting::kJoined, group_, {}};
  }

  // The leader receives from every other process first, then sends every process all the others.
  Result<HostMeeting> lead() {
    RONDO_TRY(group_->segment, HostSegment::create(request_.shape));
    if (count() == 1) return joined();
    UnixMeetingRequest asked = meeting();
    for (int about = 1; about < count(); ++about) {
      const auto first =
          std::find(group_->process_of_member.begin(), group_->process_of_member.end(), about);
      asked.guests.push_back(
          {about, request_.members[first - group_->process_of_member.begin()].socket});
    }
    RONDO_TRY(UnixMeeting came, meet_by_unix(asked));
    if (!came.refused.empty()) return HostMeeting{HostMeeting::kRefused, nullptr, came.refused};
    if (std::string why = came.missing(); !why.empty())
      return HostMeeting{HostMeeting::kAgain, nullptr, std::move(why)};
    RONDO_TRY(OwnDescriptors own, own_descriptors());
    std::vector<std::array<int, 2>> fds{{own.pidfd.get(), own.arena->fd()}};
    std::vector<Fd> arenas;
    arenas.reserve(static_cast<std::size_t>(count()));
    for (int from = 1; from < count(); ++from) {
      RONDO_TRY(FdMessage message,
                receive_fds(came.guests[from - 1].socket.get(), request_.deadline));
      if (message.fds.size() != 2)
        return fail(StatusCode::kRemoteError, "a process of this host sent {} descriptors, not 2",
                    message.fds.size());
      arenas.push_back(Fd::duplicate_of(message.fds[1].get()));
      RONDO_CHECK_OK(keep(from, std::move(message.fds[0]), std::move(message.fds[1])));
      fds.push_back({group_->processes[from].neighbour->pidfd(), arenas.back().get()});
    }
    for (int to = 1; to < count(); ++to)
      RONDO_CHECK_OK(send_to(came.guests[to - 1].socket.get(), to, fds));
    return joined();
  }

  // Sends the segment, then two descriptors of every other process in order. It uses as few
  // messages as possible, because each one can wake the receiver.
  Status send_to(int socket, int to, std::span<const std::array<int, 2>> processes) {
    std::vector<int> fds{group_->segment->fd()};
    for (int about = 0; about < count(); ++about)
      if (about != to) fds.insert(fds.end(), processes[about].begin(), processes[about].end());
    for (std::size_t at = 0; at < fds.size(); at += kMaxDescriptors) {
      const std::size_t some = std::min(kMaxDescriptors, fds.size() - at);
      RONDO_CHECK_OK(send_fds(socket, static_cast<int>(at), std::span(fds).subspan(at, some),
                              request_.deadline));
    }
    return ok_status();
  }

  Result<HostMeeting> follow() {
    UnixMeetingRequest asked = meeting();
    asked.hosts.push_back({0, request_.members[0].socket});
    RONDO_TRY(UnixMeeting came, meet_by_unix(asked));
    if (std::string why = came.missing(); !why.empty())
      return HostMeeting{HostMeeting::kRefused, nullptr, std::move(why)};
    const int leader = came.hosts[0].socket.get();
    RONDO_TRY(OwnDescriptors own, own_descriptors());
    const int fds[2] = {own.pidfd.get(), own.arena->fd()};
    RONDO_CHECK_OK(send_fds(leader, own_index_, fds, request_.deadline));
    RONDO_CHECK_OK(receive_from(leader));
    return joined();
  }

  // Receives what send_to() sends. Uses each descriptor at once, so few are open at the same time.
  Status receive_from(int leader) {
    std::vector<Fd> fds;
    for (int about = 0; about < count();) {
      RONDO_TRY(FdMessage message, receive_fds(leader, request_.deadline));
      if (message.fds.empty())
        return fail(StatusCode::kRemoteError, "the host's leader sent no shared memory");
      std::move(message.fds.begin(), message.fds.end(), std::back_inserter(fds));
      auto next = fds.begin();
      if (group_->segment == nullptr) {
        RONDO_TRY(group_->segment, HostSegment::map(std::move(*next++), request_.shape));
      }
      for (; about < count(); ++about) {
        if (about == own_index_) continue;
        if (fds.end() - next < 2) break;
        RONDO_CHECK_OK(keep(about, std::move(next[0]), std::move(next[1])));
        next += 2;
      }
      fds.erase(fds.begin(), next);
    }
    return ok_status();
  }

  Status keep(int index, Fd pidfd, Fd arena) {
    PeerProcess& process = group_->processes[index];
    RONDO_TRY(process.neighbour, Neighbour::of(process.id, std::move(pidfd), std::move(arena)));
    return ok_status();
  }

  const HostMeetingRequest& request_;
  std::shared_ptr<HostGroup> group_;
  int own_index_ = 0;
};

}  // namespace

bool is_representative(const std::vector<Member>& members, int mine) {
  for (int i = 0; i < mine; ++i)
    if (members[i].process == members[mine].process) return false;
  return true;
}

Result<HostMeeting> meet_on_host(const HostMeetingRequest& request) {
  return Meeting(request).run();
}

Result<std::string> obstacle_to_sharing() {
  if (!own_pidfd()) {
    const int error = errno;
    if (is_shortage(error)) return fail_errno(error, "pidfd_open (is ulimit -n too low?)");
    return fmt::format("pidfd_open: {} (Linux 5.3 or later is needed)", std::strerror(error));
  }
  RONDO_TRY(const auto arena, Arena::of_process());
  return std::string(arena->fd() < 0 ? "memfd_create is not permitted" : "");
}

std::shared_ptr<GroupSlot> group_slot(const auth::Digest& secret_of_meeting) {
  static auto& slots = *new SharedByKey<auth::Digest, GroupSlot>;
  const auto make = []() -> Result<std::shared_ptr<GroupSlot>> {
    return std::make_shared<GroupSlot>();
  };
  return slots.get(secret_of_meeting, make).value();
}

}  // namespace rondo::shm
