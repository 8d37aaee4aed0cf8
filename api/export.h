// RONDO_API_FUNCTION: defines one function of nccl.h with its profiling twin.
//
// Guarantees: pncclX is strong, ncclX a weak alias of it, both visible outside the library whatever
// -fvisibility says. Nothing inside the library calls either, so that a tool that interposes ncclX
// sees exactly the calls of the program.
//
// Each begins with RONDO_ENTER (entered_call.h).
//
//   RONDO_API_FUNCTION(ncclResult_t, GetVersion, int* version) {
//     RONDO_ENTER(GetVersion);
//     ...
#pragma once

#include "api/entered_call.h"
#include "api/nccl.h"

#define RONDO_EXPORT extern "C" __attribute__((visibility("default")))

#define RONDO_API_FUNCTION(ret, name, ...)                                              \
  RONDO_EXPORT ret pnccl##name(__VA_ARGS__);                                            \
  RONDO_EXPORT __attribute__((weak, alias("pnccl" #name))) ret nccl##name(__VA_ARGS__); \
  ret pnccl##name(__VA_ARGS__)
