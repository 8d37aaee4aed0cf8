// SPDX-License-Identifier: Apache-2.0
// A free TCP port outside the kernel's ephemeral range.
//
// Another test's outgoing connection, or its listener on port 0, cannot take such a port between
// this call and its use.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>

#include "base/fd.h"

namespace rondo::test {

inline std::uint16_t reserved_port() {
  static unsigned turn = 0;
  for (unsigned tries = 0; tries < 5000; ++tries) {
    const auto port =
        static_cast<std::uint16_t>(15000 + (static_cast<unsigned>(getpid()) * 37 + turn++) % 15000);
    const Fd probe(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    if (bind(probe.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) return port;
  }
  return 0;
}

}  // namespace rondo::test
