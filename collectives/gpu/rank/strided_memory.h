// SPDX-License-Identifier: Apache-2.0
// StridedMemory: the memory of several ranks, mapped a second time at equal distances, so that
// kernels compute a peer's address from its rank (NCCL's device API).
//
// Each rank's allocation must be virtual memory that is mapped in this process, and begins a stride
// (whole 4 GiB) behind that of the rank before. Guarantees: if a step fails, the earlier ones are
// undone; the memory lives as long as this object, whatever its owners do; the destructor frees
// after all work of the communicators of this process. Cost: ranks x stride of addresses, four
// driver calls a rank; no memory.
//
//   RONDO_TRY(auto all, StridedMemory::map(places, device));
//   std::byte* const of_rank_3 = all->base() + 3 * all->stride();
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/gpu.h"
#include "base/result.h"

namespace rondo::gpu {

class StridedMemory {
 public:
  static constexpr std::uint64_t kUnit = 1ull << 32;          // of strides
  static constexpr std::uint64_t kMaxAddresses = 1ull << 47;  // of a process

  struct Place {
    std::byte* begin = nullptr;  // of the allocation, as mapped here
    std::uint64_t bytes = 0;     // of the allocation
  };
  // places: by rank. device: that of the kernels.
  static Result<std::unique_ptr<StridedMemory>> map(const std::vector<Place>& places, int device);
  // Distance of allocations of at most this size; an error if `ranks` of them do not fit.
  static Result<std::uint64_t> stride_for(std::uint64_t bytes, std::size_t ranks);

  ~StridedMemory();
  StridedMemory(const StridedMemory&) = delete;
  StridedMemory& operator=(const StridedMemory&) = delete;

  std::byte* base() const { return base_; }
  std::uint64_t stride() const { return stride_; }

 private:
  StridedMemory(std::uint64_t stride, std::size_t ranks) : stride_(stride), ranks_(ranks) {}
  Status add(const Place& place, int device);

  const std::uint64_t stride_;
  const std::size_t ranks_;
  std::byte* base_ = nullptr;
  std::vector<std::uint64_t> mapped_;  // bytes, by rank
};

}  // namespace rondo::gpu
