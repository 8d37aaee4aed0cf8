// SPDX-License-Identifier: Apache-2.0
// SegmentedMemory: the PeerMemory executor for a group of calls that runs as one call, always
// staged.
//
// The algorithm sees one call over one buffer. expose() gathers from the calls' own buffers;
// received data is scattered into them. Parts of at least 1 KiB are reduced directly from and into
// the callers' buffers; runs of smaller parts use a scratch buffer that stays in the first-level
// cache. No scalar (PreMulSum) and no exposed buffers. Cost: that of StagedMemory for one call of
// the joint size.
#pragma once

#include "kernels/host/segments.h"
#include "kernels/host/simd/reduce_kernels.h"
#include "kernels/host/staging.h"
#include "kernels/primitives.h"

namespace rondo::host {

class SegmentedMemory {
 public:
  SegmentedMemory(HostRank& rank, const HostCall& call);

  int rank() const { return rank_.rank; }
  int size() const { return rank_.size; }
  bool failed() const { return announcer_.failed(); }

  void open(int slot) { staging_.open(announcer_, slot); }
  void expose(int slot, const Piece& piece);
  void publish();
  void wait(int r);
  void reduce(int slot, const Piece& piece, const Delivery& to);
  void copy(int r, int slot, const Piece& piece, std::uint64_t at);
  void copy_result(int r, int slot, const Piece& piece);
  void copy_own(std::uint64_t from, std::uint64_t at, std::uint64_t count);
  void release();

 private:
  void gather(std::byte* to, std::uint64_t at, std::uint64_t count, bool past) const;
  void scatter(const std::byte* from, std::uint64_t at, std::uint64_t count) const;
  // Combines every rank's staged `piece`, from element `done` on; `own` replaces this rank's part.
  // first_past: the first target is stored past the caches.
  void combine(int slot, const Piece& piece, std::uint64_t done, std::uint64_t count,
               const std::byte* own, std::byte* const* targets, int target_count,
               bool first_past) const;

  HostRank& rank_;
  const HostCall& call_;
  const Segments& segments_;
  std::size_t element_;
  Announcer announcer_;
  Staging staging_;
  bool announced_ = false;
};

static_assert(PeerMemory<SegmentedMemory>);

}  // namespace rondo::host
