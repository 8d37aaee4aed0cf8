// SPDX-License-Identifier: Apache-2.0
// meet_on_hosts(): finds out which ranks share memory. Ranks that cannot share it use TCP.
//
// A rank's record only claims that it can share memory: it names a host and a Unix socket. The
// claim is confirmed when the ranks have connected and passed a memory file. A sandbox (seccomp,
// gVisor), another user, or a clone that looks like the same host can prevent this. Such processes
// are then treated as separate hosts, after as many rounds as needed, and each logs the reason in
// one line. In the same rounds, the ranks find out whether they may read each other's private
// memory (introduction.h); if one may not, one line of its rank says why.
// Guarantees: all ranks see the same hosts at the end, and every rank gets the same error. Cost: an
// exchange among all ranks, and one meeting on each host, per round.
#pragma once

#include <string>
#include <vector>

#include "collectives/communicator/communicator_state.h"
#include "transport/bootstrap/session.h"
#include "transport/shm/unix_socket.h"

namespace rondo {

// Unix socket on which other processes of the host connect to this rank. If listener.name is empty,
// the rank shares no memory; why_not is the reason ("": NCCL_SHM_DISABLE).
struct HostListener {
  shm::UnixListener listener;
  std::string why_not;
};
Result<HostListener> open_host_listener();

struct HostMeetingRequest {
  CommunicatorState& state;  // has the secret; receives hosts and ranks
  bootstrap::Session& session;
  std::vector<InitRecord>& records;  // in: claimed hosts; out: confirmed hosts
  HostListener& host_listener;       // this rank's
  std::uint64_t buffer_bytes;        // asked_buffer_bytes(); 0: not set
  net::Deadline deadline;
};
Status meet_on_hosts(const HostMeetingRequest& request);

}  // namespace rondo
