// Abstract Unix sockets: where the processes of one host reach each other.
//
// A name has 128 random bits, but /proc/net/unix shows it to everybody: it keeps listeners apart
// and is no secret. Names leave nothing behind in the file system and do not reach other network
// namespaces, so any process that can connect is on this host. Nothing here waits.
#pragma once

#include <string>

#include "base/result.h"
#include "transport/socket/socket.h"

namespace rondo::shm {

struct UnixListener {
  net::Socket fd;
  std::string name;  // hexadecimal digits, without the leading NUL
};
inline constexpr std::size_t kMaxSocketName = 64;
Result<UnixListener> open_unix_listener();  // kInvalidUsage: it may have none (seccomp)

// A connection, or the errno that says why there is none.
struct UnixConnection {
  net::Socket fd;
  int error = 0;
};
// EAGAIN: its backlog is full; ECONNREFUSED: nobody listens there, as far as this process sees.
UnixConnection connect_unix(const std::string& name);

// Whether the error may pass by itself, as others give back descriptors or memory.
bool is_shortage(int error);

// The process at the other end must be of this process's effective user, or of one that
// RONDO_UNIX_UIDS names.
Status may_join(int socket);

}  // namespace rondo::shm
