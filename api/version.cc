// SPDX-License-Identifier: Apache-2.0
// Information about the library: version, error strings, logging, counts of calls.
#include <algorithm>
#include <string_view>

#include "api/arguments.h"
#include "api/errors.h"
#include "api/export.h"
#include "api/rondo.h"
#include "base/env.h"
#include "base/log.h"

using namespace rondo;
using namespace rondo::api;

RONDO_API_FUNCTION(ncclResult_t, GetVersion, int* version) {
  RONDO_ENTER(GetVersion);
  if (auto checked = not_null(version, "GetVersion", "version"); !checked.ok())
    return report(checked);
  *version = static_cast<int>(env::get_int("RONDO_VERSION_CODE"));
  return ncclSuccess;
}
RONDO_CATCH

RONDO_API_FUNCTION(const char*, GetErrorString, ncclResult_t result) {
  RONDO_ENTER(GetErrorString);
  return error_string(result);
}
RONDO_CATCH_GIVING(error_string(result))

RONDO_API_FUNCTION(void, ResetDebugInit, void) {
  RONDO_ENTER(ResetDebugInit);
  log::reset();
}
RONDO_CATCH_GIVING()

// NVIDIA's library exports this name too, without a twin.
RONDO_FUNCTION(void, ncclResetDebugInitInternal) { log::reset(); }
RONDO_CATCH_GIVING()

RONDO_FUNCTION(const char*, rondoGetVersion) { return RONDO_VERSION; }
RONDO_CATCH_GIVING(RONDO_VERSION)

RONDO_FUNCTION(ncclResult_t, rondoGetCallCount, const char* function, uint64_t* calls) {
  constexpr const char* kFunction = "GetCallCount";
  if (auto checked = not_null(function, kFunction, "function"); !checked.ok())
    return report(checked);
  if (auto checked = not_null(calls, kFunction, "calls"); !checked.ok()) return report(checked);
  const auto* const found = std::find(std::begin(kEntryPointNames), std::end(kEntryPointNames),
                                      std::string_view(function));
  if (found == std::end(kEntryPointNames))
    return report(fail(StatusCode::kInvalidArgument,
                       "{} : nccl.h has no function \"{}\"; names are as in \"ncclAllReduce\"",
                       kFunction, function));
  *calls = count_of_calls(static_cast<EntryPoint>(found - std::begin(kEntryPointNames)));
  return ncclSuccess;
}
RONDO_CATCH
