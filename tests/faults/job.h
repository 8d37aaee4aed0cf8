// SPDX-License-Identifier: Apache-2.0
// Runs one job of two ranks through its stages. A call fails in one of the stages.
//
// A job's ranks are threads of one process, or processes, on one host or on two pretended ones
// (NCCL_HOSTID, over TCP). Each round starts with new communicators: first a clean round, which
// makes what lives as long as the process (skipped if the job is cold); then the one with the
// fault; then a clean one. Afterwards the process has as many descriptors, mappings and threads as
// before the fault.
#pragma once

#include <cstdint>
#include <string>

#include "tests/faults/injector.h"

namespace rondo::test {

enum class Setting { kThreads, kProcesses, kHosts, kCold, kCount };
enum class Stage { kInit, kCall, kStream, kMessage, kSplit, kDestroy, kCount };
std::string_view name_of(Setting setting);
std::string_view name_of(Stage stage);

struct Injection {
  Setting setting = Setting::kThreads;
  Stage stage = Stage::kInit;
  Kind kind = Kind::kNone;
  std::uint64_t nth = 0;  // 0: none fails, calls are only counted
  int victim = 0;         // the rank whose process gets the fault
};

struct Verdict {
  bool fired = false;
  std::uint64_t calls = 0;
  std::string complaint;  // empty: passed
};

// Runs in separate processes, which are killed after `seconds`; that is a complaint.
Verdict run_job(const Injection& injection, double seconds);

}  // namespace rondo::test
