// SPDX-License-Identifier: Apache-2.0
// Memory files: anonymous shared memory that exists as long as a process has it open or mapped.
//
// Guarantees: nothing appears in /dev/shm, even after SIGKILL. The file is sealed and cannot
// shrink, so a mapped page is missing only if memory runs out; commit() returns an error then,
// instead of a SIGBUS. commit() first checks the memory limits of the process's cgroups, because
// the kernel kills a process that exceeds them; it can still do so if other processes of the cgroup
// allocate at the same time. A file larger than ulimit -f is an error that names both sizes,
// instead of a SIGXFSZ. Cost: commit() allocates and maps its pages, once, and reads some small
// files.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/fd.h"
#include "base/result.h"

namespace rondo::shm {

// Maximum size of a file that this process creates (ulimit -f).
std::size_t max_file_bytes();

// A file of `bytes` (sparse: no memory is used yet), sealed against shrinking and growing.
Result<Fd> create_memfd(const char* name, std::size_t bytes);
// Like create_memfd(), but returns an invalid Fd if memory files are not permitted (seccomp).
Result<Fd> create_memfd_if_permitted(const char* name, std::size_t bytes);

// Size of a memory file that is sealed against shrinking; an error for any other file.
Result<std::size_t> sealed_bytes(int fd);

// A read-write mapping, unmapped on destruction.
class Mapping {
 public:
  // fd -1: anonymous memory, shared with children of this process. `offset` and the address are
  // multiples of `alignment`, a power of two; 0: of the page size.
  static Result<Mapping> map(int fd, std::size_t bytes, std::size_t offset = 0,
                             std::size_t alignment = 0);
  // Private zeroed memory; a page uses memory only once it is written.
  static Result<Mapping> reserve(std::size_t bytes);
  Mapping() = default;
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  Mapping(void* data, std::size_t size) : data_(static_cast<std::byte*>(data)), size_(size) {}

  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// Maps a whole file received from another process; its size must be exactly `bytes`.
Result<Mapping> map_received(int fd, std::size_t bytes);

// Makes [at, at + bytes) present and writable before it is touched. `what` names the memory's use.
Status commit(void* at, std::size_t bytes, const char* what);

}  // namespace rondo::shm
