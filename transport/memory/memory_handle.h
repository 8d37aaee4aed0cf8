// MemoryHandle: how processes of a host name memory to each other, so that the other one may map
// it: a memory file of the host or of a GPU's virtual memory, or a CUDA IPC handle.
//
// Its plain part lies where both look, or travels in any message; files travel beside it over a
// Unix socket, those of many handles together. Guarantees: a file keeps its memory alive, whatever
// its owner does; a CUDA IPC handle does not. All waits end with their caller's deadline. Cost: a
// message for every 32 files, and one where there are none.
#pragma once

#include <cstdint>
#include <vector>

#include "base/fd.h"
#include "base/gpu.h"
#include "base/process.h"
#include "transport/shm/fd_passing.h"

namespace rondo::gpu {

struct PlainHandle {
  enum Kind : std::uint64_t { kNone, kIpc, kFile };
  Kind kind = kNone;  // none: the memory cannot be shared
  ProcessId process{};
  std::uint64_t number = 0;           // of the block in its process; 0: it is in no registry
  std::uint64_t base = 0, bytes = 0;  // of the whole allocation, as its process sees it
  GpuIpcHandle ipc{};                 // kIpc
};

struct MemoryHandle {
  PlainHandle plain;
  Fd file;                     // kFile
  MemoryHandle clone() const;  // with a descriptor of its own
};

// The files of handles whose plain parts the other process finds by itself.
Status send_files(int socket, const std::vector<const MemoryHandle*>& handles,
                  const net::Deadline& deadline);
// The other end. The plain parts are looked at when the files are here.
Result<std::vector<MemoryHandle>> receive_handles(int socket,
                                                  const std::vector<const PlainHandle*>& plain,
                                                  const net::Deadline& deadline);

}  // namespace rondo::gpu
