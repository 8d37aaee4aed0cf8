// SPDX-License-Identifier: Apache-2.0
// This process: an identity that no other process has, and whether it is a forked child. And
// ProcessMemory, which reads another process's memory.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace rondo {

// 128 random bits, drawn at first use. A forked child draws new ones.
using ProcessId = std::array<std::uint64_t, 2>;
const ProcessId& this_process();

// Number of forks between the process that loaded the library and this one. An object stores the
// value at its creation. If it differs later, the object belongs to the parent. Cost: one load.
extern std::atomic<std::uint32_t> forks_so_far;
inline std::uint32_t fork_generation() { return forks_so_far.load(std::memory_order_relaxed); }

// Reads the memory of another process of this host (process_vm_readv, also called CMA).
//
// The kernel allows it between processes of one user, unless a sandbox, Yama or a namespace forbids
// it. The id of the process is read with the data, in the same system call: a process that got the
// pid later has another id.
// Guarantees: if read() returns 0, all bytes came from the process with this id. It changes nothing
// there. Cost: a system call of about 1.5 us, and 0.26 us for each page.
struct ProcessMemory {
  std::int32_t pid = 0;     // in this process's PID namespace; 0: its memory cannot be read
  std::uint64_t id_at = 0;  // address of its id there
  ProcessId id{};

  // Copies memory at `from` of that process. 0, or the error number: EFAULT if it has no such
  // memory, ESRCH if it has ended. After an error, `to` holds any bytes.
  int read(void* to, std::uint64_t from, std::size_t bytes) const;
};

// fill_random(): bytes that nobody can predict, for secrets and for names that must be unique.
//
// They come from getrandom(), or from /dev/urandom where a system call filter refuses that call or
// the kernel is older than Linux 3.17. Throws std::system_error if neither gives any: the C API and
// guarded() make an error of it. Cost: a system call of about 0.3 us.
//
//   Digest digest;
//   fill_random(std::as_writable_bytes(std::span(digest)));
//
// At most 256 bytes, which the kernel gives at once or not at all.
void fill_random(std::span<std::byte> bytes);

}  // namespace rondo
