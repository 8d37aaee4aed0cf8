// ProcessMemory: reads the memory of another process of this host (process_vm_readv, also called
// CMA).
//
// The kernel allows it between processes of one user, unless a sandbox, Yama or a namespace forbids
// it. The id of the process is read with the data, in the same system call: a process that got the
// pid later has another id.
// Guarantees: if read() returns 0, all bytes came from the process with this id. It changes nothing
// there. Cost: a system call of about 1.5 us, and 0.26 us for each page.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/process.h"

namespace rondo {

struct ProcessMemory {
  std::int32_t pid = 0;     // in this process's PID namespace; 0: its memory cannot be read
  std::uint64_t id_at = 0;  // address of its id there
  ProcessId id{};

  // Copies memory at `from` of that process. 0, or the error number: EFAULT if it has no such
  // memory, ESRCH if it has ended. After an error, `to` holds any bytes.
  int read(void* to, std::uint64_t from, std::size_t bytes) const;
};

}  // namespace rondo
