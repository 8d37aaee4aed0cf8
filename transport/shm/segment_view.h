// SegmentView: a communicator's shared memory as somebody outside of it sees it: read only.
//
// Guarantees: nothing is written, no rank is stopped or slowed; the memory stays readable for as
// long as the view lives, whatever becomes of the ranks. What is read is a moment's picture: each
// word is whole, several words need not belong together.
#pragma once

#include <string>

#include "base/result.h"
#include "transport/connection.h"

namespace rondo::shm {

class SegmentView {
 public:
  // A memory file by path, as in /proc/PID/fd. Fails where it is none of this build of Rondo.
  static Result<SegmentView> open(const std::string& path);
  SegmentView(SegmentView&& other) noexcept;
  SegmentView& operator=(SegmentView&&) = delete;
  ~SegmentView();

  int ranks() const { return ranks_; }
  // Only the words: there is no staging, arena or process behind this port. Never to be written.
  PeerPort port(int index) const;

 private:
  SegmentView(void* data, std::size_t bytes, int ranks)
      : data_(data), bytes_(bytes), ranks_(ranks) {}

  void* data_;
  std::size_t bytes_;
  int ranks_;
};

}  // namespace rondo::shm
