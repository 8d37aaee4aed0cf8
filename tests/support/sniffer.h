// SPDX-License-Identifier: Apache-2.0
// Sniffer: captures all TCP bytes on the loopback of a separate network namespace, as an
// eavesdropper would.
//
// enter() moves the calling process into a new namespace (fork before). bytes() returns all bytes
// sent since then, per direction of each connection, one after the other. Limit: 64 MiB of kernel
// memory. Needs root or user namespaces.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "base/fd.h"

namespace rondo::test {

class Sniffer {
 public:
  static std::optional<Sniffer> enter();  // nullopt if this is not permitted
  std::vector<std::byte> bytes();

 private:
  explicit Sniffer(Fd socket) : socket_(std::move(socket)) {}
  Fd socket_;
};

}  // namespace rondo::test
