// SPDX-License-Identifier: Apache-2.0
// The kernels of Rondo: one table, for the launcher (gpu_cuda.cc) and for the emulated GPU.
//
// A kernel is a type with `Args` (a plain struct), `kThreads` (maximum threads per CTA), `kCtas`
// (minimum CTAs that a multiprocessor must hold) and `static RONDO_FN void run(const Args&)`.
// entry_of<Kernel>() makes its row: under nvcc the __global__ wrapper for launches, under
// RONDO_SIMT a function that runs one thread. The rows are in the .cu files (kernel_rows.h), which
// nvcc compiles, or a C++ compiler for the emulator; kernels.cc joins them. A kernel's number is
// the index of its row. stored_entry_of<Kernel>() is the same kernel with its Args in device
// memory.
#pragma once

#include <cstddef>
#include <typeinfo>

#include "base/fn.h"
#include "base/types.h"
#include "kernels/cuda/connected_args.h"
#include "kernels/cuda/shared_args.h"

namespace rondo::cuda {

struct KernelEntry {
  const char* name = nullptr;  // nullptr: no such kernel (a float's bitwise operations)
  std::size_t argument_bytes = 0;
  int max_threads = 0;
  const void* function = nullptr;                 // under nvcc: for cudaLaunchKernelExC
  void (*body)(const void* arguments) = nullptr;  // under RONDO_SIMT: runs one thread
  const char* type = nullptr;                     // under RONDO_SIMT: the name from typeid
};

const KernelEntry& kernel_entry(int kernel);  // kernel in [0, kKernels)

// Kernel numbers. The direct kernel exists for every (type, op) that reduce.h supports; signed and
// unsigned integers share one if their results are equal (all operations except min, max and avg).
// Over connections (connected.h) and for LL push there are at most two kernels per type, the same
// for signed and unsigned: sums and averages of floats, and all other operations (any_math.h).
inline constexpr int kCopyKernel = 0;
inline constexpr int kFirstDirectKernel = 1;
// The same with arguments in device memory (shared_args.h), and the kernel that writes them. Per
// type: sums and averages of floats, and all other operations (direct_rows.h).
inline constexpr int kFirstStoredKernel = kFirstDirectKernel + kDataTypes * kRedOps;
inline constexpr int kStoredRows = 3;
inline constexpr int kStoredSum = 0, kStoredAvg = 1, kStoredAny = 2;
inline constexpr int kStoredCopyKernel = kFirstStoredKernel + kDataTypes * kStoredRows;
inline constexpr int kResolveKernel = kStoredCopyKernel + 1;
inline constexpr int kConnectedCopyKernel = kResolveKernel + 1;
inline constexpr int kFirstConnectedKernel = kConnectedCopyKernel + 1;
inline constexpr int kMaths = 2;  // per type: sums, any
inline constexpr int kLLPushCopyKernel = kFirstConnectedKernel + kDataTypes * kMaths;
inline constexpr int kFirstLLPushKernel = kLLPushCopyKernel + 1;
// Over multicast memory (multicast.h), for sm_90 and later: copies; sums of float32, float16,
// bfloat16.
inline constexpr int kFirstMulticastKernel = kFirstLLPushKernel + kDataTypes * kMaths;
inline constexpr int kMulticastKernels = 4;
inline constexpr int kMessagesKernel = kFirstMulticastKernel + kMulticastKernels;
inline constexpr int kCountedMessagesKernel = kMessagesKernel + 1;  // counts in device memory
// Copies between processes through staging (staged_copy.h).
inline constexpr int kStagedCopyKernel = kCountedMessagesKernel + 1;
// Clears memory for lines (clear_lines.h).
inline constexpr int kClearLinesKernel = kStagedCopyKernel + 1;
// Tries P2P between two devices (p2p_probe.h).
inline constexpr int kP2pProbeKernel = kClearLinesKernel + 1;
// Devices meet beside copies of copy engines (direct_copy.cu).
inline constexpr int kMeetingKernel = kP2pProbeKernel + 1;
// Of more than kNarrowRanks ranks: sums and averages of floats. Per type: sums, averages, LL push.
inline constexpr int kFirstWideKernel = kMeetingKernel + 1;
inline constexpr int kWideRows = 3;
inline constexpr int kWideSum = 0, kWideAvg = 1, kWideLLPush = 2;
inline constexpr int kWideLLPushCopyKernel = kFirstWideKernel + kDataTypes * kWideRows;
// Sums along a tree of leaves (fold_leaves.h).
inline constexpr int kFoldLeavesKernel = kWideLLPushCopyKernel + 1;
inline constexpr int kKernels = kFoldLeavesKernel + 1;

constexpr bool depends_on_sign(RedOp op) {
  return op == RedOp::kMin || op == RedOp::kMax || op == RedOp::kAvg;
}
constexpr DataType as_unsigned(DataType type) {
  switch (type) {
    case DataType::kInt8:
      return DataType::kUint8;
    case DataType::kInt16:
      return DataType::kUint16;
    case DataType::kInt32:
      return DataType::kUint32;
    case DataType::kInt64:
      return DataType::kUint64;
    default:
      return type;
  }
}
constexpr int direct_kernel(DataType type, RedOp op) {
  const DataType served = depends_on_sign(op) ? type : as_unsigned(type);
  return kFirstDirectKernel + static_cast<int>(served) * kRedOps + static_cast<int>(op);
}

constexpr int stored_kernel(DataType type, RedOp op) {
  const int row = !has_sum_kernel(type, op) ? kStoredAny
                  : op == RedOp::kSum       ? kStoredSum
                                            : kStoredAvg;
  return kFirstStoredKernel + static_cast<int>(as_unsigned(type)) * kStoredRows + row;
}
constexpr int stored_threads(DataType type, RedOp op) {
  return has_sum_kernel(type, op) ? kDirectThreads : kDirectHeavyThreads;
}
constexpr int row_of_math(DataType type, RedOp op) {
  return static_cast<int>(as_unsigned(type)) * kMaths + (has_sum_kernel(type, op) ? 0 : 1);
}
constexpr int connected_kernel(DataType type, RedOp op) {
  return kFirstConnectedKernel + row_of_math(type, op);
}
constexpr int ll_push_kernel(DataType type, RedOp op) {
  return kFirstLLPushKernel + row_of_math(type, op);
}

// The kernels of more than kNarrowRanks ranks; those of fewer if there is none.
constexpr int wide_kernel(DataType type, int row) {
  return kFirstWideKernel + static_cast<int>(type) * kWideRows + row;
}
constexpr int wide_direct_kernel(DataType type, RedOp op) {
  if (!sums_in_groups(type, op)) return direct_kernel(type, op);
  return wide_kernel(type, op == RedOp::kSum ? kWideSum : kWideAvg);
}
constexpr int wide_ll_push_kernel(DataType type, RedOp op) {
  return has_sum_kernel(type, op) ? wide_kernel(type, kWideLLPush) : ll_push_kernel(type, op);
}

constexpr int multicast_kernel(DataType type) {  // for types that multicast_sums() allows
  return kFirstMulticastKernel + (type == DataType::kFloat32   ? 1
                                  : type == DataType::kFloat16 ? 2
                                                               : 3);
}

#ifdef RONDO_SIMT
template <class Kernel>
void run_kernel_body(const void* arguments) {
  Kernel::run(*static_cast<const typename Kernel::Args*>(arguments));
}
template <class Kernel>
KernelEntry entry_of(const char* name) {
  return {name,    sizeof(typename Kernel::Args), Kernel::kThreads,
          nullptr, run_kernel_body<Kernel>,       typeid(Kernel).name()};
}
template <class Kernel>
void run_stored_body(const void* arguments) {
  typename Kernel::Args copy;
  load_stored(&copy, static_cast<const Stored<typename Kernel::Args>*>(arguments)->at);
  Kernel::run(copy);
}
template <class Kernel>
KernelEntry stored_entry_of(const char* name) {
  return {name,
          sizeof(Stored<typename Kernel::Args>),
          Kernel::kThreads,
          nullptr,
          run_stored_body<Kernel>,
          typeid(Kernel).name()};
}
#elif defined(__CUDACC__)
template <class Kernel>
__global__ void __launch_bounds__(Kernel::kThreads, Kernel::kCtas)
    run_kernel(const __grid_constant__ typename Kernel::Args arguments) {
  Kernel::run(arguments);
}
template <class Kernel>
KernelEntry entry_of(const char* name) {
  return {name, sizeof(typename Kernel::Args), Kernel::kThreads,
          reinterpret_cast<const void*>(&run_kernel<Kernel>), nullptr};
}
// Reads its arguments from device memory, where an earlier kernel wrote them.
template <class Kernel>
__global__ void __launch_bounds__(Kernel::kThreads, Kernel::kCtas)
    run_stored(const __grid_constant__ Stored<typename Kernel::Args> arguments) {
  Kernel::run(*arguments.at);
}
template <class Kernel>
KernelEntry stored_entry_of(const char* name) {
  return {name, sizeof(Stored<typename Kernel::Args>), Kernel::kThreads,
          reinterpret_cast<const void*>(&run_stored<Kernel>), nullptr};
}
#endif

}  // namespace rondo::cuda
