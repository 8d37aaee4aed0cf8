// EnteredCall: the stay of one call inside the library, from RONDO_ENTER to its return. It is
// counted, and shown to a profiler as a range of NVTX where one is attached.
//
// Guarantees: ranges lie in the domain "NCCL", are named as the function, and hold CallFacts as
// their payload where the function has them (collectives and messages). A profiler is attached that
// NVTX finds at the first call of the process (NVTX_INJECTION64_PATH, as Nsight Systems sets it);
// NCCL_NVTX_DISABLE=1 shuts all ranges off. Cost without one: a load and a branch.
//
//   RONDO_ENTER(GetVersion);
//   RONDO_ENTER(AllReduce, comm, count, datatype, op);
#pragma once

#include <atomic>
#include <cstdint>

#include "api/thread_words.h"

namespace rondo::api {

// What a range says of its call. Read by profilers: ranges.cc describes every field to them.
struct CallFacts {
  const void* comm = nullptr;
  std::uint64_t count = 0;  // as the caller gave it: elements of `type`
  std::int32_t type = -1;   // ncclDataType_t
  std::int32_t op = -1;     // ncclRedOp_t, of reductions
  std::int32_t root = -1;   // or peer
};

// Whether ranges are off for good; not so before the first call.
extern std::atomic<bool> ranges_off;
// False, and nothing to end, where no profiler is attached.
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
