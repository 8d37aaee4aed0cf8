// child_request(): how some ranks of a communicator make another one, without a message.
//
// They meet where their first member has listened since the parent was made, under a secret that
// derives from the parent's, from the kind and number of the child and from its members.
// Guarantees: only who holds the parent's secret can compute it. Needs nothing of a parent that is
// broken. The caller fills in the options.
//
//   RONDO_TRY(CreateRequest child, child_request(parent, members, "split", number));
#pragma once

#include <string_view>
#include <vector>

#include "collectives/communicator/communicator_state.h"

namespace rondo {

// members: ranks of the parent, in the child's order, this rank among them.
Result<CreateRequest> child_request(const CommunicatorState& parent,
                                    const std::vector<int>& members, std::string_view kind,
                                    std::uint64_t number = 0);

}  // namespace rondo
