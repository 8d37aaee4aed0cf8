// What the library says about itself: version, error strings, logging.
#include "api/arguments.h"
#include "api/errors.h"
#include "api/export.h"
#include "api/rondo.h"
#include "base/env.h"
#include "base/log.h"

using namespace rondo;
using namespace rondo::api;

RONDO_API_FUNCTION(ncclResult_t, GetVersion, int* version) {
  if (auto checked = not_null(version, "GetVersion", "version"); !checked.ok())
    return report(checked);
  *version = static_cast<int>(env::get_int("RONDO_VERSION_CODE"));
  return ncclSuccess;
}

RONDO_API_FUNCTION(const char*, GetErrorString, ncclResult_t result) {
  return error_string(result);
}

RONDO_API_FUNCTION(void, ResetDebugInit, void) { log::reset(); }

// NVIDIA's library exports this name too, without a twin.
RONDO_EXPORT void ncclResetDebugInitInternal() { log::reset(); }

RONDO_EXPORT const char* rondoGetVersion() { return RONDO_VERSION; }
