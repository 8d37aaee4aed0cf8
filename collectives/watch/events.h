// SPDX-License-Identifier: Apache-2.0
// The functions of a profiler plugin, for each version of NCCL's interface: what NCCL tells becomes
// operations of a WatchedComm.
//
// A handle holds no address but what it names (kind, place of the communicator, operation), so one
// that is used too late, or that another process made, is only ignored. Guarantees: nothing is
// thrown; events do not allocate. Cost: at most 0.3 us an event beside that of WatchedComm.
#pragma once

#include <cstdint>

#include "collectives/profiler/abi.h"

namespace rondo::watch {

// What a call of an init tells.
struct InitCall {
  int version = 0;
  void** context = nullptr;
  int* mask = nullptr;
  std::uint64_t hash = 0;
  const char* name = nullptr;
  int hosts = 0, ranks = 0, rank = -1;  // 0, -1: versions 1 to 3 do not tell
};
// Always 0: the job goes on, whatever happens here.
int init(const InitCall& call) noexcept;

template <class Descriptor>
int start_event(void* context, void** handle, Descriptor* event) noexcept;
extern template int start_event(void*, void**, profiler::abi::Descriptor1*) noexcept;
extern template int start_event(void*, void**, profiler::abi::Descriptor2*) noexcept;
extern template int start_event(void*, void**, profiler::abi::Descriptor3*) noexcept;
extern template int start_event(void*, void**, profiler::abi::Descriptor4*) noexcept;
extern template int start_event(void*, void**, profiler::abi::Descriptor5*) noexcept;
int stop_event(void* handle) noexcept;
int record_state(void* handle, int state, void* arguments) noexcept;
int finish(void* context) noexcept;

}  // namespace rondo::watch
