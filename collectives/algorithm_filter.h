// NCCL_ALGO: a list of algorithm names, or ^ and a list to leave out. As a set of bits.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace rondo {

// Bit i is set where Algorithm i may run. "" allows all; names are compared without case. Fails
// with kInvalidUsage on a name that neither Rondo nor NCCL knows; names of NCCL's that Rondo does
// not have (CollnetDirect, NVLS, NVLSTree, PAT) select nothing and exclude nothing. NCCL's form
// "allreduce:tree;broadcast:ring" is read as the union of its lists.
Result<std::uint32_t> parse_algorithms(std::string_view text);

}  // namespace rondo
