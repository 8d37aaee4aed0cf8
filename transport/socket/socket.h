// Socket: an owned descriptor of a socket (or eventfd) that a forked child does not keep open.
//
// Guarantees: the descriptor is 3 or above (base/fd.h). fork() closes it in the child, so that
// peers see the end of this process even while its children live on. In the child get() is -1 and
// nothing is closed twice. (Descriptors above 65535 are closed only on exec.) Cost: one atomic
// operation at open and at close.
//
//   Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
#pragma once

#include <cstdint>
#include <utility>

#include "base/process.h"

namespace rondo::net {

class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd);
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)), born_(other.born_) {}
  Socket& operator=(Socket&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
      born_ = other.born_;
    }
    return *this;
  }
  ~Socket() { reset(); }

  int get() const { return born_ == fork_generation() ? fd_ : -1; }
  bool valid() const { return get() >= 0; }
  explicit operator bool() const { return valid(); }
  void reset();

 private:
  int fd_ = -1;
  std::uint32_t born_ = 0;  // fork_generation() at open
};

}  // namespace rondo::net
