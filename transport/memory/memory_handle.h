// SPDX-License-Identifier: Apache-2.0
// MemoryHandle: identifies memory of one process, so that another process of the host can map it: a
// file of host memory or of a GPU's virtual memory, or a CUDA IPC handle. A fabric handle is for
// processes of other hosts.
//
// The plain part is in shared memory or in any message. Files are sent separately over a Unix
// socket, those of many handles together. Guarantees: a file keeps its memory alive, whatever its
// owner does; a CUDA IPC handle does not. Every wait ends at the caller's deadline. Cost: one
// message per 32 files, and one message if there are none.
#pragma once

#include <cstdint>
#include <vector>

#include "base/fd.h"
#include "base/gpu.h"
#include "base/process.h"
#include "transport/shm/unix_socket.h"

namespace rondo::gpu {

struct PlainHandle {
  enum Kind : std::uint64_t { kNone, kIpc, kFile, kFabric };
  Kind kind = kNone;  // kNone: the memory cannot be shared
  ProcessId process{};
  std::uint64_t number = 0;           // the block's number in its process; 0: not registered
  std::uint64_t base = 0, bytes = 0;  // the whole allocation, in its process
  GpuIpcHandle ipc{};                 // kIpc; the bytes of a fabric handle: kFabric
};

struct MemoryHandle {
  PlainHandle plain;
  Fd file;                     // kFile
  MemoryHandle clone() const;  // with a duplicate of the file
};

// Sends the files of the handles; the other process gets their plain parts by other means.
Status send_files(int socket, const std::vector<const MemoryHandle*>& handles,
                  const net::Deadline& deadline);
// Receives these files. Reads the plain parts only once the files have arrived.
Result<std::vector<MemoryHandle>> receive_handles(int socket,
                                                  const std::vector<const PlainHandle*>& plain,
                                                  const net::Deadline& deadline);

}  // namespace rondo::gpu
