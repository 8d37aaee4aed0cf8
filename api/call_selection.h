// The options of one call (ncclCollConfig_t), applied to it.
#pragma once

#include "api/comm.h"
#include "api/execute.h"

namespace rondo::api {

// Refuses options that are wrong, and algorithm choices that cannot be met (unless the caller said
// that they need not be).
Status apply_call_config(const Comm& comm, const ncclCollConfig_t* config, Request* request);

}  // namespace rondo::api
