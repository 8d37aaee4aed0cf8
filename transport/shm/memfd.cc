// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/memfd.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <utility>

#include "topology/memory_headroom.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace rondo::shm {
namespace {

constexpr std::size_t kMaxFileBytes = std::numeric_limits<off_t>::max();

Error cannot_map(std::size_t bytes) {
  return fail_errno(errno, "cannot map {} bytes of shared memory (ulimit -v, vm.max_map_count?)",
                    bytes);
}

Fd new_memfd(const char* name) { return Fd(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING)); }

Result<Fd> sized_and_sealed(Fd fd, const char* name, std::size_t bytes) {
  if (const std::size_t limit = max_file_bytes(); bytes > limit)  // would be a SIGXFSZ
    return fail(StatusCode::kSystemError,
                "shared memory \"{}\" is a file of {} bytes, and ulimit -f allows this process "
                "files of {} bytes at most: raise it (ulimit -f unlimited)",
                name, bytes, limit);
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0)
    return fail_errno(errno, "cannot size shared memory \"{}\" to {} bytes", name, bytes);
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return fail_errno(errno, "cannot seal shared memory \"{}\"", name);
  return fd;
}

}  // namespace

std::size_t max_file_bytes() {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur > kMaxFileBytes) return kMaxFileBytes;
  return static_cast<std::size_t>(limit.rlim_cur);
}

Result<Fd> create_memfd(const char* name, std::size_t bytes) {
  Fd fd = new_memfd(name);
  if (!fd) return fail_errno(errno, "memfd_create(\"{}\")", name);
  return sized_and_sealed(std::move(fd), name, bytes);
}

Result<Fd> create_memfd_if_permitted(const char* name, std::size_t bytes) {
  Fd fd = new_memfd(name);
  if (fd) return sized_and_sealed(std::move(fd), name, bytes);
  if (errno == EPERM || errno == EACCES || errno == ENOSYS) return fd;
  return fail_errno(errno, "memfd_create(\"{}\")", name);
}

Result<std::size_t> sealed_bytes(int fd) {
  constexpr int kNeeded = F_SEAL_SHRINK | F_SEAL_SEAL;
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & kNeeded) != kNeeded)
    return fail(StatusCode::kRemoteError,
                "the received shared memory is not a memory file that is sealed against shrinking");
  struct stat info {};
  if (fstat(fd, &info) != 0) return fail_errno(errno, "cannot stat shared memory");
  return static_cast<std::size_t>(info.st_size);
}

Result<Mapping> Mapping::map(int fd, std::size_t bytes, std::size_t offset, std::size_t alignment) {
  Mapping room;
  void* at = nullptr;
  if (alignment > 0) {
    RONDO_TRY(room, reserve(bytes + alignment));
    const auto begin = reinterpret_cast<std::uintptr_t>(room.data_);
    at = room.data_ + ((begin + alignment - 1) / alignment * alignment - begin);
  }
  void* data = mmap(
      at, bytes, PROT_READ | PROT_WRITE,
      MAP_SHARED | MAP_NORESERVE | (at != nullptr ? MAP_FIXED : 0) | (fd < 0 ? MAP_ANONYMOUS : 0),
      fd, static_cast<off_t>(offset));
  if (data == MAP_FAILED) return cannot_map(bytes);
  if (at != nullptr) {
    std::byte* const end = room.data_ + room.size_;
    std::byte* const begin = std::exchange(room.data_, nullptr);
    auto* const mapped = static_cast<std::byte*>(data);
    if (mapped > begin) munmap(begin, static_cast<std::size_t>(mapped - begin));
    if (end > mapped + bytes)
      munmap(mapped + bytes, static_cast<std::size_t>(end - mapped) - bytes);
  }
  return Mapping(data, bytes);
}

Result<Mapping> Mapping::reserve(std::size_t bytes) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) return cannot_map(bytes);
  return Mapping(data, bytes);
}

Result<Mapping> map_received(int fd, std::size_t bytes) {
  RONDO_TRY(const std::size_t there, sealed_bytes(fd));
  if (there != bytes)
    return fail(StatusCode::kRemoteError,
                "shared memory has {} bytes where {} are expected: use one build of Rondo "
                "everywhere",
                there, bytes);
  return Mapping::map(fd, bytes);
}

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Mapping::~Mapping() {
  if (data_ != nullptr) munmap(data_, size_);
}

Status commit(void* at, std::size_t bytes, const char* what) {
  static const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(at) & ~(page - 1);
  const auto end = (reinterpret_cast<std::uintptr_t>(at) + bytes + page - 1) & ~(page - 1);
  if (begin == end) return ok_status();
  static auto& headroom = *new topology::HeadroomReadings;  // for threads that outlive main
  if (const auto room = headroom.lacks_room_for(end - begin))
    return fail(StatusCode::kSystemError,
                "no memory for {} bytes of {}: the memory limit of this process's cgroup leaves {}",
                bytes, what, *room);
  if (madvise(reinterpret_cast<void*>(begin), end - begin, MADV_POPULATE_WRITE) == 0)
    return ok_status();
  if (errno == EINVAL) return ok_status();  // kernels before 5.14: at first touch
  return fail_errno(errno, "no memory for {} bytes of {} (memory or cgroup limit reached)", bytes,
                    what);
}

}  // namespace rondo::shm
