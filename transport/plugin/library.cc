// SPDX-License-Identifier: Apache-2.0
#include "transport/plugin/library.h"

#include <dlfcn.h>
#include <strings.h>
#include <sys/stat.h>

#include <cstdarg>
#include <cstdio>

#include "base/log.h"
#include "base/printable.h"
#include "base/shared_library.h"

namespace rondo::plugin {
namespace {

bool is_file(const std::string& path) {
  struct stat facts {};
  return ::stat(path.c_str(), &facts) == 0;
}

// Maps NCCL's bits (ncclDebugLogSubSys) to Rondo's; only unknown bits: all subsystems.
unsigned subsystems_of(unsigned long foreign) {
  struct Row {
    unsigned long bit;
    log::Subsystem own;
  };
  constexpr Row kRows[] = {{0x1, log::kInit}, {0x2, log::kColl},        {0x8, log::kShm},
                           {0x10, log::kNet}, {0x20, log::kGraph},      {0x40, log::kTuning},
                           {0x80, log::kEnv}, {0x1000, log::kBootstrap}};
  unsigned bits = 0;
  for (const Row& row : kRows)
    if ((foreign & row.bit) != 0) bits |= row.own;
  return bits == 0 ? unsigned{log::kAll} : bits;
}

__attribute__((format(printf, 5, 6))) void log_line(int level, unsigned long subsystems,
                                                    const char*, int, const char* format, ...) {
  const bool warns = level == 2, informs = level == 1 || level == 3;
  const auto ours = warns ? log::Level::kWarn : log::Level::kInfo;
  if ((!warns && !informs) || !log::wanted(ours, subsystems_of(subsystems))) return;
  char line[1024];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof(line), format, arguments);
  va_end(arguments);
  log::write_line(ours, __FILE__, __LINE__, "plugin: " + printable(line));
}

}  // namespace

const Logger kLogger = log_line;

const char* name_of_result(int result) {
  static constexpr const char* kNames[] = {
      "ncclSuccess",         "ncclUnhandledCudaError", "ncclSystemError", "ncclInternalError",
      "ncclInvalidArgument", "ncclInvalidUsage",       "ncclRemoteError", "ncclInProgress"};
  return result >= 0 && result < 8 ? kNames[result] : "not a result code of NCCL";
}

std::string file_of(const Kind& kind, const std::string& value) {
  if (value.empty()) return fmt::format("{}.so", kind.prefix);
  if (strcasecmp(value.c_str(), "none") == 0) return "";
  if (strcasecmp(value.c_str(), kStaticPlugin) == 0) return kStaticPlugin;
  if (value.find('/') != std::string::npos || value.find(".so") != std::string::npos) return value;
  return fmt::format("{}-{}.so", kind.prefix, value);
}

Result<void*> open_library(const Kind& kind, const std::string& file) {
  auto library = load_library(file == kStaticPlugin ? "" : file);
  if (library.ok()) return library;
  if (file.find('/') != std::string::npos && !is_file(file))
    return fail(StatusCode::kInvalidUsage,
                "the {} {} does not exist: correct {}, or set it to none", kind.what,
                printable(file), kind.variable);
  return fail(StatusCode::kInvalidUsage,
              "the {} {} cannot be loaded: {}; correct {} or LD_LIBRARY_PATH, or set {} to none",
              kind.what, printable(file), printable(library.error().text), kind.variable,
              kind.variable);
}

Result<Symbol> newest_symbol(const Kind& kind, void* library, const std::string& file, int oldest,
                             int newest) {
  for (int version = newest; version >= oldest; --version)
    if (const void* const at = dlsym(library, fmt::format("{}{}", kind.symbol, version).c_str()))
      return Symbol{at, version};
  return fail(StatusCode::kInvalidUsage,
              "the library {} is not a {}: it has none of the symbols {}{} to {}{}; set {} to "
              "another one, or to none",
              printable(file), kind.what, kind.symbol, oldest, kind.symbol, newest, kind.variable);
}

}  // namespace rondo::plugin
