// SPDX-License-Identifier: Apache-2.0
#include "transport/status/user_folder.h"

#include <dirent.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include "base/env.h"

namespace rondo::status {
namespace {

constexpr int kStatusBacklog = 128;

std::string path_of_user(uid_t uid) {
  if (std::string named = env::get_string("RONDO_STATUS_DIR"); !named.empty()) return named;
  return fmt::format("/tmp/rondo-{}", uid);
}

// An error if another user can open or replace sockets in the folder.
Status check_folder(const std::string& path, uid_t uid) {
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) {
    Error error = fail_errno(errno, "no status folder {}", path);
    if (errno == ENOENT) error.code = StatusCode::kInvalidArgument;
    return error;
  }
  constexpr mode_t kOthers = 077;
  if (S_ISDIR(info.st_mode) && info.st_uid == uid && (info.st_mode & kOthers) == 0)
    return ok_status();
  return fail(StatusCode::kSystemError,
              "the status folder {} is not a folder of user {} with mode 0700: remove it, or name "
              "another one by RONDO_STATUS_DIR",
              path, uid);
}

std::optional<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return std::nullopt;
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

const sockaddr* raw(const sockaddr_un& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

}  // namespace

std::string SocketName::text() const { return fmt::format("{}-{:016x}", pid, process); }

std::optional<SocketName> SocketName::parse(std::string_view text) {
  SocketName name;
  const char* const end = text.data() + text.size();
  const auto pid = std::from_chars(text.data(), end, name.pid);
  if (pid.ec != std::errc() || pid.ptr == end || *pid.ptr != '-') return std::nullopt;
  const auto process = std::from_chars(pid.ptr + 1, end, name.process, 16);
  if (process.ec != std::errc() || name.pid <= 0 || name.text() != text) return std::nullopt;
  return name;
}

Result<UserFolder> UserFolder::open_own() {
  const uid_t own = geteuid();
  const std::string path = path_of_user(own);
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    return fail_errno(errno, "cannot make the status folder {}", path);
  RONDO_CHECK_OK(check_folder(path, own));
  return UserFolder(path);
}

Result<UserFolder> UserFolder::find(uid_t uid) {
  const std::string path = path_of_user(uid);
  RONDO_CHECK_OK(check_folder(path, uid));
  return UserFolder(path);
}

std::vector<SocketName> UserFolder::sockets() const {
  std::vector<SocketName> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(path_.c_str()), closedir);
  while (const dirent* entry = directory ? readdir(directory.get()) : nullptr)
    if (const auto name = SocketName::parse(entry->d_name)) names.push_back(*name);
  std::sort(names.begin(), names.end(), [](const SocketName& a, const SocketName& b) {
    return a.pid != b.pid ? a.pid < b.pid : a.process < b.process;
  });
  return names;
}

void UserFolder::sweep(std::size_t max) const {
  for (const SocketName& name : sockets()) {
    if (max-- == 0) return;
    const std::string path = path_of(name);
    if (connect_status(path).error == ECONNREFUSED) unlink(path.c_str());
  }
}

// Listens under a temporary name first: a socket that is bound but does not listen yet would look
// like one whose process has ended.
Result<StatusSocket> StatusSocket::listen_in(const UserFolder& folder, const SocketName& name) {
  const std::string path = folder.path_of(name), early = folder.path() + "/." + name.text();
  const auto address = address_of(early);
  if (!address)
    return fail(StatusCode::kSystemError, "the path of the status socket {} is too long: {} bytes",
                early, early.size());
  net::Socket socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return fail_errno(errno, "cannot create a status socket");
  unlink(early.c_str());
  if (bind(socket.get(), raw(*address), sizeof(*address)) != 0)
    return fail_errno(errno, "cannot bind the status socket {}", early);
  if (listen(socket.get(), kStatusBacklog) != 0 || rename(early.c_str(), path.c_str()) != 0) {
    const int error = errno;
    unlink(early.c_str());
    return fail_errno(error, "cannot listen at the status socket {}", path);
  }
  return StatusSocket(std::move(socket), path);
}

StatusSocket::~StatusSocket() {
  if (socket_) unlink(path_.c_str());
}

StatusConnection connect_status(const std::string& path) {
  const auto address = address_of(path);
  if (!address) return {{}, ENAMETOOLONG};
  net::Socket socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return {{}, errno};
  while (connect(socket.get(), raw(*address), sizeof(*address)) != 0)
    if (errno != EINTR) return {{}, errno};
  return {std::move(socket), 0};
}

}  // namespace rondo::status
