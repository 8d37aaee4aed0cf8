// Applies the options of one call (ncclCollConfig_t).
#pragma once

#include "api/comm.h"
#include "api/execute.h"

namespace rondo::api {

// Fails for invalid options. Also fails if no allowed algorithm can run the call, unless
// forceAlgSelection is 0: then the choice is ignored.
Status apply_call_config(const Comm& comm, const ncclCollConfig_t* config, Request* request);

}  // namespace rondo::api
