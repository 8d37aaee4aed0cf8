// SPDX-License-Identifier: Apache-2.0
// on_trace_signal(): runs a function on a thread of its own after the process gets a signal.
//
// Guarantees: each signal is followed by a run that begins after it; signals that come during a run
// share the next one. The handler itself only posts a semaphore; system calls that it interrupts
// are restarted. A signal that the program handles or ignores itself is refused. Cost: one thread
// that sleeps. Call it once in a process.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"

namespace rondo::trace {

// signal: "USR2", "SIGUSR2" or "12". The function is called until the process ends.
Status on_trace_signal(const std::string& signal, std::function<void()> run);

}  // namespace rondo::trace
