// SPDX-License-Identifier: Apache-2.0
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
#pragma once

#include <functional>

namespace rondo::plugin {

int crash_of(const std::function<void()>& function);  // 0: it has returned

}  // namespace rondo::plugin
