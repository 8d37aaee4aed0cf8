// DirectLaunches: a collective of all ranks of a device as launches of the direct kernels.
//
// Knows nothing of streams' order or of ranks' threads: device_team.cc sees to those. What is asked
// for is collected and launched together by flush(), or before, where there is no more room; so
// until then nothing may touch what another part of it writes. Guarantees: the bits of
// kernels/reduce.h in rank order; nothing is allocated. Cost: one launch for up to 64 copies, and
// one for reductions by one kernel, of one kind (to all, to a root, scattered), of up to 64 inputs
// together, which do not fill the device. Where calls meet one by one: one for up to 14 calls that
// copy, and one for reductions alike of any size, in the order in which they are asked for.
//
//   DirectLaunches launches(api, max_ctas, stream);
//   RONDO_CHECK_OK(launches.collective(record, buffers));
//   RONDO_CHECK_OK(launches.flush());
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/gpu.h"
#include "base/result.h"
#include "base/types.h"
#include "collectives/call.h"
#include "kernels/cuda/direct_args.h"

namespace rondo::gpu {

// One rank's buffers in a collective, in device addresses.
struct Buffers {
  const void* send = nullptr;
  void* receive = nullptr;
  std::uint64_t scalar = 0;  // PreMulSum: the factor's bits, or its device address
  bool late_scalar = false;
  // Call's: where each rank's window begins, if the buffer is in a symmetric one.
  const std::vector<std::byte*>* send_windows = nullptr;
  const std::vector<std::byte*>* receive_windows = nullptr;
};
Buffers buffers_of(const Call& call);  // with addresses that the device can use

class DirectLaunches {
 public:
  // max_ctas: that a launch may use.
  DirectLaunches(const GpuApi& api, int max_ctas, GpuStream stream);

  // The device of the stream may not be current: then it is made so for a launch. Where is_current,
  // nobody asks the driver for that, but the launch itself shows it: CUDA refuses one on a stream
  // of another device. (Not in a capture, which a refused launch may end.) Unset where it was not
  // so.
  void presume_current(int device, bool* is_current) {
    device_ = device;
    is_current_ = is_current;
  }

  // Copies go by the driver, which stages them where devices do not reach each other's memory;
  // nothing can be reduced then.
  void copy_by_driver() { by_driver_ = true; }

  // These launches are this device's part of what all devices of a barrier launch alike. A launch
  // meets, and tells of itself, as its first call would.
  void meet(const cuda::DeviceBarrier& barrier) { barrier_ = barrier; }
  // The same, but every collective meets by itself, on as many CTAs as if it were launched alone:
  // others may launch it so, or beside other ones.
  void meet_one_by_one(const cuda::DeviceBarrier& barrier) {
    barrier_ = barrier;
    one_by_one_ = true;
  }

  // Of staging that devices share, each CTA has a slice (kernels/cuda/staged_parts.h).
  struct Slices {
    int ctas;  // that a launch has at most: all those that there are slices for
    std::uint64_t bytes;
    std::uint64_t staging;  // bytes of all blocks of a call for which slices suffice
  };
  // The CTAs and threads of a call through staging, and the units of a block that each CTA does.
  struct StagedShape {
    unsigned block;
    std::uint64_t ctas, part;
  };
  // units of `width` bytes in each of `blocks` blocks. The same on all devices.
  static StagedShape staged_shape(const Slices& slices, unsigned threads, int blocks,
                                  std::uint64_t units, std::uint64_t width);
  // A reduction by devices that meet one by one, on `buffers` in all ranks' staging. What this rank
  // has in `own` is brought in before, and taken out after.
  Status staged_reduction(const CallRecord& record, std::span<const Buffers> buffers,
                          const Buffers& own, const Slices& slices);

  // Of a collective, only the copies of what these ranks send: bit r for rank r.
  void only_from(std::uint64_t senders) { senders_ = senders; }

  Status collective(const CallRecord& record, std::span<const Buffers> buffers);
  Status copy(const void* from, void* to, std::uint64_t bytes);
  Status flush();
  // What is there, divided by the number of ranks as averages are: record.count elements. At once.
  Status divide(const CallRecord& record, void* at, int ranks);

  // Kernels whose arguments lie in device memory, written by a kernel before: ReduceArgs, or
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

  Status reduce(const CallRecord& record, std::span<const Buffers> buffers,
                const Slices* slices = nullptr);
  Status copy_all(const CallRecord& record, std::span<const Buffers> buffers);
  bool joins(const Kind& kind, std::uint64_t bytes) const;
  Status flush_reductions();
  Status begin_listed_copy(const CallRecord& record, int ranks);
  void end_listed_copy(const CallRecord& record, int first);
  // From the first of these items on; the bytes of the longest.
  std::uint64_t drop_empty_items(int first);
  cuda::ListedCall listed(const CallRecord& record, const Shape& shape, int end_item);
  Status begin_item(const void* from, std::uint64_t bytes);
  Status add_target(void* to);
  // parts: segments, or copies, of up to `bytes` each.
  Shape shape_of(unsigned threads, std::uint64_t bytes, int parts) const;
  std::uint64_t max_ctas() const;
  Status launch(int kernel, const Shape& shape, const void* arguments, std::size_t size);

  const GpuApi& api_;
  int max_ctas_;
  GpuStream stream_;
  int device_ = -1;             // to make current; -1: it is
  bool* is_current_ = nullptr;  // null: not known
  bool by_driver_ = false;
  cuda::DeviceBarrier barrier_{};
  std::uint64_t senders_ = ~std::uint64_t{0};
  cuda::CopyArgs copies_{};
  cuda::ReduceArgs reductions_{};
  Kind kind_;  // of these; longest_: bytes of the longest
  std::uint64_t longest_ = 0;
  bool one_by_one_ = false;
  Shape widest_{0, 0};  // of what is listed one by one
};

}  // namespace rondo::gpu
