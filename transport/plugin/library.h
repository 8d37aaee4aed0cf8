// SPDX-License-Identifier: Apache-2.0
// Finds, loads and logs for libraries with one of NCCL's plugin interfaces.
//
// Guarantees: errors name the value, the variable and the remedy. Cost: one dlopen().
//
//   RONDO_TRY(void* const library, plugin::open_library(plugin::kTuner, "libnccl-tuner-x.so"));
#pragma once

#include <functional>
#include <string>

#include "base/result.h"

namespace rondo::plugin {

struct Kind {
  const char* what;      // "network plugin"
  const char* prefix;    // of library names: "libnccl-net"
  const char* variable;  // "NCCL_NET_PLUGIN"
  const char* symbol;    // a number follows: "ncclNetPlugin_v"
};
inline constexpr Kind kNetwork{"network plugin", "libnccl-net", "NCCL_NET_PLUGIN",
                               "ncclNetPlugin_v"};
inline constexpr Kind kTuner{"tuner plugin", "libnccl-tuner", "NCCL_TUNER_PLUGIN",
                             "ncclTunerPlugin_v"};
inline constexpr Kind kProfiler{"profiler plugin", "libnccl-profiler", "NCCL_PROFILER_PLUGIN",
                                "ncclProfiler_v"};

// The program itself has the plugin's symbols.
inline constexpr const char* kStaticPlugin = "STATIC_PLUGIN";

// The file for a value of the variable. With '/': a path; with ".so": a library name; else a suffix
// of the prefix. Empty: the library of the prefix itself. "none": returns "". kStaticPlugin:
// itself.
std::string file_of(const Kind& kind, const std::string& value);

// file: of file_of().
Result<void*> open_library(const Kind& kind, const std::string& file);

// The plugin's table of the newest version from `newest` down to `oldest` that the library has.
struct Symbol {
  const void* address;
  int version;
};
Result<Symbol> newest_symbol(const Kind& kind, void* library, const std::string& file, int oldest,
                             int newest);

// "ncclSystemError"
const char* name_of_result(int result);

// The log function for plugins. NCCL's level 2 is WARN, 1 and 3 are INFO; filtered by subsystem.
using Logger = void (*)(int level, unsigned long subsystems, const char* file, int line,
                        const char* format, ...);
extern const Logger kLogger;

// crash_of(): runs a function of a plugin that may crash, and returns the signal of its crash.
//
// For functions that run once, such as init: other threads that use it meanwhile wait. Guarantees:
// a crash of this thread (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT) ends the function, not the
// process; a crash of another thread meanwhile does what it would do without this. An exception
// passes through. In every case the program's signal handlers are back. Locks and memory that the
// plugin held stay so, and its stack must not have overflowed. Cost: ten system calls.
//
//   if (const int signal = crash_of([&] { result = table.init(&context); }); signal != 0)
//     return fail(StatusCode::kSystemError, "{} crashed in init ({})", name, strsignal(signal));
int crash_of(const std::function<void()>& function);  // 0: it has returned

}  // namespace rondo::plugin
