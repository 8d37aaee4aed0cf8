// SPDX-License-Identifier: Apache-2.0
#include "base/random_bytes.h"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <system_error>

#include "base/fd.h"

namespace rondo {

void fill_random(std::span<std::byte> bytes) {
  assert(bytes.size() <= 256);
  const auto wanted = static_cast<ssize_t>(bytes.size());
  while (getrandom(bytes.data(), bytes.size(), 0) != wanted) {
    if (errno == EINTR) continue;
    const int error = errno;
    const Fd device(::open("/dev/urandom", O_RDONLY | O_CLOEXEC));
    if (device && ::read(device.get(), bytes.data(), bytes.size()) == wanted) break;
    throw std::system_error(error, std::generic_category(),
                            "no random bytes, neither by getrandom nor from /dev/urandom");
  }
}

}  // namespace rondo
