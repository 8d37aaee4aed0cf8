// The unique id of ncclCommGetUniqueId and ncclCommGrow. New ranks get it from the caller; ranks of
// the parent compute it.
//
// Its secret is derived from the parent's secret. The ranks exchange only the ticket's maker,
// address and number, and no secret is sent between them.
#pragma once

#include "api/comm.h"
#include "transport/bootstrap/unique_id.h"

namespace rondo::api {

Result<ncclUniqueId> new_grow_ticket(Comm& parent);

// Collective over the parent. `mine` is nullptr on all ranks except the maker of the ticket.
Result<bootstrap::UniqueId> agree_on_ticket(const Comm& parent, const ncclUniqueId* mine);

}  // namespace rondo::api
