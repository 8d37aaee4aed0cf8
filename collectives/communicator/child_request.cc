// SPDX-License-Identifier: Apache-2.0
#include "collectives/communicator/child_request.h"

#include <algorithm>

#include "base/bytes.h"

namespace rondo {

namespace {

Result<CreateRequest> under_first(const CommunicatorState& parent, const std::vector<int>& members,
                                  const bootstrap::Secret& secret) {
  const auto mine =
      std::find(members.begin(), members.end(), parent.members.rank) - members.begin();
  CreateRequest child;
  child.rank = static_cast<int>(mine);
  child.size = static_cast<int>(members.size());
  RONDO_TRY(child.id,
            bootstrap::child_id(parent.members.ranks[static_cast<std::size_t>(members[0])].address,
                                secret));
  if (child.rank == 0) child.serve = parent.listener;
  if (parent.members.placement) child.graph = parent.members.placement->own;
  return child;
}

}  // namespace

Result<CreateRequest> child_request(const CommunicatorState& parent,
                                    const std::vector<int>& members, std::string_view kind,
                                    std::uint64_t number) {
  ByteWriter context;
  context.put(number);
  for (const int member : members) context.put(member);
  return under_first(parent, members, parent.secret.derive(kind, context.take()));
}

Result<CreateRequest> survivors_request(const CommunicatorState& parent,
                                        const std::vector<int>& survivors) {
  const int leader = survivors[0];
  return under_first(parent, survivors,
                     parent.secret.derive("shrink", std::as_bytes(std::span(&leader, 1))));
}

}  // namespace rondo
