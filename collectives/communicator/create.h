// Making a communicator: its ranks join, tell each other who they are, meet on their hosts, agree
// on plans, and those on GPUs find what will do their calls.
//
// By all ranks at once. Guarantees: a rank that fails tells all others, so that none waits for it
// until its deadline; every wait ends with the request's init timeout or when it is aborted.
#pragma once

#include <memory>

#include "collectives/communicator/communicator_state.h"

namespace rondo {

Result<std::unique_ptr<CommunicatorState>> make_state(const CreateRequest& request);

}  // namespace rondo
