// Passing file descriptors between processes of one host, over sockets of a UnixMeeting.
//
// Guarantees: a message arrives whole or not at all. If the receiver reaches its descriptor limit,
// it waits until it can open more. Every wait ends at the caller's deadline.
#pragma once

#include <span>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "transport/socket/deadline.h"

namespace rondo::shm {

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
