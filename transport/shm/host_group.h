// HostGroup: the ranks of one communicator that share a host, brought together.
//
// meet() is called by every local rank with the same list of members. The leader (the first member)
// makes the HostSegment; one representative of each other process fetches its descriptor over the
// leader's Unix socket and leaves a pidfd and its arena; ranks of a process share what their
// representative fetched. Guarantees: every wait ends with the caller's patience. Cost: two
// messages a process.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/process.h"
#include "transport/shm/arena.h"
#include "transport/shm/fd_passing.h"
#include "transport/shm/host_segment.h"
#include "transport/shm/neighbour.h"

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

  // `mine` indexes members. The caller makes sure (by a round of all ranks) that every
  // representative has returned before others call fetch().
  static Result<std::shared_ptr<HostGroup>> meet(const std::vector<Member>& members, int mine,
                                                 const UnixListener& listener,
                                                 const SegmentShape& shape,
                                                 const Patience& patience);
  // For ranks that are not their process's representative, after the round.
  static Result<std::shared_ptr<HostGroup>> fetch(const std::vector<Member>& members);
  static bool is_representative(const std::vector<Member>& members, int mine);
};

}  // namespace rondo::shm
