// From the arguments of a collective function to a checked Call.
//
// Guarantees: everything that one rank can know to be wrong is refused here, with NCCL's texts and
// in NCCL's order (root, type, operation); what only several ranks can know is the engine's part.
#pragma once

#include "api/comm.h"
#include "api/execute.h"
#include "api/rondo.h"

namespace rondo::api {

// What a collective needs of its arguments; api/collectives.cc has one row for each.
struct CollectiveTraits {
  Collective which;
  const char* function;
  bool reduces;
  bool rooted;
  bool send_on_root_only, receive_on_root_only;
  bool send_holds_all, receive_holds_all;  // nranks * count elements instead of count
};

struct CollectiveArguments {
  const void* send = nullptr;
  void* receive = nullptr;
  std::size_t count = 0;
  ncclDataType_t type = ncclInt8;
  ncclRedOp_t op = ncclSum;
  int root = -1;
};

// Into a fresh request.
Status build_collective(const Comm& comm, const CollectiveTraits& traits,
                        const CollectiveArguments& arguments, Request* request);

// type and op of a reduction into the request; user-made operations included.
Status set_reduction(const Comm& comm, ncclRedOp_t op, const char* function, Request* request);

// Bytes of count elements of a type, times parts; an error where that is no size of a buffer.
Result<std::size_t> buffer_bytes(std::size_t count, DataType type, int parts, const char* function);

}  // namespace rondo::api
