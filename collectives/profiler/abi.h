// SPDX-License-Identifier: Apache-2.0
// The parts of NCCL's profiler plugin interface, versions 1 to 6, that Rondo uses.
//
// Source: NVIDIA's published plugin headers, plugin/profiler/profiler_v1.h to profiler_v6.h and
// plugin/nccl_profiler.h; src/plugin/profiler/profiler_v1.cc shows which numbers version 1 gets for
// names. A plugin exports a struct of pointers named ncclProfiler_v<version>: its name, init,
// startEvent, stopEvent, recordEventState and finalize. Results are ncclResult_t, as int. The
// descriptor of an event is a type, a parent, a rank and a union, whose members differ between
// versions; kVersions (describe.h) has a row for each version.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "transport/plugin/library.h"

namespace rondo::profiler::abi {

// Types of events, as bits of the mask that init sets.
enum Kind : std::uint64_t {
  kGroup = 1 << 0,  // calls that run together
  kColl = 1 << 1,
  kP2p = 1 << 2,
  kProxyOp = 1 << 3,
  kProxyStep = 1 << 4,
  kProxyCtrl = 1 << 5,
  kKernelCh = 1 << 6,   // from version 3
  kNetPlugin = 1 << 7,  // from version 3
  kGroupApi = 1 << 8,   // from version 5, as the next three
  kCollApi = 1 << 9,
  kP2pApi = 1 << 10,
  kKernelLaunch = 1 << 11,
  kCeColl = 1 << 12,  // from version 6, as the next two
  kCeSync = 1 << 13,
  kCeBatch = 1 << 14,
};
// Their names, by bit.
inline constexpr std::string_view kKindNames[] = {
    "group",     "coll",         "p2p",       "proxyop",  "proxystep",
    "proxyctrl", "kernelch",     "netplugin", "groupapi", "collapi",
    "p2papi",    "kernellaunch", "cecoll",    "cesync",   "cebatch"};
// A plugin that asks for an event gets its ancestors too.
inline constexpr std::uint64_t kBelowCalls = kProxyOp | kProxyStep | kKernelCh | kNetPlugin;
inline constexpr std::uint64_t kBelowCe = kCeColl | kCeSync | kCeBatch;
inline constexpr std::uint64_t kForColl = kColl | kBelowCalls;
inline constexpr std::uint64_t kForP2p = kP2p | kBelowCalls;
inline constexpr std::uint64_t kForGroup = kGroup | kForColl | kForP2p;
inline constexpr std::uint64_t kForCollApi = kCollApi | kForColl | kBelowCe;
inline constexpr std::uint64_t kForP2pApi = kP2pApi | kForP2p;
inline constexpr std::uint64_t kForGroupApi =
    kGroupApi | kKernelLaunch | kForGroup | kForCollApi | kForP2pApi;

enum State : int {
  kSendGpuWait = 8,  // to kRecvGpuWait: of kProxyStep
  kSendWait = 9,
  kRecvWait = 10,
  kRecvFlushWait = 11,
  kRecvGpuWait = 12,
  kSendPeerWait = 20,       // of kProxyStep, from version 4
  kGroupStartApiStop = 23,  // of kGroupApi, as the next
  kGroupEndApiStart = 24,
};

// Coll: one collective call of a rank.
struct Coll1 {
  const char* name;  // of the communicator
  std::uint64_t communicator, sequence;
  std::uint8_t function;
  const void* send;
  void* receive;
  std::size_t count;
  int root;
  std::uint8_t type;
  std::uint32_t op;
  std::size_t traffic_bytes;
  std::uint8_t channels, warps, algorithm, protocol;
  int collnet, nvls;
};
struct Coll2 {
  const char* name;
  std::uint64_t communicator, sequence;
  const char* function;
  const void* send;
  void* receive;
  std::size_t count;
  int root;
  const char* type;
  std::size_t traffic_bytes;
  std::uint8_t channels, warps;
  const char *algorithm, *protocol;
};
struct Coll3 {
  const char* name;
  std::uint64_t communicator, sequence;
  const char* function;
  const void* send;
  void* receive;
  std::size_t count;
  int root;
  const char* type;
  std::uint8_t channels, warps;
  const char *algorithm, *protocol;
};
struct Coll4 {
  std::uint64_t sequence;
  const char* function;
  const void* send;
  void* receive;
  std::size_t count;
  int root;
  const char* type;
  std::uint8_t channels, warps;
  const char *algorithm, *protocol;
};
struct Coll5 {
  std::uint64_t sequence;
  const char* function;
  const void* send;
  void* receive;
  std::size_t count;
  int root;
  const char* type;
  std::uint8_t channels, warps;
  const char *algorithm, *protocol;
  void* group;  // of kGroup; until version 4 it is the parent
};

// P2p: one message of a rank.
struct P2p1 {
  const char* name;
  std::uint64_t communicator;
  std::uint8_t function;
  void* buffer;
  std::uint8_t type;
  std::size_t count;
  int peer;
};
struct P2p2 {
  const char* name;
  std::uint64_t communicator;
  const char* function;
  void* buffer;
  const char* type;
  std::size_t count;
  int peer;
};
struct P2p4 {
  const char* function;
  void* buffer;
  const char* type;
  std::size_t count;
  int peer;
  std::uint8_t channels;
};
struct P2p5 {
  const char* function;
  void* buffer;
  const char* type;
  std::size_t count;
  int peer;
  std::uint8_t channels;
  void* group;
};

// Of all versions that have them.
struct ProxyOp {
  int pid;  // of the process that made the parent
  std::uint8_t channel;
  int peer, steps, chunk_bytes, is_send;
};
struct ProxyStep {
  int step;
};

// Calls of the C API.
struct GroupApi5 {
  bool captured;
  int depth;  // 1: a call outside groups
};
struct CollApi5 {
  const char* function;
  std::size_t count;
  const char* type;
  int root;
  void* stream;
  bool captured;
};
struct P2pApi5 {
  const char* function;
  std::size_t count;
  const char* type;
  void* stream;
  bool captured;
};

template <class Coll, class P2p>
struct DescriptorOf {
  std::uint8_t kind;
  void* parent;
  int rank;
  union {
    Coll coll;
    P2p p2p;
    ProxyOp proxy_op;
    ProxyStep proxy_step;
  };
};
using Descriptor1 = DescriptorOf<Coll1, P2p1>;
using Descriptor2 = DescriptorOf<Coll2, P2p2>;
using Descriptor3 = DescriptorOf<Coll3, P2p2>;
using Descriptor4 = DescriptorOf<Coll4, P2p4>;
struct Descriptor5 {  // and versions 6 and 7, which add members behind these
  std::uint64_t kind;
  void* parent;
  int rank;
  union {
    Coll5 coll;
    P2p5 p2p;
    ProxyOp proxy_op;
    ProxyStep proxy_step;
    GroupApi5 group_api;
    CollApi5 coll_api;
    P2pApi5 p2p_api;
  };
};
static_assert(sizeof(Descriptor1) == 120 && sizeof(Descriptor2) == 128);
static_assert(sizeof(Descriptor3) == 120 && sizeof(Descriptor4) == 104);
static_assert(sizeof(Descriptor5) == 112 && offsetof(Descriptor5, coll) == 24);

union StateArguments {  // of any version; not read in the states above
  std::size_t bytes;
  struct {
    std::size_t bytes;
    int steps;
  } proxy_op;
};

using Init1 = int (*)(void** context, int* mask);
using Init4 = int (*)(void** context, int* mask, const char* name, std::uint64_t communicator,
                      int hosts, int ranks, int rank, plugin::Logger);
using Init5 = int (*)(void** context, std::uint64_t communicator, int* mask, const char* name,
                      int hosts, int ranks, int rank, plugin::Logger);
using Any = void (*)();  // cast to one of the types above before a call

// Of librondo-watch.so (api/watch). Rondo gives it no events while its own status service runs,
// which answers the same questions.
inline constexpr const char* kWatchName = "RondoWatch";

struct ProfilerTable {
  const char* name;
  Any init;
  int (*start)(void* context, void** event, void* descriptor);
  int (*stop)(void* event);
  int (*record)(void* event, int state, void* arguments);
  int (*finish)(void* context);
};

}  // namespace rondo::profiler::abi
