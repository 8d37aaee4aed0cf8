// SPDX-License-Identifier: Apache-2.0
#include "collectives/faults/standstill.h"

#include <signal.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <string>

#include "collectives/faults/peer_words.h"
#include "topology/cpu_budget.h"
#include "topology/small_file.h"

namespace rondo {
namespace {

bool is_frozen(const std::string& process) {
  for (const topology::CgroupFolder& folder : topology::cgroup_folders("freezer", process)) {
    const auto state = topology::read_small_file(
        folder.path + (folder.v2 ? "/cgroup.events" : "/freezer.state"), 4096);
    if (state && state->find(folder.v2 ? "frozen 1" : "FROZEN") != std::string::npos) return true;
  }
  return false;
}

}  // namespace

int pid_of(int pidfd) {
  const auto info = topology::read_small_file("/proc/self/fdinfo/" + std::to_string(pidfd), 4096);
  const auto at = info ? info->find("\nPid:") : std::string::npos;
  const int pid = at == std::string::npos ? 0 : std::atoi(info->c_str() + at + 5);
  return pid > 0 ? pid : 0;
}

namespace {

// The letter of /proc/PID/stat; '\0': unknown.
char state_of(int pid) {
  const auto stat = topology::read_small_file(fmt::format("/proc/{}/stat", pid), 4096);
  const auto name = stat ? stat->rfind(')') : std::string::npos;
  return name == std::string::npos || name + 2 >= stat->size() ? '\0' : (*stat)[name + 2];
}

}  // namespace

bool is_standing_still(int pid) {
  if (pid <= 0) return false;
  const char state = state_of(pid);
  return state != '\0' && (state == 'T' || state == 't' || is_frozen(std::to_string(pid)));
}

bool has_ended(int pid) {
  if (kill(pid, 0) != 0 && errno == ESRCH) return true;
  const char state = state_of(pid);
  return state == 'Z' || state == 'X';
}

std::uint32_t pid_namespace() {
  struct stat info {};
  return stat("/proc/self/ns/pid", &info) == 0 ? static_cast<std::uint32_t>(info.st_ino) : 0;
}

RankReport::Condition condition_of(const Membership& members, const host::HostRank& host,
                                   int local) {
  if (!members.group) return RankReport::kRunning;
  const shm::PeerProcess& process = members.process_of(local);
  if (has_ended(process)) return RankReport::kEnded;
  if (host.peers[local].same_process || !process.neighbour) return RankReport::kRunning;
  return is_standing_still(pid_of(process.neighbour->pidfd())) ? RankReport::kStopped
                                                               : RankReport::kRunning;
}

}  // namespace rondo
