// SPDX-License-Identifier: Apache-2.0
// Logging with NCCL's levels, variables and line format (NCCL_DEBUG, NCCL_DEBUG_FILE, ...).
//
// Guarantees: one write(2) per line, so that lines of several processes never mix. An error is
// logged once, by the function that detects it. Cost: a level test if the line is not wanted; never
// called in a data path.
//
//   RONDO_INFO(kInit, "rank {} of {} ready", rank, size);
#pragma once

#include <fmt/format.h>

#include <string>

namespace rondo::log {

enum class Level { kNone = 0, kVersion = 1, kWarn = 2, kInfo = 3, kTrace = 5 };

// NCCL_DEBUG_SUBSYS names.
enum Subsystem : unsigned {
  kInit = 1,
  kColl = 2,
  kNet = 4,
  kGraph = 8,
  kTuning = 16,
  kEnv = 32,
  kShm = 64,
  kBootstrap = 128,
  kAll = ~0u
};

bool wanted(Level level, unsigned subsystem = kAll);
void write_line(Level level, const char* file, int line, const std::string& text);
void reset();  // the next use reads the variables again (ncclResetDebugInit)

}  // namespace rondo::log

#define RONDO_WARN(...)                                                        \
  do {                                                                         \
    if (::rondo::log::wanted(::rondo::log::Level::kWarn))                      \
      ::rondo::log::write_line(::rondo::log::Level::kWarn, __FILE__, __LINE__, \
                               fmt::format(__VA_ARGS__));                      \
  } while (0)
#define RONDO_INFO(subsystem, ...)                                                 \
  do {                                                                             \
    if (::rondo::log::wanted(::rondo::log::Level::kInfo, ::rondo::log::subsystem)) \
      ::rondo::log::write_line(::rondo::log::Level::kInfo, __FILE__, __LINE__,     \
                               fmt::format(__VA_ARGS__));                          \
  } while (0)

namespace rondo {

// notice(): tells the user that something which the user has asked for cannot be done.
//
// A WARN line of the log where NCCL_DEBUG asks for those; else one line on standard error: without
// NCCL_DEBUG the log is silent, and the user would look for the result in vain. Not for errors that
// a call returns. Cost: one write(2).
//
//   notice(fmt::format("RONDO_METRICS={}: {}; the job goes on without metrics", text, why));
void notice(const std::string& text);

}  // namespace rondo
