// SPDX-License-Identifier: Apache-2.0
// The parts of NCCL's tuner plugin interface, versions 2 to 6, that Rondo uses.
//
// Source: NVIDIA's published plugin headers, plugin/tuner/tuner_v2.h to tuner_v6.h and
// plugin/nccl_tuner.h; src/plugin/tuner/tuner_v2.cc shows what a version 2 plugin may leave
// undecided. A plugin exports a struct of pointers named ncclTunerPlugin_v<version>: its name,
// init, getCollInfo and its end function; version 6 appends getChunkSize. If a function's arguments
// differ between versions, each variant has its own type here. Results are ncclResult_t, as int.
//
//   auto* table = static_cast<const TunerTable*>(dlsym(library, "ncclTunerPlugin_v5"));
#pragma once

#include <cstddef>
#include <cstdint>

#include "transport/plugin/library.h"

namespace rondo::tuner::abi {

inline constexpr int kOldest = 2, kNewest = 6;

// Rows and columns of the cost table that plugins get.
inline constexpr int kAlgorithms = 7, kProtocols = 3;
enum Algorithm : int {
  kUndecided = -1,
  kTree,
  kRing,
  kCollnetDirect,
  kCollnetChain,
  kNvls,
  kNvlsTree,
  kPat
};
enum Protocol : int { kLL, kLL128, kSimple };
inline constexpr float kIgnored = -1;  // cost of a cell that cannot run

// In microseconds. Plugins get it as a float** that actually points to the first number.
using Costs = float[kAlgorithms][kProtocols];

enum Function : int { kBroadcast, kReduce, kAllGather, kReduceScatter, kAllReduce };

// Versions 5 and 6 only.
struct NvlDomains {
  int count;
  int min_ranks, max_ranks;  // ranks per domain
};
// Constants of NCCL's own cost model, which a plugin can change in NCCL.
struct Constants {
  double base_latencies[kAlgorithms][kProtocols];
  double hop_latencies[3][kAlgorithms][kProtocols];  // NVLink, PCI, network
  double bandwidths[5][4][3];                        // by compute capability; by 1, 2, 4 hosts
};
static_assert(sizeof(NvlDomains) == 12 && sizeof(Constants) == (21 + 63 + 60) * sizeof(double));

using Init2 = int (*)(std::size_t ranks, std::size_t hosts, plugin::Logger, void** context);
using Init5 = int (*)(void** context, std::uint64_t communicator, std::size_t ranks,
                      std::size_t hosts, plugin::Logger, NvlDomains*, Constants*);
using Ask2 = int (*)(void* context, int function, std::size_t bytes, int collnet, int nvls,
                     int fused_calls, int* algorithm, int* protocol, int* channels);
using Ask3 = int (*)(void* context, int function, std::size_t bytes, int fused_calls, float** costs,
                     int algorithms, int protocols, int* channels);
using Ask4 = int (*)(void* context, int function, std::size_t bytes, int fused_calls, float** costs,
                     int algorithms, int protocols, int registered, int* channels);

using Any = void (*)();  // cast to one of the types above before a call

struct TunerTable {
  const char* name;
  Any init;
  Any ask;                       // getCollInfo
  int (*finish)(void* context);  // destroy; from version 5: finalize
};

}  // namespace rondo::tuner::abi
