// Vigilance: how soon a host that answers nothing any more counts as dead, told to the kernel.
#pragma once

#include "transport/streams/stream.h"

namespace rondo::net {

struct Vigilance {
  int seconds = 20;  // RONDO_NET_TIMEOUT
};

// Ends a connection whose host is silent. few_bytes: what is sent is always read at once, so bytes
// that nobody acknowledges mean death, too; elsewhere that is normal back-pressure.
void watch(const Stream& stream, const Vigilance& vigilance, bool few_bytes);

// Closing a socket with unread bytes resets the connection, and the peer would lose what this side
// sent last. Needs no memory.
void close_gently(const Stream& stream);

}  // namespace rondo::net
