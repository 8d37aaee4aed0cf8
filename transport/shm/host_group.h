// HostGroup: the ranks of one communicator that share a host, brought together.
//
// meet() is called by one rank of each process with the same list of members. The leader (the first
// member) makes the HostSegment; every other process fetches its descriptor over the leader's Unix
// socket and leaves a pidfd and its arena; ranks of a process share what one of them fetched.
// That they share a host is believed once they have met: where sandboxes or clones of a machine
// keep a process away, no rank fails, and the outcome says who must go another way. Guarantees:
// descriptors go to and come from those who proved the secret; every wait ends with the caller's
// deadline. Cost: a meeting (unix_meeting.h) and some messages a process.
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

// One local rank, as its record at init says.
struct Member {
  int rank = 0;  // in the communicator
  ProcessId process{};
  std::string socket;  // name of its UnixListener
};

// A process of the group as every other one sees it.
struct PeerProcess {
  ProcessId id{};
  std::shared_ptr<Neighbour> neighbour;  // null for this process
};

struct HostGroup {
  std::shared_ptr<HostSegment> segment;
  std::vector<PeerProcess> processes;  // in the order of their first members
  std::vector<int> process_of_member;  // index into processes
};

// What came of a meeting for one process.
struct HostMeeting {
  enum Outcome : std::uint8_t {
    kJoined,
    kAgain,    // others could not come: the rest may meet again
    kRefused,  // this process cannot share memory with these
  };
  Outcome outcome = kJoined;
  std::shared_ptr<HostGroup> group;  // kJoined
  std::string why;                   // else
};

struct HostMeetingRequest {
  std::vector<Member> members;
  int mine = 0;  // indexes members
  const UnixListener* listener = nullptr;
  SegmentShape shape;
  auth::Digest secret{};  // of this meeting alone
  Deadline deadline;
};
// By the first member of each process. Who is not kJoined closes its listener: then nobody waits
// for it. Errors are those that end the job.
Result<HostMeeting> meet_on_host(const HostMeetingRequest& request);
bool is_representative(const std::vector<Member>& members, int mine);

// Why this process can share memory with no other one at all (seccomp); empty: nothing is known to
// stop it.
Result<std::string> obstacle_to_sharing();

// Where the ranks of one process find what one of them has fetched. All take it before the round
// of all ranks after which they read it.
struct GroupSlot {
  std::shared_ptr<HostGroup> group;
};
std::shared_ptr<GroupSlot> group_slot(const auth::Digest& secret_of_meeting);

}  // namespace rondo::shm
