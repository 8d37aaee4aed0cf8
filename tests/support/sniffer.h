// Sniffer: what a listener on the network hears: all TCP bytes on the loopback of a network
// namespace of its own.
//
// enter() moves the calling process into a new namespace (fork before); bytes() is all that was
// said since, per direction of each connection, one after the other. Bounded by 64 MiB of kernel
// memory. Needs root or user namespaces.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "base/fd.h"

namespace rondo::test {

class Sniffer {
 public:
  static std::optional<Sniffer> enter();  // nothing where this is not allowed
  std::vector<std::byte> bytes();

 private:
  explicit Sniffer(Fd socket) : socket_(std::move(socket)) {}
  Fd socket_;
};

}  // namespace rondo::test
