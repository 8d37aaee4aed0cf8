// SPDX-License-Identifier: Apache-2.0
// Event: what Rondo says about an event of a profiler plugin. describe(): the event in the words of
// one version of the interface. Names and numbers are those of NCCL where it has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/types.h"
#include "collectives/context/call.h"
#include "collectives/planner/device_plan.h"
#include "collectives/planner/planner.h"
#include "collectives/profiler/abi.h"

namespace rondo::profiler {

// A name, and its number in version 1. Version 1 gets kPat and kSimple for what NCCL does not have,
// as NCCL itself does for names that it does not know.
struct Named {
  const char* name;
  std::uint8_t number;
};
inline constexpr std::uint8_t kPat = 6, kSimple = 2;

Named name_of(Collective function);  // {"AllReduce", 4}
Named name_of(DataType type);        // {"ncclFloat32", 7}

// How a call runs.
struct Way {
  Named algorithm{"Unknown", kPat};
  Named protocol{"Unknown", kSimple};
  int channels = 1;  // a call on host memory has one
  int warps = 0;     // of a channel; 0: no kernel
};
// algorithm, protocol: as CallRecorder has them.
Way way_of(std::uint8_t algorithm, std::uint8_t protocol);
Way way_of(const gpu::DevicePlan& plan);

struct Event {
  abi::Kind kind;
  void* parent = nullptr;
  void* group = nullptr;  // kGroup's event, for kColl and kP2p
  const Call* call = nullptr;
  Way way{};
  std::uint64_t sequence = 0;  // of the function in the communicator, from 0
  bool captured = false;       // in a CUDA graph
  int depth = 1;               // of groups
  // Of the communicator; Profiler sets these.
  int rank = 0;
  const char* name = nullptr;
  std::uint64_t communicator = 0;
};

// A rank of a communicator, for init.
struct About {
  std::uint64_t communicator = 0;  // equal on its ranks
  const char* name = nullptr;      // null: it has none
  int hosts = 1, ranks = 1, rank = 0;
};

// Facts about one version of the interface.
struct Version {
  int number;
  std::uint64_t kinds;  // that it has
  int (*init)(abi::Any init, void** context, int* mask, const About& about);
  int (*start)(const abi::ProfilerTable& table, void* context, void** handle, const Event& event);
};
extern const std::span<const Version> kVersions;  // newest first

}  // namespace rondo::profiler
