// The kernels of Rondo: one table, for the launcher (gpu_cuda.cc) and for the emulated GPU.
//
// A kernel is a type: `Args` (a plain struct), `kThreads` (most threads a CTA), `kCtas` (that a
// multiprocessor shall hold at least) and
// `static RONDO_FN void run(const Args&)`. entry_of<Kernel>() makes its row: under nvcc the
// __global__ wrapper that a launch names, under RONDO_SIMT a function that runs one thread. Tables
// of rows stand in the .cu files (kernel_rows.h), which are compiled by nvcc or, as C++, for the
// emulator; kernels.cc strings them together. Rows are numbered: a kernel's number is its place.
// stored_entry_of<Kernel>() is the same kernel with its Args in device memory.
#pragma once

#include <cstddef>
#include <typeinfo>

#include "base/fn.h"
#include "base/types.h"
#include "kernels/cuda/connected_args.h"
#include "kernels/cuda/shared_args.h"

namespace rondo::cuda {

struct KernelEntry {
  const char* name = nullptr;  // nullptr: there is no such kernel (a float's bitwise operations)
  std::size_t argument_bytes = 0;
  int max_threads = 0;
  const void* function = nullptr;                 // under nvcc: for cudaLaunchKernelExC
  void (*body)(const void* arguments) = nullptr;  // under RONDO_SIMT: one thread of it
  const char* type = nullptr;                     // under RONDO_SIMT: as typeid names it
};

const KernelEntry& kernel_entry(int kernel);  // kernel in [0, kKernels)

// Numbers. The direct kernel exists for every (type, op) that reduce.h supports; signed and
// unsigned integers share one where their bits are equal: all operations but min, max and avg. Of
// those over connections (connected.h) and by LL push there are at most two a type, signed and
// unsigned alike: for sums and averages of floats, and for all other operations (any_math.h).
inline constexpr int kCopyKernel = 0;
inline constexpr int kFirstDirectKernel = 1;
// The same with arguments in device memory (shared_args.h), and what writes them.
inline constexpr int kFirstStoredKernel = kFirstDirectKernel + kDataTypes * kRedOps;
inline constexpr int kStoredCopyKernel = kFirstStoredKernel + kDataTypes * kRedOps;
inline constexpr int kResolveKernel = kStoredCopyKernel + 1;
inline constexpr int kConnectedCopyKernel = kResolveKernel + 1;
inline constexpr int kFirstConnectedKernel = kConnectedCopyKernel + 1;
inline constexpr int kMaths = 2;  // of a type: sums, any
inline constexpr int kLLPushCopyKernel = kFirstConnectedKernel + kDataTypes * kMaths;
inline constexpr int kFirstLLPushKernel = kLLPushCopyKernel + 1;
// Copies over connections in bulk (bulk_mover.h), for sm_90 and up.
inline constexpr int kConnectedBulkKernel = kFirstLLPushKernel + kDataTypes * kMaths;
// Over multicast memory (multicast.h), for sm_90 and up: copies; sums of float32, float16,
// bfloat16.
inline constexpr int kFirstMulticastKernel = kConnectedBulkKernel + 1;
inline constexpr int kMulticastKernels = 4;
inline constexpr int kMessagesKernel = kFirstMulticastKernel + kMulticastKernels;
// Whether processes work in place (agree.h).
inline constexpr int kAgreeKernel = kMessagesKernel + 1;
// Copies between processes through staging (staged_copy.h).
inline constexpr int kStagedCopyKernel = kAgreeKernel + 1;
inline constexpr int kKernels = kStagedCopyKernel + 1;

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
  return direct_kernel(type, op) - kFirstDirectKernel + kFirstStoredKernel;
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

constexpr int multicast_kernel(DataType type) {  // that multicast_sums() allows
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
// Reads its arguments where they lie: they were written by a kernel before.
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
