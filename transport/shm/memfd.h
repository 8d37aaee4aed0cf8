// Memory files: anonymous shared memory that lives exactly as long as somebody has it open or
// mapped.
//
// Guarantees: nothing appears in /dev/shm, also after SIGKILL; the file cannot shrink (sealed), so
// a mapped page can only be missing for lack of memory. commit() turns that into an error text
// instead of a SIGBUS, and looks first whether the memory limits of the process's cgroups have
// room: past these the kernel kills. It may still do so where others of the group take the room
// meanwhile. A file beyond ulimit -f is an error that names both sizes, instead of a SIGXFSZ.
// Cost: commit() allocates and maps the pages it names, once, and reads some small files.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/fd.h"
#include "base/result.h"

namespace rondo::shm {

// How long this process may make files (ulimit -f).
std::size_t max_file_bytes();

// A file of `bytes` (sparse: no memory is used yet), sealed against shrinking and growing.
Result<Fd> create_memfd(const char* name, std::size_t bytes);
// None where the kernel lets this process make no memory files (seccomp).
Result<Fd> create_memfd_if_permitted(const char* name, std::size_t bytes);

// The size of a memory file that cannot shrink any more; an error for every other file.
Result<std::size_t> sealed_bytes(int fd);

// A read-write mapping, unmapped on destruction.
class Mapping {
 public:
  // Without a file (-1): memory of this process and its children. `offset` and the address are
  // multiples of `alignment`, a power of two; 0: of pages.
  static Result<Mapping> map(int fd, std::size_t bytes, std::size_t offset = 0,
                             std::size_t alignment = 0);
  // Private memory that reads as zeros until it is written, and costs nothing until then.
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

// Maps the whole of a file that another process sent, which must have exactly `bytes` bytes.
Result<Mapping> map_received(int fd, std::size_t bytes);

// Makes [at, at + bytes) present and writable before it is touched. `what` names the memory's use.
Status commit(void* at, std::size_t bytes, const char* what);

}  // namespace rondo::shm
