// The short way to the engine for the usual call: a collective with a built-in operation, outside
// groups, without stream or options, on a blocking communicator of the host.
//
// Guarantees: takes only what it can see to be right; everything else is left to the long way
// (call_builder.h, execute.h), which also knows what is wrong and says so. Same order, same result.
// Cost: about a third of the long way's instructions.
#pragma once

#include "api/call_builder.h"

namespace rondo::api {

// False if the call has to go the long way; otherwise it has run, and *result is what came of it.
bool run_usual_call(const CollectiveTraits& traits, const CollectiveArguments& arguments,
                    ncclComm_t handle, ncclResult_t* result);

}  // namespace rondo::api
