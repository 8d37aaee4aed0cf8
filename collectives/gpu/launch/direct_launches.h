// SPDX-License-Identifier: Apache-2.0
// DirectLaunches: runs a collective of all ranks of a device as launches of the direct kernels.
//
// It does not handle stream order or the ranks' threads: device_team.cc does. Requests are
// collected and launched together by flush(), or earlier if there is no more room; until then, no
// part may touch what another part writes. Guarantees: the bits of kernels/reduce.h in rank order;
// no allocation. Cost: one launch for up to 64 copies; one for reductions by one kernel, of one
// kind (to all, to a root, scattered), of up to 64 inputs together, if they do not fill the device.
// If calls meet one by one: one launch for up to 14 calls that copy, and one for reductions of one
// kind and any size, in the order of the requests.
//
//   DirectLaunches launches(max_ctas, stream);
//   RONDO_CHECK_OK(launches.collective(record, buffers));
//   RONDO_CHECK_OK(launches.flush());
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/gpu.h"
#include "base/result.h"
#include "base/types.h"
#include "collectives/context/call.h"
#include "kernels/cuda/direct_args.h"

namespace rondo::gpu {

// One rank's buffers in a collective, in device addresses.
struct Buffers {
  const void* send = nullptr;
  void* receive = nullptr;
  std::uint64_t scalar = 0;  // PreMulSum: the factor's bits, or its device address
  bool late_scalar = false;
  // From the call: start of each rank's window, if the buffer is in a symmetric one.
  const std::vector<std::byte*>* send_windows = nullptr;
  const std::vector<std::byte*>* receive_windows = nullptr;
};
Buffers buffers_of(const Call& call);  // with addresses that the device can use

Result<int> max_direct_ctas(int device);  // that it runs at once

class DirectLaunches {
 public:
  // max_ctas: per launch.
  DirectLaunches(int max_ctas, GpuStream stream);

  // Allows a stream whose device is not current: a launch then makes it current. While is_current
  // is true, the driver is not asked; the launch itself shows it, since CUDA refuses a launch on a
  // stream of another device. (Not in a capture, which a refused launch may end.) Set to false if
  // the device was not current.
  void presume_current(int device, bool* is_current) {
    device_ = device;
    is_current_ = is_current;
  }

  // The driver makes the copies. kHostToDevice: out of pinned memory, by no compute engine
  // (kernels/cuda/copy_rows.h), which is faster only if several processes use the device.
  // Reductions are not possible then.
  void copy_by_driver(GpuCopy kind = GpuCopy::kAny) { by_driver_ = kind; }

  // These launches are this device's part of calls that all devices of a barrier make. Every
  // collective meets by itself, on as many CTAs as if it were launched alone: other devices may
  // launch it alone, or together with other calls.
  void meet(const cuda::DeviceBarrier& barrier) { barrier_ = barrier; }

  // Slices of staging that devices share: one per CTA (kernels/cuda/staged_parts.h).
  struct Slices {
    int ctas;  // maximum of a launch: all that have slices
    std::uint64_t bytes;
    std::uint64_t staging;  // maximum bytes of all blocks of a call
    int devices;
  };
  // The CTAs and threads of a call through staging, and the units of a block that each CTA does.
  struct StagedShape {
    unsigned block;
    std::uint64_t ctas, part;
  };
  // units: of `width` bytes, in each of `blocks` blocks. The result is equal on all devices.
  static StagedShape staged_shape(const Slices& slices, unsigned threads, int blocks,
                                  std::uint64_t units, std::uint64_t width);
  // Elements [begin, begin + count) of each block.
  struct Piece {
    std::uint64_t begin, count;
  };
  // A piece of a reduction by devices that meet one by one, on `buffers` in all ranks' staging.
  // This rank's data in `own`, the buffers of the whole call, is copied in before and out after.
  Status staged_reduction(const CallRecord& record, const Piece& piece,
                          std::span<const Buffers> buffers, const Buffers& own,
                          const Slices& slices);

  Status collective(const CallRecord& record, std::span<const Buffers> buffers);
  Status copy(const void* from, void* to, std::uint64_t bytes);
  Status flush();

  // Kernels whose arguments are in device memory, written by an earlier kernel: ReduceArgs, or
  // CopyArgs of up to `kinds` items of `bytes`.
  Status stored_reduce(const CallRecord& record, const void* arguments, int kinds);
  Status stored_copy(std::uint64_t bytes, const void* arguments, int kinds);

 private:
  // What reductions of one launch have in common.
  struct Kind {
    int kernel = 0;
    unsigned threads = 0;
    int sources = 0, targets = 0;
    bool scattered = false;
    bool operator==(const Kind&) const = default;
    int segments() const { return scattered ? sources : 1; }
  };
  struct Shape {
    unsigned block;
    std::uint64_t ctas;
  };

  Status reduce(const CallRecord& record, std::uint64_t count, std::span<const Buffers> buffers,
                const Slices* slices = nullptr);
  Status copy_all(const CallRecord& record, std::span<const Buffers> buffers);
  bool joins(const Kind& kind, std::uint64_t bytes) const;
  Status flush_reductions();
  Status begin_listed_copy(const CallRecord& record, int ranks);
  void end_listed_copy(const CallRecord& record, int first);
  // Starts at item `first`. Returns the bytes of the longest item.
  std::uint64_t drop_empty_items(int first);
  cuda::ListedCall listed(const CallRecord& record, const Shape& shape, int end_item);
  Status begin_item(const void* from, std::uint64_t bytes);
  Status add_target(void* to);
  // parts: segments, or copies, of up to `bytes` each.
  Shape shape_of(unsigned threads, std::uint64_t bytes, int parts) const;
  std::uint64_t max_ctas() const;
  bool meets() const { return barrier_.devices > 1; }
  Status launch(int kernel, const Shape& shape, const void* arguments, std::size_t size);

  int max_ctas_;
  GpuStream stream_;
  int device_ = -1;             // to make current; -1: it is current
  bool* is_current_ = nullptr;  // null: unknown
  std::optional<GpuCopy> by_driver_;
  cuda::DeviceBarrier barrier_{};
  // 8 KB, not cleared: a launch reads only what its calls have set.
  cuda::CopyArgs copies_;
  cuda::ReduceArgs reductions_;
  Kind kind_;  // of reductions_; longest_: bytes of the longest
  std::uint64_t longest_ = 0;
  Shape widest_{0, 0};  // maximum of the calls that are listed one by one
};

}  // namespace rondo::gpu
