// ncclUniqueId and the bootstrap's UniqueId are the same 128 bytes.
#pragma once

#include <cstring>

#include "api/nccl.h"
#include "base/result.h"
#include "transport/bootstrap/unique_id.h"

namespace rondo::api {

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

}  // namespace rondo::api
