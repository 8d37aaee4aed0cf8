// Vigilance: the time after which a silent host counts as dead. The kernel's TCP timers enforce it.
#pragma once

#include "transport/streams/stream.h"

namespace rondo::net {

struct Vigilance {
  int seconds = 20;  // RONDO_NET_TIMEOUT
};

// Makes the kernel end a connection whose host is silent. few_bytes: the peer reads all bytes at
// once, so unacknowledged bytes also mean a dead host; otherwise they are normal back-pressure.
void watch(const Stream& stream, const Vigilance& vigilance, bool few_bytes);

// Reads pending bytes before the close: closing a socket with unread bytes resets the connection,
// and the peer would lose the last bytes of this side. Allocates no memory.
void close_gently(const Stream& stream);

}  // namespace rondo::net
