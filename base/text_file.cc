// SPDX-License-Identifier: Apache-2.0
#include "base/text_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>

namespace rondo {
namespace {

std::string begin_of_error(std::string_view what, const std::string& path) {
  return fmt::format("cannot read the {} '{}'", what, path);
}

Error unreadable(std::string_view what, const std::string& path) {
  const int error = errno;
  return fail_errno_text(error, begin_of_error(what, path));
}

Result<std::string> read_up_to(const Fd& file, std::string_view what, const std::string& path,
                               std::size_t limit) {
  std::string text;
  char buffer[4096];
  while (text.size() < limit) {
    const std::size_t wanted = std::min(sizeof buffer, limit - text.size());
    const ssize_t got = ::read(file.get(), buffer, wanted);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return unreadable(what, path);
    if (got == 0) break;
    text.append(buffer, static_cast<std::size_t>(got));
  }
  return text;
}

}  // namespace

const char* kind_of_file(unsigned mode) {
  switch (mode & S_IFMT) {
    case S_IFREG:
      return "a regular file";
    case S_IFDIR:
      return "a folder";
    case S_IFIFO:
      return "a FIFO";
    case S_IFCHR:
    case S_IFBLK:
      return "a device";
    default:
      return "a socket";
  }
}

Result<Fd> open_regular_file(std::string_view what, const std::string& path) {
  // O_NONBLOCK: open() must not wait for a FIFO's writer. The FIFO is refused below.
  Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat about {};
  if (!file || ::fstat(file.get(), &about) != 0) return unreadable(what, path);
  if (!S_ISREG(about.st_mode))
    return fail(StatusCode::kInvalidUsage, "{}: it is {}; name a regular file",
                begin_of_error(what, path), kind_of_file(about.st_mode));
  return file;
}

Result<std::string> read_start_of_file(std::string_view what, const std::string& path,
                                       std::size_t limit) {
  RONDO_TRY(const Fd file, open_regular_file(what, path));
  return read_up_to(file, what, path, limit);
}

Result<std::string> read_text_file(std::string_view what, const std::string& path,
                                   std::size_t limit) {
  RONDO_TRY(std::string text, read_start_of_file(what, path, limit + 1));
  if (text.size() > limit)
    return fail(StatusCode::kInvalidUsage, "{}: it has more than {} bytes",
                begin_of_error(what, path), limit);
  return text;
}

namespace {

// The descriptor that the path names, or -1.
int own_descriptor(std::string_view path) {
  if (path == "/dev/stdout") return 1;
  if (path == "/dev/stderr") return 2;
  for (const std::string_view folder : {"/dev/fd/", "/proc/self/fd/"}) {
    if (!path.starts_with(folder)) continue;
    int number = -1;
    const auto digits = path.substr(folder.size());
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error == std::errc() && end == digits.data() + digits.size()) return number;
  }
  return -1;
}

Error refuse(const std::string& path, std::string_view why) {
  return fail(StatusCode::kSystemError, "'{}': {}", path, why);
}

Status write_all(const Fd& file, const std::string& path, const std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t put = write(file.get(), text.data() + at, text.size() - at);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return refuse(path, std::strerror(errno));
    at += static_cast<std::size_t>(put);
  }
  return ok_status();
}

}  // namespace

Result<Fd> open_output(const std::string& path, OutputMode mode, int permissions) {
  if (const int own = own_descriptor(path); own >= 0) {
    Fd copy = Fd::duplicate_of(own);
    if (!copy) return refuse(path, std::strerror(errno));
    return copy;
  }
  const int append = mode == OutputMode::kAppendLines ? O_APPEND : 0;
  // O_NONBLOCK: a FIFO without a reader is an error; open() does not wait for one.
  Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | append,
                 permissions));
  if (!file && errno == ELOOP) return refuse(path, "is a symbolic link: name the file itself");
  if (!file) return refuse(path, std::strerror(errno));
  struct stat about {};
  if (fstat(file.get(), &about) != 0) return refuse(path, std::strerror(errno));
  fcntl(file.get(), F_SETFL, append);
  if (S_ISCHR(about.st_mode)) return file;
  if (about.st_uid != geteuid()) return refuse(path, "belongs to another user");
  if (!S_ISREG(about.st_mode)) return file;
  if (about.st_nlink > 1) return refuse(path, "has another name too (a hard link)");
  if (ftruncate(file.get(), 0) != 0) return refuse(path, std::strerror(errno));
  return file;
}

Status write_output(const std::string& path, const std::string& text) {
  struct stat about {};
  const bool exists = lstat(path.c_str(), &about) == 0;
  const bool plain = !exists || S_ISREG(about.st_mode) || S_ISLNK(about.st_mode);
  if (own_descriptor(path) >= 0 || !plain) {
    RONDO_TRY(const Fd file, open_output(path, OutputMode::kReplace));
    return write_all(file, path, text);
  }
  const std::string beside = fmt::format("{}.{}.part", path, getpid());
  RONDO_TRY(Fd file, open_output(beside, OutputMode::kReplace));
  Status written = write_all(file, path, text);
  file.reset();
  if (written.ok() && std::rename(beside.c_str(), path.c_str()) != 0)
    written = refuse(path, std::strerror(errno));
  if (!written.ok()) unlink(beside.c_str());
  return written;
}

namespace {

std::string part_of_path(std::string_view host) {
  std::string part(host);
  const auto leaves = [](unsigned char c) { return c == '/' || c < ' ' || c == 127; };
  std::replace_if(part.begin(), part.end(), leaves, '_');
  if (part.starts_with('.')) part[0] = '_';
  return part;
}

}  // namespace

std::string expand_path(std::string_view pattern, std::string_view host) {
  std::string path;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%' || i + 1 == pattern.size()) {
      path += pattern[i];
      continue;
    }
    switch (pattern[++i]) {
      case 'h':
        path += part_of_path(host);
        break;
      case 'p':
        path += std::to_string(getpid());
        break;
      case '%':
        path += '%';
        break;
      default:
        path += '%', path += pattern[i];
        break;
    }
  }
  return path;
}

std::string own_host_name() {
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  return name;
}

}  // namespace rondo
