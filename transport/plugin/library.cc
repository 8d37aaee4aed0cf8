// SPDX-License-Identifier: Apache-2.0
#include "transport/plugin/library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <strings.h>
#include <sys/stat.h>

#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <iterator>
#include <mutex>

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

namespace {

constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

// Signal handlers belong to the process: one guard at a time.
struct Guard {
  std::mutex mutex;
  pthread_t thread{};
  sigjmp_buf before{};
  struct sigaction replaced[std::size(kSignals)]{};
};
Guard& guard() {
  static auto& one = *new Guard;
  return one;
}

void on_signal(int signal, siginfo_t* about, void* context) {
  Guard& one = guard();
  if (pthread_equal(pthread_self(), one.thread) != 0) siglongjmp(one.before, signal);
  for (std::size_t i = 0; i < std::size(kSignals); ++i) {
    if (kSignals[i] != signal) continue;
    const struct sigaction& old = one.replaced[i];
    if ((old.sa_flags & SA_SIGINFO) != 0) return old.sa_sigaction(signal, about, context);
    if (old.sa_handler == SIG_IGN) return;
    if (old.sa_handler != SIG_DFL) return old.sa_handler(signal);
    sigaction(signal, &old, nullptr);
    raise(signal);
  }
}

// The program's own handlers come back on every path, also if the function throws.
class Handlers {
 public:
  explicit Handlers(Guard& one) : one_(one) {
    struct sigaction action {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    for (std::size_t i = 0; i < std::size(kSignals); ++i)
      sigaction(kSignals[i], &action, &one_.replaced[i]);
  }
  ~Handlers() {
    for (std::size_t i = 0; i < std::size(kSignals); ++i)
      sigaction(kSignals[i], &one_.replaced[i], nullptr);
  }
  Handlers(const Handlers&) = delete;
  Handlers& operator=(const Handlers&) = delete;

 private:
  Guard& one_;
};

}  // namespace

int crash_of(const std::function<void()>& function) {
  Guard& one = guard();
  std::lock_guard lock(one.mutex);
  one.thread = pthread_self();
  const Handlers installed(one);
  const int crash = sigsetjmp(one.before, 1);
  if (crash == 0) function();
  return crash;
}

}  // namespace rondo::plugin
