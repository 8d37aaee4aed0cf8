// RONDO_API_FUNCTION: defines one function of nccl.h with its profiling twin.
//
// Guarantees: pncclX is strong, ncclX a weak alias of it, both visible outside the library whatever
// -fvisibility says. Nothing inside the library calls either, so that a tool that interposes ncclX
// sees exactly the calls of the program.
//
// Each begins with RONDO_ENTER (entered_call.h). RONDO_FUNCTION defines one of rondo.h, or of the
// few that NVIDIA's library has without a twin.
//
// No exception leaves a function: its body is a try block, so that a definition without RONDO_CATCH
// after it does not compile. What was thrown is returned as a result and kept as the last error;
// RONDO_CATCH_GIVING(value) is for functions that return no result.
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

// A thread that is cancelled goes on unwinding.
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
