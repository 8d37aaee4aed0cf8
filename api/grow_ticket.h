// SPDX-License-Identifier: Apache-2.0
// The unique id of ncclCommGetUniqueId and ncclCommGrow. New ranks get it from the caller; ranks of
// the parent compute it.
//
// Its secret is derived from the parent's secret. The ranks exchange only the ticket's maker,
// address and number, and no secret is sent between them.
#pragma once

#include <cstring>

#include "api/comm.h"
#include "api/nccl.h"
#include "base/result.h"
#include "transport/bootstrap/unique_id.h"

namespace rondo::api {

// ncclUniqueId and the bootstrap's UniqueId are the same 128 bytes.
static_assert(sizeof(ncclUniqueId) == sizeof(bootstrap::UniqueId));

inline bootstrap::UniqueId from_ticket(const ncclUniqueId& ticket) {
  bootstrap::UniqueId id;
  std::memcpy(id.bytes, ticket.internal, sizeof(id.bytes));
  return id;
}

inline ncclUniqueId to_ticket(const bootstrap::UniqueId& id) {
  ncclUniqueId ticket;
  std::memcpy(ticket.internal, id.bytes, sizeof(ticket.internal));
  return ticket;
}

inline Result<ncclUniqueId> new_ticket() {
  RONDO_TRY(const bootstrap::UniqueId id, bootstrap::make_unique_id());
  return to_ticket(id);
}

Result<ncclUniqueId> new_grow_ticket(Comm& parent);

// Collective over the parent. `mine` is nullptr on all ranks except the maker of the ticket.
Result<bootstrap::UniqueId> agree_on_ticket(const Comm& parent, const ncclUniqueId* mine);

}  // namespace rondo::api
