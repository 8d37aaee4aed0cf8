// SPDX-License-Identifier: Apache-2.0
// The folder in which the processes of a user open their status sockets: /tmp/rondo-UID, or
// RONDO_STATUS_DIR.
//
// Guarantees: the folder belongs to the user and has mode 0700, so no other user can open or
// replace a socket in it; a folder that does not is refused. A socket appears in it only once it
// accepts connections: one that refuses them belongs to a process that has ended. Nothing here
// waits. Cost: a few system calls.
//
//   RONDO_TRY(UserFolder folder, UserFolder::open_own());
//   RONDO_TRY(StatusSocket mine, StatusSocket::listen_in(folder, {getpid(), this_process()[0]}));
//   for (const SocketName& name : folder.sockets()) connect_status(folder.path_of(name));
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "transport/socket/socket.h"

namespace rondo::status {

// The name of a process's socket: "PID-PROCESS". Processes of two PID namespaces can have one pid;
// `process` is the first half of the process's ProcessId.
struct SocketName {
  int pid = 0;
  std::uint64_t process = 0;

  std::string text() const;
  static std::optional<SocketName> parse(std::string_view text);
  friend bool operator==(const SocketName&, const SocketName&) = default;
};

class UserFolder {
 public:
  // Creates the folder if it does not exist.
  static Result<UserFolder> open_own();
  // The folder of user `uid`; kInvalidArgument if there is none.
  static Result<UserFolder> find(uid_t uid);

  const std::string& path() const { return path_; }
  std::string path_of(const SocketName& name) const { return path_ + '/' + name.text(); }
  std::vector<SocketName> sockets() const;  // by pid
  // Removes sockets of processes that have ended; looks at up to `max` sockets.
  void sweep(std::size_t max) const;

 private:
  explicit UserFolder(std::string path) : path_(std::move(path)) {}

  std::string path_;
};

// A listening socket in a folder. The destructor removes it from there, except in a forked child.
class StatusSocket {
 public:
  static Result<StatusSocket> listen_in(const UserFolder& folder, const SocketName& name);
  StatusSocket(StatusSocket&& other) noexcept = default;
  StatusSocket& operator=(StatusSocket&&) = delete;
  ~StatusSocket();

  const net::Socket& socket() const { return socket_; }

 private:
  StatusSocket(net::Socket socket, std::string path)
      : socket_(std::move(socket)), path_(std::move(path)) {}

  net::Socket socket_;
  std::string path_;
};

// A connection to a status socket, or the errno: ECONNREFUSED, ENOENT: its process has ended.
struct StatusConnection {
  net::Socket socket;
  int error = 0;
};
StatusConnection connect_status(const std::string& path);

}  // namespace rondo::status
