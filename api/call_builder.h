// SPDX-License-Identifier: Apache-2.0
// Turns the arguments of a collective function into a checked Call.
//
// Guarantees: every error that one rank can detect alone is returned here, with NCCL's messages and
// in NCCL's order (root, type, operation). Differences between ranks are checked by the engine.
#pragma once

#include "api/comm.h"
#include "api/execute.h"
#include "api/rondo.h"

namespace rondo::api {

// Applies the options of one call. Fails for invalid options, and if no allowed algorithm can run
// the call, unless forceAlgSelection is 0: then the choice is ignored.
Status apply_call_config(const Comm& comm, const ncclCollConfig_t* config, Request* request);

// Properties of a collective's arguments. api/collectives.cc defines one for each collective.
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

// `request` must be new: only some fields are set.
Status build_collective(const Comm& comm, const CollectiveTraits& traits,
                        const CollectiveArguments& arguments, Request* request);

// Sets the reduction of a request whose type is set; op may be user-made (ncclRedOpCreate*).
Status set_reduction(const Comm& comm, ncclRedOp_t op, const char* function, Request* request);

// Bytes of count elements of a type, times parts; an error above kMaxBufferBytes.
Result<std::size_t> buffer_bytes(std::size_t count, DataType type, int parts, const char* function);

}  // namespace rondo::api
