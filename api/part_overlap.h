// SPDX-License-Identifier: Apache-2.0
// check_parts_apart(): no part of a receive buffer overlaps another one, or a part that is sent.
//
// A collective with a count per rank has its parts anywhere, so their ranges are compared, not the
// two buffers: parts of one buffer may lie between those of the other. Guarantees: reads addresses
// and counts, no buffer; empty parts overlap nothing. A rank's own part may be at the same place in
// both buffers, because it does not move. Cost: two passes over the parts if the buffers are apart
// and the received parts ascend; else a sort.
//
//   parts.add_sent(0, at, bytes);  parts.add_received(0, to, bytes);
//   RONDO_CHECK_OK(check_parts_apart(parts, "AllToAllv"));
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.h"

namespace rondo::api {

// The memory that one rank's call reads and writes. part: the index in the caller's arrays.
class PartRanges {
 public:
  explicit PartRanges(std::size_t max_parts) { ranges_.reserve(max_parts); }
  void add_sent(int part, const void* at, std::size_t bytes) { add(part, at, bytes, false); }
  void add_received(int part, const void* at, std::size_t bytes) { add(part, at, bytes, true); }

 private:
  friend Status check_parts_apart(PartRanges ranges, const char* function);
  struct Range {
    std::uintptr_t begin, end;
    int part;
    bool received;
  };
  void add(int part, const void* at, std::size_t bytes, bool received);
  bool surely_apart() const;

  std::vector<Range> ranges_;
};

// kInvalidArgument with the two parts: `function` is the name without its prefix.
Status check_parts_apart(PartRanges ranges, const char* function);

}  // namespace rondo::api
