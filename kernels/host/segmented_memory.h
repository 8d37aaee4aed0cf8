// SegmentedMemory: the PeerMemory executor for a group of calls that run as one, always staged.
//
// The text sees one call over one buffer; expose() gathers from the calls' own buffers and what
// arrives is scattered into them. Parts of some size are reduced straight from and into the
// callers' buffers, runs of smaller ones by way of a scratch that stays in the first-level cache.
// No scalar (PreMulSum) and no exposed buffers. Cost: what StagedMemory costs for one call of the
// joint size.
#pragma once

#include "kernels/host/reduce_kernels.h"
#include "kernels/host/segments.h"
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
  void gather(std::byte* to, std::uint64_t at, std::uint64_t count) const;
  void scatter(const std::byte* from, std::uint64_t at, std::uint64_t count) const;
  // Every rank's staged `piece`, from element `done` on; `own` takes this rank's place.
  void combine(int slot, const Piece& piece, std::uint64_t done, std::uint64_t count,
               const std::byte* own, std::byte* const* targets, int target_count) const;

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
