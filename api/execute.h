// Execution of checked calls: on the caller's thread, on a rondo stream, or on the worker of a
// nonblocking communicator. The one place that knows which.
//
// Guarantees: calls of one communicator run in the order in which they were issued, whatever their
// streams. With the NULL stream and a blocking communicator they are complete on return. A list of
// several calls is one group: all its ranks of this process run together.
// Cost: one call on a blocking communicator takes two atomic operations on top of the engine's own,
// and nothing allocates on the caller's thread once such calls were made before.
#pragma once

#include <span>
#include <vector>

#include "api/comm.h"
#include "api/nccl.h"

namespace rondo::api {

// One call of a user. more: the rest of what one function amounts to, after `call` (rondo.h's
// v-collectives), on its stream.
struct Request {
  Call call;
  std::vector<Call> more;
};

struct GroupEntry {
  ncclComm_t comm;
  Request request;
};

// A single call outside any group.
ncclResult_t execute_one(CommPin&& comm, Request&& request, const char* function);

// A group, in order of issue.
ncclResult_t execute_group(std::span<const GroupEntry> entries);

}  // namespace rondo::api
