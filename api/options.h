// rondoCommOptions_t and ncclConfig_t to the engine's CommOptions.
#pragma once

#include "api/config.h"
#include "api/rondo.h"
#include "collectives/communicator/communicator.h"

namespace rondo::api {

// The environment, overridden by options (may be NULL); the name from config.
Result<CommOptions> make_options(const CommConfig& config, const rondoCommOptions_t* options);

}  // namespace rondo::api
