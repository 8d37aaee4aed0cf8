// SPDX-License-Identifier: Apache-2.0
// HostGroup: the ranks of one communicator that share a host, with their shared memory.
//
// One rank of each process calls meet_on_host() with the same list of members. The leader (the
// first member) creates the HostSegment. Every other process connects to the leader's Unix socket,
// sends its pidfd and its arena's descriptor, and receives those of all others and the segment's.
// The other ranks of a process share the result. Processes count as sharing a host once they met:
// if a sandbox or a cloned machine prevents that, no rank fails, and the outcome shows which
// processes must use another transport. Guarantees: descriptors are exchanged only with processes
// that proved the secret; every wait ends at the caller's deadline. Cost: a meeting
// (unix_meeting.h) and a few messages per process.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/process.h"
#include "transport/shm/arena.h"
#include "transport/shm/host_segment.h"
#include "transport/shm/neighbour.h"
#include "transport/shm/unix_meeting.h"

namespace rondo::shm {

// One local rank, from its record at init.
struct Member {
  int rank = 0;  // in the communicator
  ProcessId process{};
  std::string socket;  // name of its UnixListener
};

// A process of the group, seen from another one.
struct PeerProcess {
  ProcessId id{};
  std::shared_ptr<Neighbour> neighbour;  // null for this process
};

struct HostGroup {
  std::shared_ptr<HostSegment> segment;
  std::vector<PeerProcess> processes;  // in the order of their first members
  std::vector<int> process_of_member;  // index into processes
};

// Outcome of a meeting for one process.
struct HostMeeting {
  enum Outcome : std::uint8_t {
    kJoined,
    kAgain,    // a process was missing: the others can try again without it
    kRefused,  // this process cannot share memory with this group
  };
  Outcome outcome = kJoined;
  std::shared_ptr<HostGroup> group;  // kJoined
  std::string why;                   // kAgain, kRefused: the reason
};

struct HostMeetingRequest {
  std::vector<Member> members;
  int mine = 0;  // index into members
  const UnixListener* listener = nullptr;
  SegmentShape shape;
  auth::Digest secret{};  // used for this meeting only
  Deadline deadline;
};
// Called by the first member of each process. A process whose outcome is not kJoined must close
// its listener, so that no process waits for it. An error is fatal for the job.
Result<HostMeeting> meet_on_host(const HostMeetingRequest& request);
bool is_representative(const std::vector<Member>& members, int mine);

// The reason why this process cannot share memory with any other (seccomp, old kernel); empty: no
// obstacle is known.
Result<std::string> obstacle_to_sharing();

// Passes the group from the first member of a process to the process's other ranks. Every rank
// must take the slot before an exchange of all ranks, and read it only after that exchange.
struct GroupSlot {
  std::shared_ptr<HostGroup> group;
};
std::shared_ptr<GroupSlot> group_slot(const auth::Digest& secret_of_meeting);

}  // namespace rondo::shm
