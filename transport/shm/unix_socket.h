// SPDX-License-Identifier: Apache-2.0
// Abstract Unix sockets, by which the processes of one host connect to each other.
//
// A name has 128 random bits, which makes it unique, but it is not secret: /proc/net/unix shows it
// to every user. Names leave no files behind and are not visible in other network namespaces, so
// any process that can connect is on this host. No function here waits.
#pragma once

#include <sys/types.h>

#include <span>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "transport/socket/socket.h"

namespace rondo::shm {

struct UnixListener {
  net::Socket fd;
  std::string name;  // hexadecimal digits, without the leading NUL
};
inline constexpr std::size_t kMaxSocketName = 64;
Result<UnixListener> open_unix_listener();  // kInvalidUsage: not permitted (seccomp)

// A connection, or the errno of the failure.
struct UnixConnection {
  net::Socket fd;
  int error = 0;
};
// EAGAIN: its backlog is full; ECONNREFUSED: no process that this one can reach listens there.
UnixConnection connect_unix(const std::string& name);

// True if the error can disappear when descriptors or memory are released elsewhere.
bool is_shortage(int error);

// OK if the process at the other end runs as this process's effective user or as one that
// RONDO_UNIX_UIDS names.
Status may_join(int socket);
Status may_join_user(uid_t uid);

// Passing file descriptors between processes of one host, over sockets of a UnixMeeting.
//
// Guarantees: a message arrives whole or not at all. If the receiver reaches its descriptor limit,
// it waits until it can open more. Every wait ends at the caller's deadline.
using net::Deadline;

// One message: an int and up to 32 descriptors.
inline constexpr std::size_t kMaxDescriptors = 32;
struct FdMessage {
  int value = 0;
  std::vector<Fd> fds;
};
Status send_fds(int socket, int value, std::span<const int> fds, const Deadline& deadline);
// kRemoteError: the other process closed the socket or sent another kind of message.
Result<FdMessage> receive_fds(int socket, const Deadline& deadline);

}  // namespace rondo::shm
