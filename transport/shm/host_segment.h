// HostSegment: the shared memory through which the ranks of one host communicate.
//
// One memory file per communicator and host. The host's leader creates it; every process that has
// ranks in it maps it. For each local rank it holds the words of transport/connection.h, staging
// memory, and room for slots from every other rank. It is sparse: a page costs memory only once it
// is used. Guarantees: it contains only offsets and single-writer words; mapping checks a layout
// version. Cost: about 16 KiB per rank until the first staged call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/fd.h"
#include "base/result.h"
#include "transport/connection.h"
#include "transport/shm/memfd.h"

namespace rondo::shm {

// Must be equal on every rank of the host; part of the record exchanged at init.
struct SegmentShape {
  int ranks = 0;                  // local ranks
  std::size_t staging_bytes = 0;  // per rank; multiple of kStagingSlots pages
  std::size_t slot_bytes = 0;     // one slot of a connection
  std::size_t slot_count = 0;     // slots of a connection
};

class HostSegment {
 public:
  static Result<std::shared_ptr<HostSegment>> create(const SegmentShape& shape);
  static Result<std::shared_ptr<HostSegment>> map(Fd fd, const SegmentShape& shape);

  ~HostSegment();

  int fd() const { return fd_.get(); }
  // Called once all processes have the segment. Closes the descriptor, unless fewer than kShown
  // segments of this process are open (at most an eighth of ulimit -n). `rondo ps` finds
  // communicators by these open descriptors.
  static constexpr int kShown = 64;
  void settle();
  const SegmentShape& shape() const { return shape_; }

  // Local rank `index` in this process's mapping; the caller fills in arena and same_process.
  PeerPort port(int index) const;

  // The connection from local rank `from` to `to`; the caller fills in `peer`. Lanes separate
  // streams whose relative order can differ between ranks. The sender must call commit_connection
  // before its first use: it makes the memory present and returns the number of bytes.
  static constexpr int kLanes = 4;
  Connection connection(int from, int to, int lane) const;
  Result<std::size_t> commit_connection(int from, int to, int lane) const;

 private:
  HostSegment(Fd fd, Mapping mapping, const SegmentShape& shape);

  Fd fd_;
  Mapping mapping_;
  SegmentShape shape_;
  bool shown_ = false;
};

}  // namespace rondo::shm
