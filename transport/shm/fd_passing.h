// Passing file descriptors between processes of one host over abstract Unix sockets.
//
// A socket's name is random (128 bits) and known only to ranks that joined the rendezvous; the
// peer's user must be ours. All waits end with their caller's patience. Abstract names leave
// nothing behind in the file system and do not reach other network namespaces: whoever can connect
// shares the host.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "transport/socket/patience.h"

namespace rondo::shm {

using net::Patience;

// A listening abstract socket with a fresh random name.
struct UnixListener {
  Fd fd;
  std::string name;  // hexadecimal digits, without the leading NUL
};
inline constexpr std::size_t kMostSocketName = 64;
Result<UnixListener> open_unix_listener();
Result<Fd> accept_unix(const UnixListener& listener, const Patience& patience);
// kInvalidArgument where the name is longer than any listener's.
Result<Fd> connect_unix(const std::string& name, const Patience& patience);

// One message: an int and up to 32 descriptors.
inline constexpr std::size_t kMostDescriptors = 32;
struct FdMessage {
  int value = 0;
  std::vector<Fd> fds;
};
Done send_fds(int socket, int value, std::span<const int> fds, const Patience& patience);
Result<FdMessage> receive_fds(int socket, const Patience& patience);

}  // namespace rondo::shm
