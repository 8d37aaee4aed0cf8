// SPDX-License-Identifier: Apache-2.0
#include "base/fd.h"

#include <fcntl.h>

#include <cerrno>

namespace rondo {
namespace {

constexpr int kFirst = STDERR_FILENO + 1;

}  // namespace

int above_standard(int fd) {
  if (fd < 0 || fd >= kFirst) return fd;
  const int moved = ::fcntl(fd, F_DUPFD_CLOEXEC, kFirst);
  const int error = errno == EINVAL ? EMFILE : errno;  // EINVAL: ulimit -n is 3 or less
  ::close(fd);
  errno = error;
  return moved;
}

Fd Fd::duplicate_of(int fd) { return Fd(::fcntl(fd, F_DUPFD_CLOEXEC, kFirst)); }

}  // namespace rondo
