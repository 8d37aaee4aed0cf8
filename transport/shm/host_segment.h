// HostSegment: the one piece of shared memory through which the ranks of a host meet.
//
// One memory file per communicator and host, made by the host's leader, mapped by every process
// that has ranks in it. It holds, per local rank: the words of transport/connection.h, staging
// memory, and room for slots from every other rank. All of it is sparse: a page costs memory only
// once it is used. Guarantees: only offsets and single-writer words inside; a layout version is
// checked on mapping. Cost: about 16 KiB per rank until the first staged call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/fd.h"
#include "base/result.h"
#include "transport/connection.h"
#include "transport/shm/memfd.h"

namespace rondo::shm {

// What every rank of the host must agree on; part of the record exchanged at init.
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
  // Once all have it: closes the descriptor, unless this is one of the process's first kShown
  // communicators alive (fewer where it may open few files). By these `rondo ps` finds them.
  static constexpr int kShown = 64;
  void settle();
  const SegmentShape& shape() const { return shape_; }

  // Local rank `index` as seen here; arena and same_process are left for the caller to fill.
  PeerPort port(int index) const;

  // The connection from local rank `from` to `to`; `peer` is left for the caller to fill. Lanes
  // keep streams apart whose order ranks need not agree on. The sender calls commit_connection
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
