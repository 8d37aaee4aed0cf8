// SPDX-License-Identifier: Apache-2.0
#include "collectives/communicator/child_request.h"

#include <algorithm>

#include "base/bytes.h"

namespace rondo {

Result<CreateRequest> child_request(const CommunicatorState& parent,
                                    const std::vector<int>& members, std::string_view kind,
                                    std::uint64_t number) {
  const auto mine =
      std::find(members.begin(), members.end(), parent.members.rank) - members.begin();
  CreateRequest child;
  child.rank = static_cast<int>(mine);
  child.size = static_cast<int>(members.size());
  ByteWriter context;
  context.put(number);
  for (const int member : members) context.put(member);
  RONDO_TRY(child.id,
            bootstrap::child_id(parent.members.ranks[static_cast<std::size_t>(members[0])].address,
                                parent.secret.derive(kind, context.take())));
  if (child.rank == 0) child.serve = parent.listener;
  if (parent.members.placement) child.graph = parent.members.placement->own;
  return child;
}

}  // namespace rondo
