// Who shares memory: the ranks of a host meet, and those who cannot go by TCP.
//
// That a rank may share memory with others is what its record claims: the same host, a Unix socket.
// Ranks believe it once they have met and passed a memory file. Where a sandbox (seccomp, gVisor),
// another user, or a clone that only looks like the same host keeps some apart, these become hosts
// of their own, by as many rounds as that takes, and each process that was kept apart says why in
// one line of the log. Guarantees: all ranks see the same hosts at the end; errors are those that
// every rank gets. Cost: a round of all ranks, a meeting on each host.
#pragma once

#include <string>
#include <vector>

#include "collectives/communicator/communicator_state.h"
#include "transport/bootstrap/session.h"
#include "transport/shm/unix_socket.h"

namespace rondo {

// Where processes of the host come to this rank; without a name: none shall, for this reason.
struct HostListener {
  shm::UnixListener listener;
  std::string why_not;
};
Result<HostListener> open_host_listener();

struct HostMeetingRequest {
  CommunicatorState& state;  // knows its secret; gets what it says of hosts and ranks
  bootstrap::Session& session;
  std::vector<InitRecord>& records;  // their hosts, then as they are in truth
  HostListener& host_listener;       // of this rank
  std::uint64_t buffer_bytes;        // NCCL_BUFFSIZE of all; 0: not set
  net::Deadline deadline;
};
Status meet_on_hosts(const HostMeetingRequest& request);

}  // namespace rondo
