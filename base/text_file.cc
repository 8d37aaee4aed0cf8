#include "base/text_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

namespace rondo {
namespace {

std::string begin_of_error(std::string_view what, const std::string& path) {
  return fmt::format("cannot read the {} '{}'", what, path);
}

Error unreadable(std::string_view what, const std::string& path) {
  const int error = errno;
  return fail_errno_text(error, begin_of_error(what, path));
}

Result<std::string> read_at_most(const Fd& file, std::string_view what, const std::string& path,
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
  return read_at_most(file, what, path, limit);
}

Result<std::string> read_text_file(std::string_view what, const std::string& path,
                                   std::size_t limit) {
  RONDO_TRY(std::string text, read_start_of_file(what, path, limit + 1));
  if (text.size() > limit)
    return fail(StatusCode::kInvalidUsage, "{}: it has more than {} bytes",
                begin_of_error(what, path), limit);
  return text;
}

}  // namespace rondo
