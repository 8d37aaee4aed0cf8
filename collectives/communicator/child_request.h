// SPDX-License-Identifier: Apache-2.0
// child_request(): the request with which some ranks of a communicator create a child, without any
// message between them.
//
// The members join at the listener that their first member opened when the parent was created. The
// child's secret is derived from the parent's secret, the kind and number of the child, and its
// members. Guarantees: only ranks with the parent's secret can compute it. Works after a fault of
// the parent. The caller sets the options.
//
//   RONDO_TRY(CreateRequest child, child_request(parent, members, "split", number));
#pragma once

#include <string_view>
#include <vector>

#include "collectives/communicator/communicator_state.h"

namespace rondo {

// members: ranks of the parent in the child's order; this rank must be one of them.
Result<CreateRequest> child_request(const CommunicatorState& parent,
                                    const std::vector<int>& members, std::string_view kind,
                                    std::uint64_t number = 0);
// The same for survivors (collectives/communicator/shrink.h), ascending. All lists that begin with
// the same rank have the same secret.
Result<CreateRequest> survivors_request(const CommunicatorState& parent,
                                        const std::vector<int>& survivors);

}  // namespace rondo
