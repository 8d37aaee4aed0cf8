// SPDX-License-Identifier: Apache-2.0
// Runs checked calls: on the caller's thread, on a rondo stream, on the worker of a nonblocking
// communicator or, for GPUs, on the caller's CUDA stream. Only this file makes the choice.
//
// Guarantees: calls of one communicator run in the order in which they were issued, whatever their
// streams. With the NULL stream and a blocking communicator they are complete on return. A list of
// several calls is one group: all its ranks in this process run together.
// Cost: one call on a blocking communicator takes two atomic operations in addition to the engine's
// cost. It allocates nothing on the caller's thread if such a call was made before.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "api/call_batch.h"
#include "api/comm.h"
#include "api/nccl.h"

namespace rondo::api {

// A single call outside any group.
ncclResult_t execute_one(CommPin&& comm, Request&& request, const char* function);

// A group; entries are in issue order.
ncclResult_t execute_group(std::span<const GroupEntry> entries);

}  // namespace rondo::api
