// AskedCall: a collective call given on a command line (rondo explain, rondo simulate).
#pragma once

#include <string>

#include "base/result.h"
#include "base/types.h"
#include "bench/kinds.h"

namespace rondo::cli {

struct AskedCall {
  std::string collective, size = "4M", type = "float", op = "sum";
  int ranks = 2, root = 0;
};

// Sizes are those of rondo bench's size column. sendrecv (each rank sends to the next one) is a
// kSend without root. kInvalidArgument: the message lists the valid names.
Result<CallRecord> record_of(const AskedCall& asked);
// The benchmark's byte counts of the call.
Result<bench::Layout> layout_of(const AskedCall& asked);

}  // namespace rondo::cli
