// SPDX-License-Identifier: Apache-2.0
// OrderedCut: how an ordered reduction of GPUs is cut. Pieces fit into a rank's scratch memory. Of
// a piece, a rank combines the sums of its slice; or, where all sums are small, of the whole.
//
// Guarantees: a pure function of what all ranks know, so they cut alike; the engine and the
// simulator use the same. Cost: some tens of operations.
//
//   RONDO_TRY(const OrderedCut cut, OrderedCut::make(record, layout, ranks, room));
//   for (std::uint64_t at = 0; at < record.count; at += cut.piece) ...
#pragma once

#include <cstdint>

#include "base/result.h"
#include "base/types.h"
#include "collectives/planner/device_facts.h"
#include "collectives/planner/leaf_layout.h"

namespace rondo::gpu {

struct OrderedCut {
  static constexpr std::uint64_t kScratchBytes = 16 << 20;  // of a rank
  static constexpr std::uint64_t kAreaBytes = 16;  // areas of scratch memory begin at multiples

  // record: is_ordered(). room: bytes of scratch memory that pieces should fit into; 0: all.
  // kInvalidUsage: the sums of one element do not fit.
  static Result<OrderedCut> make(const CallRecord& record, const LeafLayout& layout, int ranks,
                                 std::uint64_t room);

  struct Piece {
    std::uint64_t at, count;  // elements
  };
  // Elements of a piece: an offset in the piece.
  struct Slice {
    std::uint64_t begin, count;
  };
  std::uint64_t element() const { return size_of(record.type); }
  std::uint64_t sum() const { return size_of(partial); }
  bool has_result(int rank) const { return record.root < 0 || record.root == rank; }
  // Parts of a leaf: one for each rank if they are scattered.
  std::uint64_t parts() const { return scatters ? static_cast<std::uint64_t>(ranks) : 1; }
  // Maximum of a rank's.
  std::uint64_t slice_elements(std::uint64_t piece_elements) const;
  Slice slice_of(const Piece& of, int rank) const;

  CallRecord record;
  const LeafLayout* layout = nullptr;
  int ranks = 1;
  DataType partial = DataType::kFloat32;
  bool scatters = false;
  bool whole = false;       // every rank combines all sums of the call's one piece
  std::uint64_t piece = 0;  // elements of each part of a result

 private:
  std::uint64_t scratch_bytes(std::uint64_t piece_elements) const;
};

// Whether the kernel of this plan, which sums in tree order, is faster than sums by their owners:
// not LL push of long data, which every rank sends to all others. By the simulator, from 128 KiB on
// for 8 GPUs of an NVLink switch (docs/plan/simulate.md); unmeasured.
bool sums_as_plain(const DevicePlan& plan, const CallRecord& plain, int ranks);

}  // namespace rondo::gpu
