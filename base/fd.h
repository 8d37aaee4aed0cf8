// SPDX-License-Identifier: Apache-2.0
// Fd: an owned file descriptor, closed on destruction. Move only; -1 is "none".
//
// Guarantees: the descriptor is 3 or above. If a program runs with standard input, output or error
// closed, the kernel gives numbers 0 to 2 to the next files, sockets and eventfds, and the program
// would print to or read from Rondo's descriptors. So Fd moves a descriptor of 0, 1 or 2 to 3 or
// above. If no such number is free, the descriptor is closed, the Fd is empty, and errno is EMFILE,
// as if the open had failed. net::Socket does the same. Cost: a comparison.
//
//   const Fd file(::open(path, O_RDONLY | O_CLOEXEC));
//   if (!file) return fail_errno(errno, "cannot open {}", path);
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace rondo {

// Moves a descriptor of 0, 1 or 2 and makes it close-on-exec; returns any other number unchanged.
inline constexpr int kFirstFd = STDERR_FILENO + 1;
inline int above_standard(int fd) {
  if (fd < 0 || fd >= kFirstFd) return fd;
  const int moved = ::fcntl(fd, F_DUPFD_CLOEXEC, kFirstFd);
  const int error = errno == EINVAL ? EMFILE : errno;  // EINVAL: ulimit -n is 3 or less
  ::close(fd);
  errno = error;
  return moved;
}

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(above_standard(fd)) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) take(std::exchange(other.fd_, -1));
    return *this;
  }
  ~Fd() { take(-1); }

  // A second descriptor of the same file, close-on-exec; empty if the system refuses it.
  static Fd duplicate_of(int fd) { return Fd(::fcntl(fd, F_DUPFD_CLOEXEC, kFirstFd)); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  explicit operator bool() const { return valid(); }
  int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1) { take(above_standard(fd)); }

 private:
  void take(int fd) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }

  int fd_ = -1;
};

}  // namespace rondo
