// The unique id of ncclCommGetUniqueId and ncclCommGrow: newcomers are given it, the ranks that
// there are compute it.
//
// Its secret derives from the parent's, so the ranks tell each other who made it, where and which
// one it is, and no secret travels between them.
#pragma once

#include "api/comm.h"
#include "transport/bootstrap/unique_id.h"

namespace rondo::api {

Result<ncclUniqueId> new_grow_ticket(Comm& parent);

// Collective over the parent; `mine` is nullptr on all ranks but the one that made the ticket.
Result<bootstrap::UniqueId> agree_on_ticket(const Comm& parent, const ncclUniqueId* mine);

}  // namespace rondo::api
