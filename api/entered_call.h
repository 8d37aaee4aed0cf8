// SPDX-License-Identifier: Apache-2.0
// EnteredCall: counts one call of the C API. If a profiler is attached, it also reports the call as
// an NVTX range from RONDO_ENTER to the return.
//
// Guarantees: a range is in the domain "NCCL", has the function's name and, for collectives and
// messages, CallFacts as its payload. NVTX looks for a profiler at the first call of the process
// (NVTX_INJECTION64_PATH, which Nsight Systems sets). NCCL_NVTX_DISABLE=1 disables all ranges.
// Cost without a profiler: a load and a branch.
//
//   RONDO_ENTER(GetVersion);
//   RONDO_ENTER(AllReduce, comm, count, datatype, op);
#pragma once

#include <atomic>
#include <cstdint>

#include "api/thread_record.h"

namespace rondo::api {

// Payload of a range. ranges.cc describes the fields to profilers.
struct CallFacts {
  const void* comm = nullptr;
  std::uint64_t count = 0;  // as the caller gave it: elements of `type`
  std::int32_t type = -1;   // ncclDataType_t
  std::int32_t op = -1;     // ncclRedOp_t of a reduction; -1: none
  std::int32_t root = -1;   // or peer; -1: none
};

// True once it is known that ranges are off; false before the first call.
extern std::atomic<bool> ranges_off;
// False if no profiler is attached: end_range() must not be called.
bool begin_range(EntryPoint function, const CallFacts* facts);
void end_range();

class EnteredCall {
 public:
  explicit EnteredCall(EntryPoint function) {
    count_call(function);
    if (!ranges_off.load(std::memory_order_relaxed)) [[unlikely]]
      ranged_ = begin_range(function, nullptr);
  }
  template <class... Facts>
  EnteredCall(EntryPoint function, const void* comm, std::uint64_t count, Facts... facts) {
    count_call(function);
    if (!ranges_off.load(std::memory_order_relaxed)) [[unlikely]] {
      const CallFacts all{comm, count, static_cast<std::int32_t>(facts)...};
      ranged_ = begin_range(function, &all);
    }
  }
  ~EnteredCall() {
    if (ranged_) [[unlikely]]
      end_range();
  }
  EnteredCall(const EnteredCall&) = delete;
  EnteredCall& operator=(const EnteredCall&) = delete;

 private:
  bool ranged_ = false;
};

#define RONDO_ENTER(name, ...)                                                              \
  const rondo::api::EnteredCall entered_call(rondo::api::EntryPoint::k##name __VA_OPT__(, ) \
                                                 __VA_ARGS__)

}  // namespace rondo::api
