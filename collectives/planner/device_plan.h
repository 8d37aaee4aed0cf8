// DevicePlan: how a collective runs whose ranks live on CUDA devices. A pure function of what the
// ranks agreed on and of the call's record.
//
// Ranks of one device meet in one kernel without waits (direct) unless NCCL_ALGO asks for an
// algorithm over connections. Several devices that reach each other push small calls into each
// other's memory (LL push), or share a direct kernel's work (met), on staging where they are of
// several processes; larger ones, and devices that do not reach each other, use rings and trees
// over the five collectives that have them; where processes share devices, so do one rank of each
// device, for all others (composed). Where it is asked for, sums and all-gathers go through
// multicast memory (NVLS). Of the ways that may run a call the one of least predicted time does
// (device_work.h), by rates that rondo tune has measured, or by priors, unless a tuner plugin
// prefers another one (tuned_ways.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/result.h"
#include "base/types.h"
#include "collectives/planner/algorithm_filter.h"
#include "collectives/planner/device_rates.h"
#include "collectives/planner/strategy.h"
#include "collectives/planner/tuned_ways.h"
#include "collectives/planner/wire_rates.h"
#include "kernels/cuda/connected_args.h"
#include "kernels/cuda/direct_args.h"
#include "kernels/cuda/shapes.h"

namespace rondo::gpu {

constexpr std::uint8_t bit_of(cuda::Protocol protocol) {
  return static_cast<std::uint8_t>(1 << static_cast<int>(protocol));
}
// "Simple", "LL", "LL128".
const char* name(cuda::Protocol protocol);
// What needs no promise of the hardware.
inline constexpr std::uint8_t kUsualProtocols =
    bit_of(cuda::Protocol::kSimple) | bit_of(cuda::Protocol::kLL);

// Whether lines of 128 bytes are known to arrive whole, by measurement, in the memory of devices of
// this compute capability (90) over this path.
enum class LinePath : std::uint8_t { kWithinDevice, kBetweenDevices };
bool lines_stay_whole(int capability, LinePath path);

// NCCL's maximum number of CTAs of a rank. Where kernels do not wait for each other, it limits
// nothing.
inline constexpr int kNoCtaLimit = 64;
// Unless the program says otherwise: channels that connections are made for, slots of each, bytes
// of a slot.
inline constexpr int kUsualChannels = 16;
inline constexpr int kMaxUsualChannels = 32;  // where wires are fast
inline constexpr int kUsualSlots = std::max(4, 2 * cuda::shapes::kSimpleSlices);
inline constexpr std::uint64_t kUsualSlotBytes = 64 << 10;

struct DevicePlanFacts {
  int ranks = 1;
  int devices = 1;
  bool bulk = false;              // copies of Simple in bulk: RONDO_GPU_BULK, where the devices can
  bool may_use_barriers = false;  // devices that reach each other can share a direct kernel's work
  bool may_ll_push = false;       // each has one rank, with staging for lines that all others push
  bool processes = false;         // ranks are of several processes
  bool messages = false;          // gather, scatter and all-to-all are messages between these
  bool composes = false;          // processes share some of several devices (composition.h)
  bool multicast = false;         // there is multicast memory, for calls that may run as NVLS
  // Devices of several processes, each with one rank, can share a direct kernel's work on staging:
  // this many bytes for a rank's input and as many for its output; 0: they cannot.
  std::uint64_t shared_bytes = 0;
  bool in_windows = false;    // all buffers of this call are in symmetric windows
  bool copy_engines = false;  // a rank asks for them, for this call
  int hosts = 1;              // that the ranks are of
  bool all_reach = true;      // every device reaches every other one's memory
  bool reproducible = false;
  AlgorithmFilter algorithms;
  std::uint8_t protocols = kUsualProtocols;  // allowed by NCCL_PROTO: bit cuda::Protocol
  int min_channels = 1, max_channels = 0;    // 0: no connections
  bool permuted = false;                     // ranks stand in orders of their own on channels: then
  std::uint64_t tree_roots = 0;  // these (bit: rank) reduce over trees, which all others do not
  int slots = kUsualSlots;       // of a connection
  std::uint64_t slot_bytes = 0;  // of Simple
  int rings = 1;                 // between hosts: of channels that leave by ports of their own
  WireRates wires{};             // by the hosts' graphs
  // Null: there is no tuner plugin, or it changes nothing. Must live as long as plans are made.
  const TunedWays* tuned = nullptr;
  DeviceCosts costs{};  // of the slowest rank, each
  friend bool operator==(const DevicePlanFacts&, const DevicePlanFacts&) = default;
};

struct DevicePlan {
  Strategy strategy = Strategy::kDirect;
  Algorithm algorithm = Algorithm::kDirect;
  cuda::Protocol protocol = cuda::Protocol::kSimple;
  bool bulk = false;  // of a connected copy
  int channels = 1;
  int groups = 1;
  std::uint64_t per_round = 0;  // elements, of a channel
  std::uint64_t slice = 0;      // over connections: what one slot holds of it
  std::uint32_t grain = 1;      // elements
  unsigned threads = 0;         // of a CTA
  bool in_place = false;        // may first be tried in place, by processes (in_place_calls.h)
};

// Whether any call may run over connections: then they must be made.
bool wants_connections(const DevicePlanFacts& facts);
Result<DevicePlan> make_device_plan(const DevicePlanFacts& facts, const CallRecord& record);

// Whether any call may run as NVLS: then there should be multicast memory.
bool wants_multicast(const DevicePlanFacts& facts);

// NCCL_PROTO as bits by Protocol, one list for all functions. usual: what need not be named.
Result<std::uint8_t> parse_gpu_protocols(std::string_view text,
                                         std::uint8_t usual = kUsualProtocols);

}  // namespace rondo::gpu
