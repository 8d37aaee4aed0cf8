// SPDX-License-Identifier: Apache-2.0
// A free TCP port outside the kernel's ephemeral range.
//
// Another test's outgoing connection, or its listener on port 0, cannot take such a port between
// this call and its use. Another process of the tests does not get it either, until this process
// and its children have ended: a Unix socket holds a name with the number. Cost: a descriptor.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/fd.h"

namespace rondo::test {

// Invalid if another process holds the name of this port.
inline Fd reservation_of(std::uint16_t port) {
  Fd holder(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const std::string name = "rondo-test-port-" + std::to_string(port);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());  // abstract: ends with its socket
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (bind(holder.get(), reinterpret_cast<sockaddr*>(&address), length) != 0) holder.reset();
  return holder;
}

inline std::uint16_t reserved_port() {
  static std::vector<Fd> reservations;
  static unsigned turn = 0;
  for (unsigned tries = 0; tries < 5000; ++tries) {
    const auto port =
        static_cast<std::uint16_t>(15000 + (static_cast<unsigned>(getpid()) * 37 + turn++) % 15000);
    const Fd probe(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    if (bind(probe.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) continue;
    if (Fd reservation = reservation_of(port); reservation.valid()) {
      reservations.push_back(std::move(reservation));
      return port;
    }
  }
  return 0;
}

}  // namespace rondo::test
