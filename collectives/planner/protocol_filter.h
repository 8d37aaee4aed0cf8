// Which protocols may carry each collective: NCCL_PROTO, on the host and on GPUs.
//
// On GPUs they are NCCL's (cuda::Protocol). On the host LL and LL128 are lines of data that carry
// their own flag, for small calls: on the host, the announcement line and the lines beside it.
// Simple is memory with counters: staging, and slots. Lines hold 512 bytes at most, so what is
// larger goes by memory, whatever is asked for; so does everything where neither LL nor LL128 is
// allowed. A filter speaks of the same collectives as AlgorithmFilter; the others choose by size
// alone. The filters of all ranks are intersected.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "collectives/planner/function_lists.h"

namespace rondo {

struct ProtocolFilter {
  enum Bit : std::uint8_t { kSimple = 1, kLL = 2, kLL128 = 4, kAll = 7 };
  // Element c - 1: the protocols that may carry Collective c.
  FunctionSets allowed = {kAll, kAll, kAll, kAll, kAll};

  std::uint8_t of(Collective collective) const { return set_of(allowed, collective, kAll); }
  bool allows_lines(Collective collective) const { return (of(collective) & (kLL | kLL128)) != 0; }
  void intersect(const ProtocolFilter& other) {
    for (std::size_t i = 0; i < allowed.size(); ++i) allowed[i] &= other.allowed[i];
  }
};

// Fails with kInvalidUsage on a name that is no protocol of NCCL's, and on a list that leaves none;
// `source` ("NCCL_PROTO") begins the text.
// usual: what need not be named.
Result<ProtocolFilter> parse_protocols(std::string_view text, std::string_view source,
                                       std::uint8_t usual = ProtocolFilter::kAll);

// "simple, ll128"
std::string protocol_names(std::uint8_t bits);

}  // namespace rondo
