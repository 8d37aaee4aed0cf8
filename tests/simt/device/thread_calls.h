// SPDX-License-Identifier: Apache-2.0
// Which calls of the driver the library's own threads may make.
//
// A thread that other ranks wait for must make no call that may wait for work of a stream: that
// work may wait for one of these ranks. thread_calls.cc lists what each thread may call; every call
// of the table (base/gpu.h) is checked. Threads are known by their names (base/thread.h); those of
// programs, and of tests, may call anything. Cost: a search in a list, on these threads only.
#pragma once

namespace rondo::simt {

// Reports Violation::kThread if this thread's list does not have the call, a member of GpuApi.
void check_thread(const char* call);

}  // namespace rondo::simt
