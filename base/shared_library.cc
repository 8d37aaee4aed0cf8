// SPDX-License-Identifier: Apache-2.0
#include "base/shared_library.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

#include "base/text_file.h"

namespace rondo {
namespace {

// Fills the closed ones of descriptors 0, 1 and 2: for its lifetime, after keep() permanently.
class FilledStandard {
 public:
  FilledStandard() {
    for (;;) {  // open() returns the lowest free number
      const int fd = ::open("/", O_PATH | O_CLOEXEC);
      if (fd < 0) return;
      if (fd > STDERR_FILENO) {
        ::close(fd);
        return;
      }
      filled_[static_cast<std::size_t>(fd)] = true;
    }
  }
  ~FilledStandard() {
    for (int fd = 0; fd <= STDERR_FILENO; ++fd) {
      if (!filled_[static_cast<std::size_t>(fd)]) continue;
      const int flags =
          ::fcntl(fd, F_GETFL);  // another thread may have replaced it by its own file
      if (flags >= 0 && (flags & O_PATH) != 0) ::close(fd);
    }
  }
  FilledStandard(const FilledStandard&) = delete;
  FilledStandard& operator=(const FilledStandard&) = delete;

  void keep() { filled_ = {}; }

 private:
  std::array<bool, STDERR_FILENO + 1> filled_{};
};

// "a FIFO" or the like if the path is not a regular file; nullptr if it is, or does not exist.
const char* wrong_kind(const std::string& path) {
  struct stat about {};
  if (::stat(path.c_str(), &about) != 0 || S_ISREG(about.st_mode)) return nullptr;
  return kind_of_file(about.st_mode);
}

// The same for a plain name, which the loader looks up.
const char* wrong_kind_on_path(const std::string& name) {
  const char* const variable = ::secure_getenv("LD_LIBRARY_PATH");
  std::string_view left = variable == nullptr ? "" : variable;
  while (!left.empty()) {
    const std::size_t end = std::min(left.find_first_of(":;"), left.size());
    const std::string path = fmt::format("{}/{}", left.substr(0, end), name);
    if (::access(path.c_str(), F_OK) == 0) return wrong_kind(path);
    left.remove_prefix(std::min(end + 1, left.size()));
  }
  return nullptr;
}

}  // namespace

Result<void*> load_library(const std::string& file) {
  if (file.empty()) return ::dlopen(nullptr, RTLD_NOW | RTLD_LOCAL);
  const bool is_path = file.find('/') != std::string::npos;
  if (const char* const kind = is_path ? wrong_kind(file) : wrong_kind_on_path(file))
    return fail(StatusCode::kInvalidUsage, "it is {}, not a regular file", kind);
  FilledStandard filled;
  void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) {
    filled.keep();
    return library;
  }
  const char* const why = ::dlerror();
  return fail(StatusCode::kInvalidUsage, "{}", why == nullptr ? "" : why);
}

}  // namespace rondo
