// SegmentView: read-only view of a communicator's shared memory, for a process outside of it.
//
// Guarantees: it writes nothing and neither stops nor slows a rank. The memory stays readable as
// long as the view exists, even if all ranks have ended. Each word is read whole, but several words
// together are not a consistent snapshot.
#pragma once

#include <string>

#include "base/result.h"
#include "transport/connection.h"

namespace rondo::shm {

class SegmentView {
 public:
  // Opens a memory file by path (/proc/PID/fd/N). Fails if its layout is not this build's.
  static Result<SegmentView> open(const std::string& path);
  SegmentView(SegmentView&& other) noexcept;
  SegmentView& operator=(SegmentView&&) = delete;
  ~SegmentView();

  int ranks() const { return ranks_; }
  // Only the words are set; staging, arena and process are not. Must not be written.
  PeerPort port(int index) const;

 private:
  SegmentView(void* data, std::size_t bytes, int ranks)
      : data_(data), bytes_(bytes), ranks_(ranks) {}

  void* data_;
  std::size_t bytes_;
  int ranks_;
};

}  // namespace rondo::shm
