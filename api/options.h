// Converts rondoCommOptions_t and ncclConfig_t to the engine's CommOptions.
#pragma once

#include "api/config.h"
#include "api/rondo.h"
#include "collectives/communicator/communicator.h"

namespace rondo::api {

// Takes the environment's values; `options` (may be NULL) overrides them. Names, CTA limits and CTA
// policy are from config.
Result<CommOptions> make_options(const CommConfig& config, const rondoCommOptions_t* options);

}  // namespace rondo::api
