// Libraries with one of NCCL's plugin interfaces: what a variable's value stands for, loading, and
// what plugins log.
//
// Guarantees: errors name the value, the variable and the remedy. Cost: a dlopen().
//
//   RONDO_TRY(void* const library, plugin::open_library(plugin::kTuner, "libnccl-tuner-x.so"));
#pragma once

#include <string>

#include "base/result.h"

namespace rondo::plugin {

struct Kind {
  const char* what;      // "network plugin"
  const char* prefix;    // of libraries' names: "libnccl-net"
  const char* variable;  // "NCCL_NET_PLUGIN"
};
inline constexpr Kind kNetwork{"network plugin", "libnccl-net", "NCCL_NET_PLUGIN"};
inline constexpr Kind kTuner{"tuner plugin", "libnccl-tuner", "NCCL_TUNER_PLUGIN"};

// What a value of the variable stands for: a path where it has a '/', a library's name where it has
// ".so", else what comes after the prefix; without a value the prefix's own library; "": "none".
std::string file_of(const Kind& kind, const std::string& value);

Result<void*> open_library(const Kind& kind, const std::string& file);

// "ncclSystemError"
const char* name_of_result(int result);

// What plugins log, under NCCL's levels: 2 warns, 3 tells, if one of the subsystems is wanted.
using Logger = void (*)(int level, unsigned long subsystems, const char* file, int line,
                        const char* format, ...);
extern const Logger kLogger;

}  // namespace rondo::plugin
