// SPDX-License-Identifier: Apache-2.0
// Workers of the Simple protocol: plain data between slots and the caller's buffers.
//
// Guarantees: any alignment and count. Bytes are moved 16 at a time if all addresses of a job are
// multiples of 16, else 4 or one element at a time. Cost: every operand is read once and every
// target written once; kernels/cuda/shapes.h defines the number of independent loads in flight per
// thread.
#pragma once

#include "kernels/cuda/cta_memory.h"
#include "kernels/cuda/job_math.h"

namespace rondo::cuda {

// A job's addresses, in registers of a worker.
struct JobOperands {
  std::uint64_t from[2], own, to[2], keep;
  std::uint64_t count;
  std::uint32_t how;
  std::uint32_t at;  // position of the job in shared memory

  static RONDO_FN JobOperands read(std::uint32_t job) {
    return {{read_word(job + kFrom), read_word(job + kFrom + 1)},
            read_word(job + kOwn),
            {read_word(job + kTo), read_word(job + kTo + 1)},
            read_word(job + kKeep),
            read_word(job + kCount),
            static_cast<std::uint32_t>(read_word(job + kHow)),
            job};
  }
  // The bits below 16 in which any address differs from a multiple of 16.
  RONDO_FN unsigned misalignment() const {
    return static_cast<unsigned>(from[0] | from[1] | own | to[0] | to[1] | keep) % 16;
  }
};

template <class Math>
struct SimpleMover {
  using T = typename Math::T;
  const JobOperands& job;
  unsigned worker, workers;
  Math math;

  RONDO_FN void run() const {
    if constexpr (Math::kReduces) {
      if ((job.how & kReduces) != 0) return reduce();
    }
    copy();
  }

 private:
  template <class Unit>
  static RONDO_FN void store_at(std::uint64_t base, std::uint64_t unit, Unit value) {
    if (base != 0) device::store_once(reinterpret_cast<Unit*>(base) + unit, value);
  }
  template <class Unit>
  RONDO_FN void deliver(std::uint64_t unit, Unit value) const {
    store_at(job.to[0], unit, value);
    store_at(job.to[1], unit, value);
    store_at(job.keep, unit, value);
  }

  // Calls body<unroll>(first) for units [begin, end), `unroll` rows of a warp at a time as long as
  // possible.
  template <int unroll, class Body>
  RONDO_FN void for_rows(std::uint64_t begin, std::uint64_t end, Body&& body) const {
    constexpr std::uint64_t kAtOnce = unroll == 1 ? 1 : unroll * device::kWarp;
    const std::uint64_t whole = begin + (end - begin) / kAtOnce * kAtOnce;
    std::uint64_t u = begin + unroll * worker - (unroll - 1) * device::lane_index();
    RONDO_NO_UNROLL
    for (; u < whole; u += unroll * workers) body.template operator()<unroll>(u);
    if constexpr (unroll > 1) {
      RONDO_NO_UNROLL
      for (u = whole + worker; u < end; u += workers) body.template operator()<1>(u);
    }
  }

  RONDO_FN void copy() const {
    const std::uint64_t source = job.from[0] != 0 ? job.from[0] : job.own;
    const std::uint64_t bytes = job.count * sizeof(T);
    const unsigned misaligned = job.misalignment();
    if (misaligned == 0) {
      const std::uint64_t vectors = bytes / sizeof(device::Vector);
      copy_units<device::Vector, shapes::kCopyRows>(source, 0, vectors);
      copy_units<std::uint8_t, 1>(source, vectors * sizeof(device::Vector), bytes);
    } else if (misaligned % 4 == 0) {
      copy_units<std::uint32_t, 4>(source, 0, bytes / 4);
      copy_units<std::uint8_t, 1>(source, bytes / 4 * 4, bytes);
    } else {
      copy_units<std::uint8_t, 4>(source, 0, bytes);
    }
  }
  template <class Unit, int unroll>
  RONDO_FN void copy_units(std::uint64_t source, std::uint64_t begin, std::uint64_t end) const {
    for_rows<unroll>(begin, end, [&]<int rows>(std::uint64_t u) {
      const Unit* const from = reinterpret_cast<const Unit*>(source) + u;
      Unit loaded[rows];
      RONDO_UNROLL
      for (int r = 0; r < rows; ++r) loaded[r] = device::load_once(from + r * device::kWarp);
      RONDO_UNROLL
      for (int r = 0; r < rows; ++r) deliver(u + r * device::kWarp, loaded[r]);
    });
  }

  RONDO_FN void reduce() const {
    if (job.from[0] == 0) {
      reduce_all<1, Math::kRows>({job.own});
    } else if (job.from[1] == 0) {
      reduce_all<2, Math::kRows>({job.from[0], job.own});
    } else {
      reduce_all<3, (Math::kRows + 1) / 2>({job.from[0], job.own, job.from[1]});
    }
  }
  template <int sources>
  struct Sources {
    std::uint64_t base[sources];
  };
  template <int sources, int unroll>
  RONDO_FN void reduce_all(Sources<sources> from) const {
    constexpr std::uint64_t kPerVector = sizeof(device::Vector) / sizeof(T);
    const std::uint64_t vectors = job.misalignment() == 0 ? job.count / kPerVector : 0;
    reduce_units<device::Vector, sources, unroll>(from, 0, vectors);
    reduce_units<T, sources, 1>(from, vectors * kPerVector, job.count);
  }
  template <int sources>
  RONDO_FN device::Vector combined(const device::Vector (&operand)[sources], bool last) const {
    return math.template combine_vectors<sources>(operand, last);
  }
  template <int sources>
  RONDO_FN T combined(const T (&operand)[sources], bool last) const {
    return math.template combine_elements<sources>(operand, last);
  }
  template <class Unit, int sources, int unroll>
  RONDO_FN void reduce_units(const Sources<sources>& from, std::uint64_t begin,
                             std::uint64_t end) const {
    const bool last = (job.how & kFinishes) != 0;
    for_rows<unroll>(begin, end, [&]<int rows>(std::uint64_t u) {
      Unit loaded[rows][sources];
      RONDO_UNROLL
      for (int r = 0; r < rows; ++r) {
        RONDO_UNROLL
        for (int s = 0; s < sources; ++s)
          loaded[r][s] = device::load_once(reinterpret_cast<const Unit*>(from.base[s]) + u +
                                           r * device::kWarp);
      }
      RONDO_UNROLL
      for (int r = 0; r < rows; ++r)
        deliver(u + r * device::kWarp, combined<sources>(loaded[r], last));
    });
  }
};

}  // namespace rondo::cuda
