// AskedCall: a collective call as command lines name it (rondo explain, rondo simulate).
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

// Sizes are as in rondo bench's column; sendrecv, a message of each rank to the next one, is a
// kSend of no root. kInvalidArgument: names what there is.
Result<CallRecord> record_of(const AskedCall& asked);
// How the benchmark counts its bytes.
Result<bench::Layout> layout_of(const AskedCall& asked);

}  // namespace rondo::cli
