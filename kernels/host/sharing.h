// SPDX-License-Identifier: Apache-2.0
// Sharing: how the calls of one communicator share their copies and sums among threads: by Rondo's
// own helpers (helpers.h), by a "parallel for" of the program, or not at all.
//
// Guarantees: run() returns when body has run for every byte once, in contiguous slices whose
// boundaries are multiples of 64 bytes: copies and sums of elements have the same bits as on one
// thread. Used by one thread at a time, like all of a rank's calls. Cost: one comparison for work
// that is not shared.
//
//   rank.sharing.begin_call(moving_ns, false);
//   rank.sharing.run(bytes, [&](std::size_t begin, std::size_t end) { ... });
#pragma once

#include <pthread.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>

#include "kernels/host/helpers.h"
#include "kernels/host/simd/reduce_kernels.h"

namespace rondo::host {

// Runs range(b, e, context) for ranges that cover [begin, end), each of at least `grain` if
// possible, and returns when all have returned. Its result is ignored.
using ParallelFor = int (*)(std::int64_t begin, std::int64_t end, std::int64_t grain,
                            void (*range)(std::int64_t, std::int64_t, void*), void* context);

class Sharing {
 public:
  static constexpr std::size_t kShareFrom = 32 << 10;  // bytes, with helpers that are awake
  static constexpr std::size_t kPoolFrom = 64 << 10;   // with a pool; unmeasured
  static constexpr double kWakeNs = 45'000;            // until helpers that sleep have come
  static constexpr double kOwedNs = 8 * kWakeNs;       // saved by calls that wake nobody: then wake
  static constexpr int kMaxOperands = 64;              // sums of more ranks are not shared

  // When the communicator is made. threads: maximum, the caller included; 1: no helpers.
  void set_helpers(std::shared_ptr<Helpers> helpers, int threads);
  // From now on calls of this thread use the pool, all others one thread. Null: all use one.
  void set_pool(ParallelFor pool);

  int threads() const { return threads_; }
  // moving_ns: predicted time of the call's copies and sums on one thread. beside: the program
  // computes at the same time.
  void begin_call(double moving_ns, bool beside) {
    if (threads_ > 1) choose(moving_ns, beside);
  }

  template <class Body>
  void run(std::size_t bytes, const Body& body) {
    if (bytes < share_from_) return body(std::size_t{0}, bytes);
    share(bytes, {[](const void* self, std::size_t begin, std::size_t end) {
                    (*static_cast<const Body*>(self))(begin, end);
                  },
                  &body});
  }

  // copy_bytes(), shared. The buffers must not overlap, but may be equal.
  void copy(void* to, const void* from, std::size_t bytes, bool stream = false);
  // element: bytes of one.
  void reduce(ReduceFn function, const ReduceArgs& args, std::size_t element);

 private:
  static constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();

  void choose(double moving_ns, bool beside);
  void share(std::size_t bytes, const SliceBody& body);
  void run_in_pool(std::size_t bytes, const SliceBody& body) const;

  std::shared_ptr<Helpers> helpers_;
  int threads_ = 1;
  Helpers::Use use_;
  double owed_ns_ = 0;  // what calls since the last wake-up would have saved
  ParallelFor pool_ = nullptr;
  pthread_t pool_thread_{};
  std::size_t share_from_ = kNever;
};

// The part of a reduction in bytes [begin, end) of each operand.
void reduce_range(ReduceFn function, const ReduceArgs& args, std::size_t element, std::size_t begin,
                  std::size_t end);

}  // namespace rondo::host
