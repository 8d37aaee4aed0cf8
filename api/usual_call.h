// SPDX-License-Identifier: Apache-2.0
// Fast path for the usual call: a collective with a built-in operation, or a barrier, outside
// groups, without stream or options, on a blocking communicator on the host.
//
// Guarantees: runs only calls that it knows to be valid. All others take the general path
// (call_builder.h, execute.h), which reports errors. Same order of calls and same result.
// Cost: about a third of the general path's instructions.
#pragma once

#include "api/call_builder.h"

namespace rondo::api {

// False if the call must take the general path. Otherwise the call has run; *result is its result.
bool run_usual_call(const CollectiveTraits& traits, const CollectiveArguments& arguments,
                    ncclComm_t handle, ncclResult_t* result);
bool run_usual_barrier(ncclComm_t handle, ncclResult_t* result);

}  // namespace rondo::api
