// SPDX-License-Identifier: Apache-2.0
// Creates a communicator: its ranks join, exchange their records, connect on their hosts, agree on
// plans, and bind to their GPUs if they have any.
//
// Collective. Guarantees: a rank that fails reports it to all others, so that no rank waits until
// its deadline. Every wait ends at the request's init timeout or when the request is aborted.
#pragma once

#include <memory>

#include "collectives/communicator/communicator_state.h"

namespace rondo {

Result<std::unique_ptr<CommunicatorState>> make_state(const CreateRequest& request);

}  // namespace rondo
