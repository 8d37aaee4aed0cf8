// SPDX-License-Identifier: Apache-2.0
// Segments: the calls of a group that runs as one, seen as parts of one call over longer buffers.
//
// Every block of the joint call contains the calls one after another. (A block is what a rank
// contributes or receives; an all-reduce has one.) Element x of block b belongs to the segment that
// covers x, and is in block b of that call's own buffer. Nothing is owned or copied. Cost: one
// binary search per part of a verb.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <span>

namespace rondo::host {

struct Segment {
  const std::byte* input;
  std::byte* output;
  std::uint64_t begin;  // position in a block of the joint call
  std::uint64_t count;  // elements; never 0
};

class Segments {
 public:
  Segments(std::span<const Segment> list, std::size_t element)
      : list_(list), element_(element), total_(list.back().begin + list.back().count) {
    assert(list.front().begin == 0 && total_ > 0 && element > 0);
  }

  std::span<const Segment> list() const { return list_; }
  std::uint64_t total() const { return total_; }  // elements of a block

  // The elements of one segment from `at` on, at most `count`.
  struct Part {
    const Segment* segment;
    std::uint64_t offset;  // position in the segment's own block
    std::uint64_t block;
    std::uint64_t count;
  };
  Part part(std::uint64_t at, std::uint64_t count) const {
    const std::uint64_t block = at / total_, x = at % total_;
    const auto after = std::upper_bound(
        list_.begin(), list_.end(), x,
        [](std::uint64_t position, const Segment& segment) { return position < segment.begin; });
    assert(after != list_.begin());
    const Segment& found = *(after - 1);
    const std::uint64_t offset = x - found.begin;
    return {&found, offset, block, std::min(count, found.count - offset)};
  }
  const std::byte* input(const Part& part) const {
    return part.segment->input + (part.block * part.segment->count + part.offset) * element_;
  }
  std::byte* output(const Part& part) const {
    return part.segment->output + (part.block * part.segment->count + part.offset) * element_;
  }

  // Calls visit(part, bytes before it) for all parts of [at, at + count), which must be in one
  // block.
  template <class Visit>
  void for_each(std::uint64_t at, std::uint64_t count, Visit&& visit) const {
    if (count == 0) return;
    assert(at % total_ + count <= total_ && "in one block");
    Part now = part(at, count);
    for (std::uint64_t done = 0;;) {
      visit(now, done * element_);
      done += now.count;
      if (done == count) return;
      const Segment* next = now.segment + 1;
      now = {next, 0, now.block, std::min(count - done, next->count)};
    }
  }

 private:
  std::span<const Segment> list_;
  std::size_t element_;
  std::uint64_t total_;
};

}  // namespace rondo::host
