// Copies of the Simple protocol in bulk (sm_90): one worker moves whole pieces through shared
// memory and leaves the copying to the device; the others only copy what fits no vector.
//
// Guarantees and costs of SimpleMover<CopyMath>, which also serves places that are not aligned;
// besides, kBulkShared bytes of shared memory a group. Unmeasured: RONDO_GPU_BULK asks for it.
#pragma once

#include "kernels/cuda/device_bulk.h"
#include "kernels/cuda/simple_mover.h"

namespace rondo::cuda {

struct BulkMath : CopyMath {
  static RONDO_FN BulkMath of(const CallRecord& /*call*/, int /*ranks*/, Factor /*factor*/) {
    return {};
  }
};

template <>
struct SimpleMover<BulkMath> {
  using T = CopyMath::T;
  const JobOperands& job;
  unsigned worker, workers;
  CopyMath math;

  RONDO_FN void run() const {
    if (!device::kHasBulkCopies || job.misalignment() != 0)
      return SimpleMover<CopyMath>{job, worker, workers, math}.run();
    const std::uint64_t whole = job.count / kUnit * kUnit;
    if (worker == 0 && whole > 0) move(whole);
    for (std::uint64_t at = whole + worker; at < job.count; at += workers) {
      const T value = device::load(reinterpret_cast<const T*>(source() + at));
      for (const std::uint64_t to : {job.to[0], job.to[1], job.keep})
        if (to != 0) device::store(reinterpret_cast<T*>(to + at), value);
    }
  }

 private:
  static constexpr std::uint64_t kUnit = 16;

  RONDO_FN std::uint64_t source() const { return job.from[0] != 0 ? job.from[0] : job.own; }
  static RONDO_FN std::uint32_t stage(std::uint64_t piece) {
    return kConnectedShared + static_cast<std::uint32_t>(piece % kBulkStages) * kBulkPiece;
  }
  static RONDO_FN std::uint32_t barrier(std::uint64_t piece) {
    return kConnectedShared + kBulkStages * kBulkPiece +
           8 * static_cast<std::uint32_t>(piece % kBulkStages);
  }
  static RONDO_FN unsigned bytes_of(std::uint64_t piece, std::uint64_t whole) {
    const std::uint64_t rest = whole - piece * kBulkPiece;
    return static_cast<unsigned>(rest < kBulkPiece ? rest : kBulkPiece);
  }
  RONDO_FN void load(std::uint64_t piece, std::uint64_t whole) const {
    device::bulk_load(stage(piece), reinterpret_cast<const void*>(source() + piece * kBulkPiece),
                      bytes_of(piece, whole), barrier(piece));
  }

  // Pieces are on their way while earlier ones are stored; a stage is filled again once the piece
  // in it has been read.
  RONDO_FN void move(std::uint64_t whole) const {
    const std::uint64_t pieces = (whole + kBulkPiece - 1) / kBulkPiece;
    RONDO_NO_UNROLL
    for (unsigned s = 0; s < kBulkStages; ++s) device::mbarrier_init(barrier(s), 1);
    device::fence_bulk();
    RONDO_NO_UNROLL
    for (std::uint64_t p = 0; p < pieces && p < kBulkStages; ++p) load(p, whole);
    RONDO_NO_UNROLL
    for (std::uint64_t p = 0; p < pieces; ++p) {
      while (!device::mbarrier_over(barrier(p), p / kBulkStages % 2)) device::spin();
      RONDO_NO_UNROLL
      for (unsigned t = 0; t < 3; ++t) {
        const std::uint64_t to = t == 0 ? job.to[0] : t == 1 ? job.to[1] : job.keep;
        if (to != 0)
          device::bulk_store(reinterpret_cast<void*>(to + p * kBulkPiece), stage(p),
                             bytes_of(p, whole));
      }
      device::bulk_commit();
      if (p == 0 || p - 1 + kBulkStages >= pieces) continue;
      device::bulk_wait<1, true>();
      load(p - 1 + kBulkStages, whole);
    }
    device::bulk_wait<0, false>();
    device::fence_bulk();
    RONDO_NO_UNROLL
    for (unsigned s = 0; s < kBulkStages; ++s) device::mbarrier_end(barrier(s));
  }
};

}  // namespace rondo::cuda
