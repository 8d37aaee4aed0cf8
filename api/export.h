// SPDX-License-Identifier: Apache-2.0
// RONDO_API_FUNCTION: defines one function of nccl.h with its profiling twin.
//
// Guarantees: pncclX is a strong symbol and ncclX a weak alias of it. Both are exported, whatever
// -fvisibility is. The library itself calls neither, so a tool that interposes ncclX sees exactly
// the calls of the program.
//
// Every body begins with RONDO_ENTER (entered_call.h). RONDO_FUNCTION defines a function of
// rondo.h, or one that NVIDIA's library has without a twin.
//
// No exception leaves a function: its body is a try block, so a definition without RONDO_CATCH does
// not compile. An exception becomes the result and the last error. RONDO_CATCH_GIVING(value) is for
// functions that do not return an ncclResult_t.
//
//   RONDO_API_FUNCTION(ncclResult_t, GetVersion, int* version) {
//     RONDO_ENTER(GetVersion);
//     ...
//   }
//   RONDO_CATCH
#pragma once

#include <cxxabi.h>

#include "api/entered_call.h"
#include "api/errors.h"
#include "api/nccl.h"

#define RONDO_EXPORT extern "C" __attribute__((visibility("default")))

#define RONDO_API_FUNCTION(ret, name, ...)                                              \
  RONDO_EXPORT ret pnccl##name(__VA_ARGS__);                                            \
  RONDO_EXPORT __attribute__((weak, alias("pnccl" #name))) ret nccl##name(__VA_ARGS__); \
  ret pnccl##name(__VA_ARGS__) try

#define RONDO_FUNCTION(ret, name, ...) RONDO_EXPORT ret name(__VA_ARGS__) try

// A cancelled thread (pthread_cancel) continues to unwind.
#define RONDO_CATCH_GIVING(...)                   \
  catch (abi::__forced_unwind&) {                 \
    throw;                                        \
  }                                               \
  catch (...) {                                   \
    (void)rondo::api::report_exception(__func__); \
    return __VA_ARGS__;                           \
  }
#define RONDO_CATCH                                \
  catch (abi::__forced_unwind&) {                  \
    throw;                                         \
  }                                                \
  catch (...) {                                    \
    return rondo::api::report_exception(__func__); \
  }
