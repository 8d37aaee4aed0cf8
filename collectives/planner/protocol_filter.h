// SPDX-License-Identifier: Apache-2.0
// Which protocols may carry each collective: NCCL_PROTO, on the host and on GPUs.
//
// On GPUs they are NCCL's (cuda::Protocol). On the host, LL and LL128 are data lines with a flag,
// for small calls: the announcement line and the lines next to it. Simple is memory with counters:
// staging, and slots. Lines hold at most 512 bytes, so larger calls use memory, whatever is
// requested; so do all calls if neither LL nor LL128 is allowed. A filter applies to the same
// collectives as AlgorithmFilter; the others choose by size alone. The filters of all ranks are
// intersected.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "collectives/planner/function_lists.h"
#include "kernels/cuda/connected_args.h"

namespace rondo {

struct ProtocolFilter {
  enum Bit : std::uint8_t { kSimple = 1, kLL = 2, kLL128 = 4, kAll = 7 };
  // Element c - 1: the protocols that may carry Collective c.
  FunctionSets allowed = {kAll, kAll, kAll, kAll, kAll};

  std::uint16_t of(Collective collective) const { return set_of(allowed, collective, kAll); }
  bool allows_lines(Collective collective) const { return (of(collective) & (kLL | kLL128)) != 0; }
  void intersect(const ProtocolFilter& other) {
    for (std::size_t i = 0; i < allowed.size(); ++i) allowed[i] &= other.allowed[i];
  }
};

// Fails with kInvalidUsage on a name that is not an NCCL protocol, and on a list that leaves none;
// the error text begins with `source` ("NCCL_PROTO"). usual: protocols allowed without being named.
Result<ProtocolFilter> parse_protocols(std::string_view text, std::string_view source,
                                       std::uint8_t usual = ProtocolFilter::kAll);

// "simple, ll128"
std::string protocol_names(std::uint16_t bits);

}  // namespace rondo

namespace rondo::gpu {

constexpr std::uint8_t bit_of(cuda::Protocol protocol) {
  return static_cast<std::uint8_t>(1 << static_cast<int>(protocol));
}
// "Simple", "LL", "LL128".
const char* name(cuda::Protocol protocol);
// Protocols that need no guarantee of the hardware.
inline constexpr std::uint8_t kUsualProtocols =
    bit_of(cuda::Protocol::kSimple) | bit_of(cuda::Protocol::kLL);

// NCCL_PROTO as bits by Protocol, one list for all functions. usual: protocols allowed without
// being named.
Result<std::uint8_t> parse_gpu_protocols(std::string_view text,
                                         std::uint8_t usual = kUsualProtocols);

}  // namespace rondo::gpu
