// The interface of NCCL's tuner plugins, versions 2 to 6, as far as Rondo calls it.
//
// Source: NVIDIA's published headers for plugins, plugin/tuner/tuner_v2.h to tuner_v6.h and
// plugin/nccl_tuner.h, and src/plugin/tuner/tuner_v2.cc for what a version 2 may leave undecided.
// A plugin exports a struct of pointers named ncclTunerPlugin_v<version>: its name, init,
// getCollInfo, the function that ends it; version 6 appends getChunkSize. Where a function takes
// other arguments in another version, it has a type of its own here. Results are NCCL's
// ncclResult_t, as int.
//
//   auto* table = static_cast<const TunerTable*>(dlsym(library, "ncclTunerPlugin_v5"));
#pragma once

#include <cstddef>
#include <cstdint>

#include "transport/plugin/library.h"

namespace rondo::tuner::abi {

inline constexpr int kOldest = 2, kNewest = 6;

// Rows and columns of the table of costs, as plugins are told.
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
inline constexpr float kIgnored = -1;  // what cannot run

// In microseconds. Plugins get it as a float**, which in truth points to the first number.
using Costs = float[kAlgorithms][kProtocols];

enum Function : int { kBroadcast, kReduce, kAllGather, kReduceScatter, kAllReduce };

// Of version 5 and 6.
struct NvlDomains {
  int count;
  int min_ranks, max_ranks;  // of a domain
};
// What NCCL's own model goes by; a plugin may change it there.
struct Constants {
  double base_latencies[kAlgorithms][kProtocols];
  double hop_latencies[3][kAlgorithms][kProtocols];  // over NVLink, PCI, a network
  double bandwidths[5][4][3];                        // by capability, and by 1, 2 and 4 hosts
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

using Any = void (*)();  // to be called as one of the types above

struct TunerTable {
  const char* name;
  Any init;
  Any ask;                       // getCollInfo
  int (*finish)(void* context);  // destroy, from version 5 on finalize
};

}  // namespace rondo::tuner::abi
